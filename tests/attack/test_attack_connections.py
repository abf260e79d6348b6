"""A service that gets too many connections, or whose clients do not finish, answers the others and ends."""

import asyncio
import errno
import logging

import pytest
from raw_http import HEALTH, connect, exchange, health, until

from gedbd.service.app import create_app
from gedbd.service.server import LOG_EVERY_S, RepeatedMessages

pytestmark = pytest.mark.slow

END = b"\r\n"
WAITING = b'{"title": "wait for the file go"}'


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


def logged(message: str, error: BaseException | None = None, seconds: float = 0.0) -> logging.LogRecord:
    cause = None if error is None else (type(error), error, None)
    record = logging.LogRecord("uvicorn.error", logging.WARNING, __file__, 1, message, (), cause)
    record.created = seconds
    return record


def test_a_flood_of_refused_requests_is_one_line_in_the_log_every_ten_seconds():
    repeated = RepeatedMessages()
    records = [logged("Exceeded concurrency limit.", seconds=number * LOG_EVERY_S / 500) for number in range(1000)]
    lines = [record.getMessage() for record in records if repeated.filter(record)]
    assert lines == ["Exceeded concurrency limit.", "Exceeded concurrency limit. (499 more times since the last line)"]
    assert repeated.filter(logged("Invalid HTTP request received.", seconds=LOG_EVERY_S))
    assert repeated.filter(logged("Exceeded concurrency limit.", seconds=-3600.0))  # the clock was set back


@pytest.mark.parametrize(
    ("message", "error", "line"),
    [
        ("Exception in ASGI application\n", asyncio.CancelledError("late"), "Exception in ASGI application: late"),
        (
            "socket.accept() out of system resource\nsocket: <asyncio.TransportSocket fd=6>",
            OSError(errno.EMFILE, "Too many open files"),
            f"socket.accept() out of system resource: [Errno {errno.EMFILE}] Too many open files",
        ),
    ],
)
def test_what_clients_cause_is_logged_without_a_traceback_and_a_fault_with_it(message, error, line):
    repeated, record = RepeatedMessages(), logged(message, error)
    assert repeated.filter(record)
    assert record.exc_info is None
    assert record.getMessage() == line
    for fault in (logged(message, KeyError("fault")), logged(message, OSError(errno.EIO, "broken"))):
        assert repeated.filter(fault)
        assert fault.exc_info is not None
