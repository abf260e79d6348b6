"""Clients that are too many or do not finish: the others are answered, limits hold, and SIGTERM ends the service."""

import asyncio
import errno
import logging
import resource
import signal
import socket
import sqlite3
import threading

import pytest
from raw_http import HEALTH, JSON_HEAD, answers, connect, exchange, health, measured, posted, read_all, until
from served_process import served

from gedbd.corpora.feedback import FEEDBACK_FILE
from gedbd.service.app import create_app
from gedbd.service.server import LOG_EVERY_S, RepeatedMessages

pytestmark = pytest.mark.slow

END = b"\r\n"
MIB = 1 << 20  # the limit of a body
MAX_CONNECTIONS = 256  # by default
REPORT = b'{"issue_id": "90", "title": "Long", "description": "' + b"word " * 39_000 + b'"}'
FULL = b"GET /api/reports/90 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
WAITING = posted(b"/api/search", b'{"title": "wait for the file go"}')


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


def test_the_service_recovers_when_descriptors_are_free_again(tmp_path):
    with served(tmp_path) as service:
        soft, hard = resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (service.descriptors(), hard))
        lines = [connect(service.port) for _ in range(10)]
        for line in lines:
            line.sendall(HEALTH + b"\r\n")
        until(lambda: "descriptors" in service.logged() or "Too many open files" in service.logged())
        resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
        until(lambda: health(service.port) == 200)
        for line in lines:
            assert line.recv(15) == b"HTTP/1.1 200 OK"
            line.close()
        assert "Traceback" not in service.logged()
        assert service.logged().count("Too many open files") <= 2


def test_many_large_bodies_at_once_take_no_more_memory_than_the_limits_allow(tmp_path):
    head = b"POST /api/search HTTP/1.1\r\n" + JSON_HEAD + b"Content-Length: %d\r\n\r\n" % MIB
    body = b'{"title": "' + b"x" * (MIB - 20)
    with served(tmp_path) as service:
        before = service.memory_bytes("VmRSS")
        lines = []
        for number in range(500):
            line = connect(service.port, f"127.0.{1 + number % 50}.1")
            line.setblocking(False)
            lines.append((line, [head + body]))
        until(lambda: not sent_on(lines), 20)
        most = service.memory_bytes("VmHWM")
        for line, _ in lines:
            line.close()
        until(lambda: health(service.port) == 200)
        assert most - before < MAX_CONNECTIONS * MIB * 1.25
        assert "Traceback" not in service.logged()


def sent_on(lines: list[tuple[socket.socket, list[bytes]]]) -> int:
    """Sends what every connection takes at the moment; how many bytes went out."""
    sent = 0
    for line, rest in lines:
        try:
            while rest[0]:
                count = line.send(rest[0])
                rest[0] = rest[0][count:]
                sent += count
        except OSError:
            continue
    return sent


def hold(port: int, request: bytes, count: int, **options: int) -> list[socket.socket]:
    lines = [connect(port, f"127.0.0.{1 + number % 5}", **options) for number in range(count)]
    for line in lines:
        line.sendall(request)
    return lines


def hold_many_answers(port):
    """Asks for 60 MB and reads none of it."""
    exchange(port, posted(b"/api/reports", REPORT, close=True))
    lines = hold(port, FULL * 300, 1, receive_bytes=4096)
    counts = [-1.0, -2.0]
    while counts[-1] != counts[-2] or counts[-1] < 1:  # until all buffers are full and no further answer is sent
        threading.Event().wait(0.2)
        counts.append(measured(port, 'gedbd_requests_total{path="/api/reports/{issue_id:path}",status="200"}'))
    return lines


def hold_half_headers(port):
    return hold(port, HEALTH, 100)


def hold_half_bodies(port):
    return hold(port, posted(b"/api/search", b'{"title": "', 1000), 20)


def hold_searches(port):
    """More searches than there are threads, none of which ever ends."""
    return hold(port, WAITING, 5)


ALL = (hold_many_answers, hold_half_bodies, hold_searches)


@pytest.mark.parametrize(
    ("holds", "number"),
    [
        ([hold_many_answers], signal.SIGTERM),
        ([hold_half_headers], signal.SIGTERM),
        ([hold_half_bodies], signal.SIGINT),
        ([hold_searches], signal.SIGINT),
        (ALL, signal.SIGTERM),
        (ALL, signal.SIGINT),
    ],
)
def test_the_service_ends_in_time(tmp_path, holds, number):
    with served(tmp_path) as service:
        lines = [line for hold in holds for line in hold(service.port)]
        if hold_searches in holds:
            until((tmp_path / "searching").exists)
        service.end(number)
        for line in lines:
            line.close()
        assert "Traceback" not in service.logged()


def test_a_change_that_waits_for_a_locked_file_holds_nothing_up(tmp_path):
    body = b'{"report": {"title": "x"}, "candidate": "12", "verdict": "accept"}'
    with served(tmp_path) as service:
        other = sqlite3.connect(tmp_path / FEEDBACK_FILE, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        lines = hold(service.port, posted(b"/api/feedback", body), 5)
        assert health(service.port) == 200
        service.end()
        other.close()
        for line in lines:
            assert read_all(line).startswith(b"HTTP/1.1 503 ")
            line.close()
        assert "Traceback" not in service.logged()


@pytest.mark.parametrize("finishes", [True, False])
def test_a_search_in_flight_is_answered_or_told_that_the_service_ends(tmp_path, finishes):
    with served(tmp_path) as service:
        (line,) = hold(service.port, WAITING, 1)
        until((tmp_path / "searching").exists)
        service.process.send_signal(signal.SIGTERM)
        until(lambda: not answers(service.port))
        assert not (tmp_path / "closed").exists()
        if finishes:
            (tmp_path / "go").touch()
        answer = read_all(line)
        service.end()
    assert answer.startswith(b"HTTP/1.1 200 " if finishes else b"HTTP/1.1 503 ")
    assert finishes or b"retry-after" in answer.lower()
    assert (tmp_path / "closed").exists() == finishes
