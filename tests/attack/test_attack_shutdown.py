"""SIGTERM ends the service within ten seconds, whatever its clients do, and whatever it is doing."""

import signal
import socket
import sqlite3
import threading
import time

import pytest
from raw_http import HEALTH, JSON_HEAD, connect, exchange, health, measured, read_all, until
from served_process import served

from gedbd.sampling.feedback_labels import FEEDBACK_FILE

pytestmark = pytest.mark.slow

REPORT = b'{"issue_id": "90", "title": "Long", "description": "' + b"word " * 39_000 + b'"}'
FULL = b"GET /api/reports/90 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def posted(path: bytes, body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return b"POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (path, JSON_HEAD, size, body)


def hold_many_answers(port: int) -> list[socket.socket]:
    """Asks for 60 MB and reads none of it."""
    exchange(port, posted(b"/api/reports", REPORT).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
    line = connect(port, receive_bytes=4096)
    line.sendall(FULL * 300)
    counts = [-1.0, -2.0]
    while counts[-1] != counts[-2] or counts[-1] < 1:  # until all buffers are full and no further answer is sent
        time.sleep(0.2)
        counts.append(measured(port, 'gedbd_requests_total{path="/api/reports/{issue_id:path}",status="200"}'))
    return [line]


def hold_half_headers(port: int) -> list[socket.socket]:
    lines = [connect(port, f"127.0.0.{1 + number % 5}") for number in range(100)]
    for line in lines:
        line.sendall(HEALTH)
    return lines


def hold_half_bodies(port: int) -> list[socket.socket]:
    lines = [connect(port) for _ in range(20)]
    for line in lines:
        line.sendall(posted(b"/api/search", b'{"title": "', 1000))
    return lines


def hold_searches(port: int) -> list[socket.socket]:
    """More searches than there are threads, none of which ever ends."""
    lines = [connect(port) for _ in range(5)]
    for line in lines:
        line.sendall(posted(b"/api/search", b'{"title": "wait for the file go"}'))
    return lines


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("hold", [hold_many_answers, hold_half_headers, hold_half_bodies, hold_searches])
def test_the_service_ends_in_time(tmp_path, hold, number):
    with served(tmp_path) as service:
        lines = hold(service.port)
        if hold is hold_searches:
            until((tmp_path / "searching").exists)
        service.end(number)
        for line in lines:
            line.close()
        assert "Traceback" not in service.logged()


def test_all_of_it_at_once_ends_in_time_too(tmp_path):
    with served(tmp_path) as service:
        lines = [line for hold in (hold_many_answers, hold_half_bodies, hold_searches) for line in hold(service.port)]
        until((tmp_path / "searching").exists)
        service.end()
        for line in lines:
            line.close()
        assert "Traceback" not in service.logged()


def test_a_change_that_waits_for_a_locked_file_holds_nothing_up(tmp_path):
    body = b'{"report": {"title": "x"}, "candidate": "12", "verdict": "accept"}'
    with served(tmp_path) as service:
        other = sqlite3.connect(tmp_path / FEEDBACK_FILE, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        lines = [connect(service.port) for _ in range(5)]
        for line in lines:
            line.sendall(posted(b"/api/feedback", body))
        assert health(service.port) == 200
        service.end()
        other.close()
        for line in lines:
            assert read_all(line).startswith(b"HTTP/1.1 503 ")
            line.close()
        assert "Traceback" not in service.logged()


def test_a_search_in_flight_is_told_that_the_service_ends(tmp_path):
    with served(tmp_path) as service:
        answers: list[bytes] = []
        ask = posted(b"/api/search", b'{"title": "wait for the file go"}')
        asking = threading.Thread(target=lambda: answers.append(exchange(service.port, ask)))
        asking.start()
        until((tmp_path / "searching").exists)
        service.end()
        asking.join(10)
    assert answers[0].startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After" in answers[0] or b"retry-after" in answers[0]
