"""SIGTERM ends the service within ten seconds, whatever its clients do, and whatever it is doing."""

import signal
import socket
import sqlite3
import threading

import pytest
from raw_http import HEALTH, answers, connect, exchange, health, measured, posted, read_all, until
from served_process import served

from gedbd.corpora.feedback import FEEDBACK_FILE

pytestmark = pytest.mark.slow

REPORT = b'{"issue_id": "90", "title": "Long", "description": "' + b"word " * 39_000 + b'"}'
FULL = b"GET /api/reports/90 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
WAITING = posted(b"/api/search", b'{"title": "wait for the file go"}')


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
