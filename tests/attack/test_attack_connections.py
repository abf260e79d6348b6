"""A service that gets too many connections, or whose clients do not finish, answers the others and ends."""

import socket

import pytest
from raw_http import HEALTH, JSON_HEAD, connect, exchange, health, read_all, until
from served import serving

from gedbd.service.app import create_app
from gedbd.service.server import ConnectionLimits
from gedbd.triage.report import Report

END = b"\r\n"


def test_requests_over_the_limit_of_connections_are_answered_503(index, listening):
    port = listening(create_app(index), max_connections=4)
    lines = [connect(port) for _ in range(3)]
    for line in lines:  # all are accepted
        line.sendall(HEALTH + END)
        assert line.recv(15) == b"HTTP/1.1 200 OK"
    assert exchange(port, HEALTH + END).startswith(b"HTTP/1.1 503 ")
    for line in lines:
        line.close()
    until(lambda: health(port) == 200)


def test_a_connection_without_a_further_request_is_closed(index, listening):
    port = listening(create_app(index), keep_alive_s=0)
    assert exchange(port, HEALTH + END).startswith(b"HTTP/1.1 200 ")  # read until the service closes


@pytest.mark.usefixtures("hang_guard")
def test_the_service_ends_while_answers_wait_and_requests_are_incomplete(index):
    index.add([Report("Long", "word " * 39_000, "90")])
    search, body = b"POST /api/search HTTP/1.1\r\n" + JSON_HEAD, b'{"title": "wait for the file go"}'
    lines: list[socket.socket] = []
    with serving(create_app(index), shutdown_grace_s=0) as port:
        for request in (
            b"GET /api/reports/90 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 300,
            HEALTH,
            search + b"Content-Length: 1000\r\n\r\n{",
            search + b"Content-Length: %d\r\n\r\n%s" % (len(body), body),
        ):
            line = connect(port, receive_bytes=4096)
            line.sendall(request)
            lines.append(line)
        assert health(port) == 200
        until((index.folder / "searching").exists)
    (index.folder / "go").touch()
    for line in lines[2:]:
        answer = read_all(line)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 5" in answer.lower()
    for line in lines:
        line.close()


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_connections": 0}, "connections.max_connections=0 must be a whole number, 1 or more"),
        ({"keep_alive_s": -1}, "connections.keep_alive_s=-1 must be a whole number, 0 or more"),
        ({"shutdown_grace_s": 0.5}, "connections.shutdown_grace_s=0.5 must be a whole number"),
    ],
)
def test_limits_that_make_no_sense_are_refused(limits, message):
    with pytest.raises(ValueError, match=message):
        ConnectionLimits(**limits)
