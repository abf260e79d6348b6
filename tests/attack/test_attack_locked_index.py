"""Files that cannot be used at the moment: no answer waits for them but those that need them, and these say so."""

import errno
import sqlite3
import threading

import pytest
from fastapi.testclient import TestClient
from raw_http import HEAD, JSON_HEAD, answered, connect, exchange, health, read_all, until
from small_index import INCONCLUSIVE, MET, SmallIndex

from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.sampling.feedback_labels import FEEDBACK_FILE
from gedbd.service.app import Settings, create_app
from gedbd.triage.storage.index_store import FILE

CLOSE = b"Connection: close\r\n"
ADD = b'{"issue_id": "a-new-one", "title": "Attachment is lost"}'
SEARCH = b'{"title": "attachment preview stops"}'
JUDGE = b'{"report": {"title": "Attachment is lost"}, "candidate": "12", "verdict": "accept"}'


def post(path: bytes, body: bytes) -> bytes:
    return b"POST %s HTTP/1.1\r\n%s%sContent-Length: %d\r\n\r\n%s" % (path, JSON_HEAD, CLOSE, len(body), body)


def get(path: bytes) -> bytes:
    return b"GET %s HTTP/1.1\r\n%s%s\r\n" % (path, HEAD, CLOSE)


@pytest.mark.slow  # builds an index
def test_a_locked_index_keeps_nothing_waiting_but_changes(listening, stored_index):
    """Somebody else writes to the index for long, and more requests want to change it than there are threads."""
    app = create_app(stored_index)
    port = listening(app)
    assert exchange(port, post(b"/api/search", SEARCH)).startswith(b"HTTP/1.1 200 ")
    other = sqlite3.connect(stored_index.folder / FILE, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        changing = [connect(port) for _ in range(6)]
        for line in changing:
            line.sendall(post(b"/api/reports", ADD))
        until(lambda: app.state.service.changes.slots_in_use == len(changing))
        # The lock is held until all of these are answered.
        assert health(port) == 200
        assert exchange(port, get(b"/")).startswith(b"HTTP/1.1 200 ")
        assert exchange(port, get(b"/page/app.js")).startswith(b"HTTP/1.1 200 ")
        assert exchange(port, get(b"/metrics")).startswith(b"HTTP/1.1 200 ")
        assert exchange(port, post(b"/api/search", SEARCH)).startswith(b"HTTP/1.1 200 ")
    finally:
        other.execute("ROLLBACK")
        other.close()
    for line in changing:
        status, _ = answered(read_all(line))
        assert status in (200, 503)
        line.close()
    assert stored_index.get("a-new-one") is not None
    stored_index.delete("a-new-one")


def test_changes_that_wait_leave_the_threads_of_searches_free(client_of, index, monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr(index, "add", lambda reports: {"1": "added"} if gate.wait(20) else {})
    client = client_of(searches_at_once=1, changes_waiting=2)
    answers: list[int] = []
    ask = {"issue_id": "1", "title": "x"}
    adding = [
        threading.Thread(target=lambda: answers.append(client.post("/api/reports", json=ask).status_code))
        for _ in range(4)
    ]
    for thread in adding:
        thread.start()
    until(lambda: answers)
    assert client.post("/api/search", json={"title": "large attachment"}).status_code == 200
    assert client.get("/api/reports/12").status_code == 200
    gate.set()
    for thread in adding:
        thread.join()
    assert sorted(answers) == [200, 200, 200, 503]


@pytest.mark.parametrize(
    ("method", "path", "body", "broken"),
    [
        ("POST", "/api/search", SEARCH, "search"),
        ("POST", "/api/reports", ADD, "add"),
        ("GET", "/api/reports/12", None, "get"),
        ("DELETE", "/api/reports/12", None, "delete"),
        ("POST", "/api/feedback", JUDGE, "get"),
    ],
)
def test_an_index_that_cannot_be_used_is_said_with_a_time(
    client_of, index, monkeypatch, caplog, method, path, body, broken
):
    def fail(*_args: object) -> None:
        raise StoreUnavailable("index.sqlite was replaced: start the service again", 7)

    monkeypatch.setattr(index, broken, fail)
    answer = client_of().request(method, path, content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()) == (
        503,
        {"detail": "index.sqlite was replaced: start the service again"},
    )
    assert answer.headers["retry-after"] == "7"
    lines = [record for record in caplog.records if record.name == "gedbd"]
    assert [(record.exc_info, "\n" in record.getMessage()) for record in lines] == [(None, False)]


@pytest.mark.parametrize(
    "fault",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        PermissionError(errno.EACCES, "Permission denied"),
        OSError(errno.EMFILE, "Too many open files"),
        sqlite3.OperationalError("database or disk is full"),
        sqlite3.OperationalError("database is locked"),
        sqlite3.OperationalError("disk I/O error"),
        sqlite3.DatabaseError("database disk image is malformed"),
        TimeoutError("the disk did not answer"),
    ],
    ids=repr,
)
def test_a_fault_of_the_disk_is_no_bug(client_of, index, monkeypatch, caplog, fault):
    def fail(*_args: object) -> None:
        raise fault

    monkeypatch.setattr(index, "add", fail)
    answer = client_of().post("/api/reports", content=ADD, headers={"Content-Type": "application/json"})
    assert answer.status_code == 503
    assert "retry-after" in answer.headers
    assert [record.exc_info for record in caplog.records if record.name == "gedbd"] == [None]
    assert str(fault) in caplog.text


@pytest.mark.parametrize("bug", [ZeroDivisionError("oh"), sqlite3.ProgrammingError("closed"), KeyError("x")], ids=repr)
def test_a_bug_leaves_a_traceback(index, listening, monkeypatch, caplog, bug):
    def fail(*_args: object) -> None:
        raise bug

    monkeypatch.setattr(index, "get", fail)
    caplog.set_level("ERROR", "uvicorn.error")
    raw = exchange(listening(create_app(index)), get(b"/api/reports/1%C3%A9FAKED"))
    assert answered(raw) == (500, {"detail": "internal error: see the log of the service"})
    assert f"GET /api/reports/1%C3%A9FAKED failed: {bug!r}" in caplog.messages
    assert any(record.exc_info for record in caplog.records)


def test_a_locked_feedback_file_keeps_no_search_waiting(index, listening):
    port = listening(create_app(index, Settings(timeout_s=0.3)))
    other = sqlite3.connect(index.folder / FEEDBACK_FILE, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        judging = [connect(port) for _ in range(3)]
        for line in judging:
            line.sendall(post(b"/api/feedback", JUDGE))
        assert exchange(port, post(b"/api/search", SEARCH)).startswith(b"HTTP/1.1 200 ")
        for line in judging:
            assert answered(read_all(line))[0] == 503
            line.close()
    finally:
        other.execute("ROLLBACK")
        other.close()
    until(lambda: exchange(port, post(b"/api/feedback", JUDGE)).startswith(b"HTTP/1.1 200 "))


def test_the_target_of_a_new_model_counts_at_once(index):
    with TestClient(create_app(index), base_url="http://localhost") as client:
        ask = {"title": "large attachment sending stops"}
        assert client.post("/api/search", json=ask).json()["threshold"] == MET.threshold
        index.target = INCONCLUSIVE
        index.name = "renamed"
        found = client.post("/api/search", json=ask).json()
    assert (found["tracker"], found["threshold"], found["target"]["status"]) == ("renamed", None, "inconclusive")


def test_no_route_and_no_refusal_waits_for_a_thread(index: SmallIndex, listening):
    """Others may hold all threads that the framework lends: nothing here needs one of them."""
    import anyio.to_thread

    app = create_app(index)

    @app.get("/threads")
    async def threads(count: int) -> dict[str, float]:
        limiter = anyio.to_thread.current_default_thread_limiter()
        limiter.total_tokens = count
        return {"was": limiter.total_tokens}

    port = listening(app)
    assert exchange(port, get(b"/threads?count=1")).startswith(b"HTTP/1.1 200 ")
    gate = threading.Event()

    @app.get("/blocks")
    def blocks() -> bool:
        return gate.wait(60)

    with connect(port) as line:
        line.sendall(get(b"/blocks"))
        try:
            until(lambda: health(port) == 200)
            for request in (
                get(b"/"),
                get(b"/page/app.js"),
                get(b"/docs"),
                get(b"/metrics"),
                get(b"/nowhere"),
                get(b"/api/reports/12"),
                post(b"/api/search", SEARCH),
                post(b"/api/search", b"{"),
                post(b"/api/reports", ADD),
                post(b"/api/feedback", JUDGE),
            ):
                assert exchange(port, request).startswith((b"HTTP/1.1 200", b"HTTP/1.1 400", b"HTTP/1.1 404"))
        finally:
            gate.set()
        assert read_all(line).startswith(b"HTTP/1.1 200 ")
