"""A service without descriptors recovers, and many large bodies at once take no more memory than its limits allow."""

import resource
import socket

import pytest
from raw_http import HEALTH, JSON_HEAD, connect, health, until
from served_process import served

pytestmark = pytest.mark.slow

MIB = 1 << 20  # the limit of a body
MAX_CONNECTIONS = 256  # by default


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
