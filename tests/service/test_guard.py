import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from gedbd.service.app import create_app
from gedbd.service.middleware import Settings

TOKEN = "a token of some length"
JSON = {"Content-Type": "application/json"}


def chunked(port: int, *chunks: bytes) -> bytes:
    """Sends a body in chunks without saying how long it is, and gives the answer."""
    head = b"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
        line.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        for chunk in chunks:
            line.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        return b"".join(iter(lambda: line.recv(65536), b""))


def test_all_but_health_and_page_ask_for_the_token(client_of):
    client = client_of(token=TOKEN)
    for path in ("/api/health", "/", "/page/app.js"):
        assert client.get(path).status_code == 200
    for path in ("/metrics", "/docs", "/openapi.json", "/api/reports/12", "/page", "/nowhere"):
        answer = client.get(path)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "token" in answer.json()["detail"]
    for given in ("", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer", "Bearer \xe9"):
        assert client.get("/metrics", headers={"Authorization": given.encode("latin-1")}).status_code == 401
    known = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/metrics", headers=known).status_code == 200
    assert "HTTPBearer" in client.get("/openapi.json", headers=known).text


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[", "localhost@evil.example:80"])
def test_other_host_names_are_refused(client_of, host):
    answer = client_of().get("/api/health", headers={"Host": host})
    assert answer.status_code == 400
    assert "host name" in answer.json()["detail"]


def test_known_host_names_are_taken(client_of):
    client = client_of(names=("bugs.example",))
    for host in ("localhost:8080", "127.0.0.1", "[::1]:8080", "BUGS.example:443"):
        assert client.get("/api/health", headers={"Host": host}).status_code == 200
    assert client_of(names=("*",)).get("/api/health", headers={"Host": "any.example"}).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_only_json_is_taken(client_of, kind):
    answer = client_of().post("/api/search", content=b'{"title": "x"}', headers={"Content-Type": kind})
    assert answer.status_code == 415
    assert "JSON" in answer.json()["detail"]


def test_answers_tell_browsers_to_stay_here(client_of):
    client = client_of()
    for answer in (client.get("/"), client.get("/nowhere"), client.get("/", headers={"Host": "evil.example"})):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in answer.headers


def test_a_body_that_says_it_is_too_large_is_not_read(client_of):
    client = client_of(max_body_bytes=100)
    large = client.post("/api/search", content=b"x" * 101, headers=JSON)
    assert (large.status_code, large.json()["detail"]) == (413, "the request is larger than 100 bytes")
    exact = b'{"title": "x"}'.ljust(100)
    assert client.post("/api/search", content=exact, headers=JSON).status_code == 200


def test_a_body_in_chunks_is_cut_off_where_it_becomes_too_large(index, listening):
    port = listening(create_app(index, Settings(max_body_bytes=100)))
    assert chunked(port, b"x" * 60, b"x" * 60).startswith(b"HTTP/1.1 413 ")
    assert chunked(port, b'{"title": ', b'"x"}', b"").startswith(b"HTTP/1.1 200 ")


def test_a_body_that_never_ends_is_given_up(index, listening):
    port = listening(create_app(index, Settings(timeout_s=0.05)))
    answer = chunked(port, b"{")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"not complete within 0.05 seconds" in answer


@pytest.mark.integration
def test_slow_and_surplus_searches_are_sent_away(client_of, index):
    client = client_of(timeout_s=0.1, searches_at_once=1, searches_waiting=1)
    slow, quick = {"title": "wait for the file go"}, {"title": "large attachment"}
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(client.post, "/api/search", json=slow) for _ in range(2)]
        late = [each.result() for each in waiting]
    assert {answer.status_code for answer in late} == {503}
    assert "no answer within 0.1 seconds" in late[0].json()["detail"]
    first = client.post("/api/search", json=slow)
    busy = client.post("/api/search", json=quick)
    (index.folder / "go").touch()
    assert first.status_code == busy.status_code == 503
    assert "Retry-After" in busy.headers


@pytest.mark.integration
def test_a_request_that_breaks_off_is_not_carried_out(index):
    parts = [
        {"type": "http.request", "body": b'{"issue_id": "90", "title": "cut"}', "more_body": True},
        {"type": "http.disconnect"},
    ]
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/api/reports", "headers": headers, "query_string": b""}
    sent = []

    async def receive():
        return parts.pop(0)

    async def send(message):
        sent.append(message)

    asyncio.run(create_app(index)(scope, receive, send))
    assert sent[0]["status"] == 400
    assert index.get("90") is None
