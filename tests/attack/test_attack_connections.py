"""Connections that ask nothing, ask slowly, or do not take their answer are closed; others go on."""

import resource
import socket
import time

import pytest
from raw_http import HEALTH, JSON_HEAD, answered, closed_by, connect, exchange, health, is_closed, read_all, until
from served import serving

from gedbd.service.app import create_app
from gedbd.service.connections import ConnectionLimits, OpenConnections, address_key
from gedbd.service.server import allow_descriptors
from gedbd.triage.report import Report

END = b"\r\n"
CLOSE = b"Connection: close\r\n\r\n"


def test_a_head_that_comes_too_slowly_is_given_up(index, listening):
    port = listening(create_app(index), header_timeout_s=0.3)
    with connect(port) as silent, connect(port) as slow:
        for byte in HEALTH * 100:  # a byte does not restart the timer, so not all of them are sent
            try:
                slow.sendall(bytes([byte]))
            except ConnectionError:
                break
            if is_closed(silent):
                break
            time.sleep(0.01)
        else:
            pytest.fail("the connection stays open as long as bytes arrive")
        until(lambda: is_closed(silent))
        until(lambda: is_closed(slow))
    assert health(port) == 200


def test_the_client_is_told_that_its_head_was_too_slow(index, listening):
    port = listening(create_app(index), header_timeout_s=0.1)
    assert answered(exchange(port, HEALTH)) == (
        408,
        {"detail": "the request was not complete within 0.1 seconds"},
    )
    assert exchange(port, b"") == b""


def test_the_second_request_of_a_connection_is_timed_too(index, listening):
    port = listening(create_app(index), header_timeout_s=0.3)
    with connect(port) as line:
        line.sendall(HEALTH + END)
        assert line.recv(15) == b"HTTP/1.1 200 OK"
        line.sendall(HEALTH)
        assert b"HTTP/1.1 408 " in read_all(line)


def test_time_to_answer_is_no_time_to_ask(index, listening):
    port = listening(create_app(index), header_timeout_s=0.1)
    body = b'{"title": "wait for the file go"}'
    head = b"POST /api/search HTTP/1.1\r\n" + JSON_HEAD + b"Content-Length: %d\r\n" % len(body)
    with connect(port) as line:
        line.sendall(head + CLOSE + body)
        until((index.folder / "searching").exists)
        with connect(port) as other:  # waits longer than a head may take
            until(lambda: is_closed(other))
        (index.folder / "go").touch()
        assert read_all(line).startswith(b"HTTP/1.1 200 ")


def test_surplus_connections_are_answered_503_and_closed_at_once(index, listening):
    app = create_app(index)
    port = listening(app, max_connections=8, max_connections_per_address=4)
    held = [connect(port, f"127.0.0.{place}") for place in (1, 1, 1, 1)]
    for line in held:  # all are accepted, and in this order
        line.sendall(HEALTH + END)
        assert line.recv(15) == b"HTTP/1.1 200 OK"
    surplus = exchange(port, b"", "127.0.0.1")
    assert answered(surplus) == (503, {"detail": "too many connections are open: try again in a moment"})
    assert b"Retry-After: 1\r\n" in surplus
    assert health(port, "127.0.0.2") == 200
    held += [connect(port, f"127.0.0.{place}") for place in (2, 2, 3, 3)]
    for line in held[4:]:
        line.sendall(HEALTH + END)
        assert line.recv(15) == b"HTTP/1.1 200 OK"
    assert exchange(port, b"", "127.0.0.4").startswith(b"HTTP/1.1 503 ")
    for line in held:
        line.close()
    until(lambda: health(port) == 200)
    assert closed_by(port, "surplus") >= 2


def test_a_client_that_does_not_take_its_answers_is_cut_off(index, listening):
    index.add([Report("Long", "word " * 39_000, "90")])
    port = listening(create_app(index), send_timeout_s=0.2)
    with connect(port, receive_bytes=4096) as line:
        line.sendall(b"GET /api/reports/90 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 300)
        until(lambda: closed_by(port, "slow reader") == 1)
        assert len(read_all(line)) < 300 * 195_000
    assert health(port) == 200


@pytest.mark.usefixtures("hang_guard")
def test_the_service_ends_while_answers_wait_and_requests_are_incomplete(index, caplog):
    index.add([Report("Long", "word " * 39_000, "90")])
    lines: list[socket.socket] = []
    with serving(create_app(index), shutdown_grace_s=0.1) as port:
        for request in (
            b"GET /api/reports/90 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 300,
            HEALTH,
            b"POST /api/search HTTP/1.1\r\n" + JSON_HEAD + b"Content-Length: 1000\r\n\r\n{",
        ):
            line = connect(port, receive_bytes=4096)
            line.sendall(request)
            lines.append(line)
        assert health(port) == 200
    assert index.closed
    assert [record for record in caplog.records if record.exc_info] == []
    for line in lines:
        line.close()


def test_addresses_of_one_network_are_one_client():
    assert address_key("10.0.0.1") != address_key("10.0.0.2")
    assert address_key("2001:db8:1:2::1") == address_key("2001:db8:1:2:ffff:1:2:3")
    assert address_key("2001:db8:1:2::1") != address_key("2001:db8:1:3::1")
    assert address_key("::ffff:10.0.0.1") == address_key("10.0.0.1")
    assert address_key("fe80::1%eth0") == address_key("fe80::2%eth1")
    assert address_key("") == ""


def test_a_flood_of_surplus_connections_is_one_line_in_the_log(caplog):
    counted: list[str] = []
    connections = OpenConnections(ConnectionLimits(max_connections=1), counted.append)
    assert connections.add("a") is None
    for _ in range(1000):
        reason = connections.add("b")
        assert reason is not None
        connections.count_closed("surplus", reason)
        connections.remove("b")
    connections.remove("a")
    assert (connections.total, dict(connections.by_address)) == (0, {})
    assert len(counted) == 1000
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_connections": 0}, "connections.max_connections=0 must be a whole number, 1 or more"),
        ({"max_connections_per_address": 1.5}, "connections.max_connections_per_address=1.5 must be a whole number"),
        ({"header_timeout_s": 0}, "connections.header_timeout_s=0 must be a number above 0"),
        ({"send_timeout_s": -1}, "connections.send_timeout_s=-1 must be a number above 0"),
        ({"shutdown_grace_s": -1}, "connections.shutdown_grace_s=-1 must be a number, 0 or more"),
    ],
)
def test_limits_that_make_no_sense_are_refused(limits, message):
    with pytest.raises(ValueError, match=message):
        ConnectionLimits(**limits)


def test_more_connections_than_descriptors_are_refused_before_the_service_begins(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 300))
    with pytest.raises(ValueError, match="=256 needs 384 open files and the system allows 300"):
        allow_descriptors(256)
    asked = []
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: asked.append(limits))
    allow_descriptors(100)
    allow_descriptors(160)
    assert asked == [(288, 300)]
