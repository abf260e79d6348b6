"""Bodies: how long they say they are, how they are written, and how many are held at once."""

import logging

import pytest
from raw_http import HEAD, JSON_HEAD, answered, connect, exchange, health
from small_index import SmallIndex

from gedbd.service.app import create_app
from gedbd.service.webhook import Webhook

CLOSE = b"Connection: close\r\n"
PATHS = (b"/api/search", b"/api/reports", b"/api/feedback", b"/webhooks/github")
LENGTHS = {
    "negative": b"Content-Length: -1\r\n",
    "5,000 digits": b"Content-Length: " + b"9" * 5000 + b"\r\n",
    "19 digits": b"Content-Length: 9223372036854775807\r\n",
    "two": b"Content-Length: 2\r\nContent-Length: 3\r\n",
    "two in one": b"Content-Length: 2, 3\r\n",
    "plus": b"Content-Length: +5\r\n",
    "superscript": "Content-Length: ²\r\n".encode(),
    "hexadecimal": b"Content-Length: 0x2\r\n",
    "underscore": b"Content-Length: 1_0\r\n",
    "blank": b"Content-Length: \r\n",
    "with chunks": b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
    "other coding": b"Transfer-Encoding: gzip, chunked\r\n",
    "chunks twice": b"Transfer-Encoding: chunked, chunked\r\n",
}
BODIES = {
    "100,000 brackets": b"[" * 100_000,
    "deep in a field": b'{"title": "x", "filters": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "1 MiB of numbers": b"[" + b"0," * 500_000 + b"0]",
    "a number of 5,000 digits": b'{"title": "x", "top_k": ' + b"9" * 5000 + b"}",
    "no number": b'{"title": "x", "top_k": NaN}',
    "UTF-16": '{"title": "x"}'.encode("utf-16"),
    "Latin-1": '{"title": "é"}'.encode("latin-1"),
    "a surrogate as bytes": b'{"title": "\xed\xa0\x80"}',
    "NUL": b'{"title": "\x00"}',
    "nothing": b"",
    "compressed": b"\x1f\x8b\x08\x00",
}


@pytest.fixture(scope="module")
def port(listening, tmp_path_factory) -> int:
    small = SmallIndex(tmp_path_factory.mktemp("index"))
    return listening(create_app(small, webhook=Webhook(small, "ann/mail", None, "a secret")))


def check(raw: bytes, caplog) -> None:
    """One answer that blames the client, in JSON unless it is uvicorn's own, and no traceback."""
    if b"Invalid HTTP request received." in raw:
        assert raw.startswith(b"HTTP/1.1 400 ")
        assert raw.count(b"HTTP/1.1") == 1
    else:
        status, said = answered(raw)
        assert 400 <= status < 500
        assert isinstance(said, dict)
        assert set(said) == {"detail"}
    assert [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR] == []
    assert len(caplog.records) <= 1


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_absurd_lengths_get_one_answer(port, caplog, path, lengths):
    raw = exchange(port, b"POST " + path + b" HTTP/1.1\r\n" + JSON_HEAD + lengths + CLOSE + b"\r\n{}")
    check(raw, caplog)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_bodies_that_are_no_fitting_json_get_one_answer(port, caplog, path, body):
    length = b"Content-Length: %d\r\n" % len(body)
    check(exchange(port, b"POST " + path + b" HTTP/1.1\r\n" + JSON_HEAD + length + CLOSE + b"\r\n" + body), caplog)


@pytest.mark.parametrize("depth", [200, 900, 980, 990, 1000, 3000])
def test_json_just_within_pythons_depth_gets_one_answer(port, caplog, depth):
    body = b'{"title": "x", "filters": ' + b'{"a":[' * depth + b"]}" * depth + b"}"
    length = b"Content-Length: %d\r\n" % len(body)
    for path in PATHS:
        check(exchange(port, b"POST " + path + b" HTTP/1.1\r\n" + JSON_HEAD + length + CLOSE + b"\r\n" + body), caplog)
        caplog.clear()


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Type: application/json; charset=utf-16",
        b'Content-Type: application/json; charset="latin-1"',
        b"Content-Type: application/json\r\nContent-Encoding: gzip",
    ],
)
def test_other_encodings_are_refused_by_name(port, caplog, header):
    body = b'{"title": "large attachment"}'
    head = HEAD + header + b"\r\nContent-Length: %d\r\n" % len(body)
    raw = exchange(port, b"POST /api/search HTTP/1.1\r\n" + head + CLOSE + b"\r\n" + body)
    check(raw, caplog)
    assert answered(raw)[0] == 415


@pytest.mark.integration
@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + HEAD + b"X: a\x00b\r\n\r\n",
        b"POST /api/search HTTP/1.1\r\n" + JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n",
        b"GET /page/%00 HTTP/1.1\r\n" + HEAD + CLOSE + b"\r\n",
        b"GET /api/reports/%00%0a%ff HTTP/1.1\r\n" + HEAD + CLOSE + b"\r\n",
        b"GET /page/..%2f..%2fapp.py HTTP/1.1\r\n" + HEAD + CLOSE + b"\r\n",
    ],
)
def test_what_is_hardly_http_gets_one_answer(port, caplog, request_bytes):
    raw = exchange(port, request_bytes)
    check(raw, caplog)
    assert health(port) == 200


@pytest.mark.integration
def test_rubbish_after_an_answer_leaves_no_traceback(port, caplog):
    large = b"Content-Length: 99999999\r\n\r\n"
    chunked = b"Transfer-Encoding: chunked\r\n\r\n" + b"5\r\n{...}\r\n" + b"zz\r\n" * 1000
    for rest in (large + b"x" * 100_000, chunked, b"Content-Length: 2\r\n\r\n{}GARBAGE\r\n\r\n\r\n"):
        raw = exchange(port, b"POST /api/search HTTP/1.1\r\n" + JSON_HEAD + rest)
        assert b"HTTP/1.1 5" not in raw
    request = b"GET /api/health HTTP/1.1\r\n" + HEAD + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    with connect(port) as line:
        line.sendall(request)
        assert line.recv(15) == b"HTTP/1.1 200 OK"
    assert [record for record in caplog.records if record.exc_info] == []
