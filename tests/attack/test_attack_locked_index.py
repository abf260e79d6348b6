"""Files that cannot be used at the moment: no answer waits for them but those that need them, and these say so."""

import errno
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from raw_http import HEAD, JSON_HEAD, answered, connect, exchange, health, read_all, until
from small_index import INCONCLUSIVE, MET, SmallIndex
from small_tracker import as_corpus, some_report
from tiny_models import build

from gedbd.corpora.feedback import FEEDBACK_FILE
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.service.app import create_app
from gedbd.service.middleware import Settings
from gedbd.triage.storage.index_folder import FILE
from gedbd.triage.stored_index import open_index

CLOSE = b"Connection: close\r\n"
ADD = b'{"issue_id": "a-new-one", "title": "Attachment is lost"}'
SEARCH = b'{"title": "attachment preview stops"}'
JUDGE = b'{"report": {"title": "Attachment is lost"}, "candidate": "12", "verdict": "accept"}'


def post(path: bytes, body: bytes) -> bytes:
    return b"POST %s HTTP/1.1\r\n%s%sContent-Length: %d\r\n\r\n%s" % (path, JSON_HEAD, CLOSE, len(body), body)


def get(path: bytes) -> bytes:
    return b"GET %s HTTP/1.1\r\n%s%s\r\n" % (path, HEAD, CLOSE)


def status_of(port: int, request: bytes) -> int:
    return int(exchange(port, request).split()[1])


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Somebody else writes to a file and does not let go."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


@pytest.mark.integration
def test_a_locked_index_keeps_nothing_waiting_but_changes(listening, tmp_path):
    """More requests want to change the index than there are threads."""
    build(tmp_path / "index", as_corpus([some_report(number) for number in range(10)]))
    index = open_index(tmp_path / "index", str(tmp_path / "cache"))
    app = create_app(index)
    port = listening(app)
    assert status_of(port, post(b"/api/search", SEARCH)) == 200
    with ExitStack() as changing:
        with locked(index.folder / FILE):
            lines = [changing.enter_context(connect(port)) for _ in range(6)]
            for line in lines:
                line.sendall(post(b"/api/reports", ADD))
            until(lambda: len(app.state.service.changes.unfinished) == len(lines))
            # The lock is held until all of these are answered.
            assert health(port) == 200
            for request in (get(b"/"), get(b"/page/app.js"), get(b"/metrics"), post(b"/api/search", SEARCH)):
                assert status_of(port, request) == 200
        for line in lines:
            assert answered(read_all(line))[0] in (200, 503)
    assert index.get("a-new-one") is not None


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


ADDING = ("POST", "/api/reports", ADD, "add")
REPLACED = StoreUnavailable("index.sqlite was replaced: start the service again", 7)
FAULTS = [
    OSError(errno.ENOSPC, "No space left on device"),
    PermissionError(errno.EACCES, "Permission denied"),
    OSError(errno.EMFILE, "Too many open files"),
    sqlite3.OperationalError("database or disk is full"),
    sqlite3.OperationalError("database is locked"),
    sqlite3.DatabaseError("database disk image is malformed"),
    TimeoutError("the disk did not answer"),
]


@pytest.mark.parametrize(
    ("method", "path", "body", "broken", "fault"),
    [
        ("POST", "/api/search", SEARCH, "search", REPLACED),
        (*ADDING, REPLACED),
        ("GET", "/api/reports/12", None, "get", REPLACED),
        ("DELETE", "/api/reports/12", None, "delete", REPLACED),
        ("POST", "/api/feedback", JUDGE, "get", REPLACED),
        *((*ADDING, fault) for fault in FAULTS),
    ],
)
def test_a_file_that_cannot_be_used_is_said_with_a_time_and_is_no_bug(
    client_of, index, monkeypatch, caplog, method, path, body, broken, fault
):
    def fail(*_args: object) -> None:
        raise fault

    monkeypatch.setattr(index, broken, fail)
    answer = client_of().request(method, path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 503
    assert "retry-after" in answer.headers
    if fault is REPLACED:
        assert answer.json() == {"detail": str(fault)}
        assert answer.headers["retry-after"] == "7"
    lines = [record for record in caplog.records if record.name == "gedbd"]
    assert [(record.exc_info, "\n" in record.getMessage()) for record in lines] == [(None, False)]
    assert str(fault) in caplog.text


@pytest.mark.parametrize("bug", [ZeroDivisionError("oh"), sqlite3.ProgrammingError("closed"), KeyError("x")], ids=repr)
def test_a_bug_leaves_a_traceback(index, listening, monkeypatch, caplog, bug):
    def fail(*_args: object) -> None:
        raise bug

    monkeypatch.setattr(index, "get", fail)
    caplog.set_level("ERROR", "uvicorn.error")
    port = listening(create_app(index))
    raw = exchange(port, get(b"/api/reports/1%C3%A9FAKED"))
    assert answered(raw) == (500, {"detail": "internal error: see the log of the service"})
    assert f"GET /api/reports/1%C3%A9FAKED failed: {bug!r}" in caplog.messages
    assert any(record.exc_info for record in caplog.records)
    assert b'status="500"} 1.0' in exchange(port, get(b"/metrics"))


@pytest.mark.integration
def test_a_locked_feedback_file_keeps_no_search_waiting(index, listening):
    port = listening(create_app(index, Settings(timeout_s=0.3)))
    with ExitStack() as judging, locked(index.folder / FEEDBACK_FILE):
        lines = [judging.enter_context(connect(port)) for _ in range(3)]
        for line in lines:
            line.sendall(post(b"/api/feedback", JUDGE))
        assert status_of(port, post(b"/api/search", SEARCH)) == 200
        for line in lines:
            assert answered(read_all(line))[0] == 503
    until(lambda: status_of(port, post(b"/api/feedback", JUDGE)) == 200)


def test_the_target_of_a_new_model_counts_at_once(client_of, index):
    client, ask = client_of(), {"title": "large attachment sending stops"}
    assert client.post("/api/search", json=ask).json()["threshold"] == MET.threshold
    index.target, index.name = INCONCLUSIVE, "renamed"
    found = client.post("/api/search", json=ask).json()
    assert (found["tracker"], found["threshold"], found["target"]["status"]) == ("renamed", None, "inconclusive")


@pytest.mark.integration
def test_no_route_and_no_refusal_waits_for_a_thread(index: SmallIndex, listening):
    """Others may hold all threads that the framework lends: nothing here needs one of them."""
    import anyio.to_thread

    app, gate = create_app(index), threading.Event()

    @app.get("/threads")
    async def threads(count: int) -> None:
        anyio.to_thread.current_default_thread_limiter().total_tokens = count

    @app.get("/blocks")
    def blocks() -> bool:
        return gate.wait(60)

    port = listening(app)
    assert status_of(port, get(b"/threads?count=1")) == 200
    with connect(port) as line:
        line.sendall(get(b"/blocks"))
        try:
            until(lambda: health(port) == 200)
            for path in (b"/", b"/page/app.js", b"/docs", b"/metrics", b"/nowhere", b"/api/reports/12"):
                assert status_of(port, get(path)) == (404 if path == b"/nowhere" else 200)
            for path, body in (
                (b"/api/search", SEARCH),
                (b"/api/search", b"{"),
                (b"/api/reports", ADD),
                (b"/api/feedback", JUDGE),
            ):
                assert status_of(port, post(path, body)) == (400 if body == b"{" else 200)
        finally:
            gate.set()
        assert read_all(line).startswith(b"HTTP/1.1 200 ")
