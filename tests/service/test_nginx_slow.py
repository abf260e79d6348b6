"""Clients that do not finish their requests, in front of nginx as the manual sets it up, hold up nobody."""

import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests
from proxied import find_nginx, free_port, proxied
from small_index import SmallIndex

from gedbd.service.app import create_app

pytestmark = pytest.mark.slow

CLIENTS = 300
HALF_HEAD = b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n"
HALF_BODY = (
    b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
)
SECONDS = 6.0


@pytest.fixture
def port(index: SmallIndex, listening, tmp_path: Path):
    nginx = find_nginx()
    if nginx is None:
        pytest.skip("nginx is neither installed nor to be had from apt-get")
    front = free_port()
    with proxied(nginx, tmp_path / "nginx", listening(create_app(index)), front):
        yield front


@pytest.mark.parametrize("sent", [b"", HALF_HEAD, HALF_BODY], ids=["nothing", "half a head", "half a body"])
def test_half_open_clients_delay_no_health_check(port: int, sent: bytes) -> None:
    health, search = (f"http://localhost:{port}/api/{name}" for name in ("health", "search"))
    with ExitStack() as opened:
        for number in range(CLIENTS):
            line = opened.enter_context(
                socket.create_connection(("127.0.0.1", port), 5, (f"127.0.0.{2 + number % 9}", 0))
            )
            line.sendall(sent)
        slowest = 0.0
        begun = time.monotonic()
        while time.monotonic() - begun < SECONDS:
            started = time.monotonic()
            assert requests.get(health, timeout=10).status_code == 200
            slowest = max(slowest, time.monotonic() - started)
        assert slowest < 1.0
        assert requests.post(search, json={"title": "large attachment"}, timeout=10).status_code == 200
    assert requests.get(health, timeout=10).status_code == 200


def test_a_client_that_reads_no_answer_delays_nobody(port: int) -> None:
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100
    with ExitStack() as opened:
        for _ in range(20):
            line = opened.enter_context(socket.create_connection(("127.0.0.1", port), 5))
            line.sendall(asked)
        for _ in range(20):
            assert requests.get(f"http://localhost:{port}/api/health", timeout=1).status_code == 200


def test_a_body_over_the_limit_is_refused(port: int) -> None:
    answer = requests.post(f"http://localhost:{port}/api/search", data=b"x" * (2 << 20), timeout=10)
    assert answer.status_code == 413
