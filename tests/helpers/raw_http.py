"""Speaks HTTP by hand: what no well-behaved client sends, and connections that stay open half done."""

import json
import socket
import time
from collections.abc import Callable
from contextlib import suppress

HEAD = b"Host: 127.0.0.1\r\n"
JSON_HEAD = HEAD + b"Content-Type: application/json\r\n"
HEALTH = b"GET /api/health HTTP/1.1\r\n" + HEAD


def posted(path: bytes, body: bytes, length: int | None = None, close: bool = False) -> bytes:
    """A request with a JSON body, which may state another length than its own."""
    size = len(body) if length is None else length
    head = JSON_HEAD + (b"Connection: close\r\n" if close else b"")
    return b"POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (path, head, size, body)


def answers(port: int) -> bool:
    """Whether something listens on a port."""
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def connect(port: int, source: str = "127.0.0.1", receive_bytes: int | None = None) -> socket.socket:
    """A connection from one of this machine's addresses; a small receive buffer makes a slow reader."""
    line = socket.socket()
    line.settimeout(10)
    if receive_bytes is not None:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    line.bind((source, 0))
    line.connect(("127.0.0.1", port))
    return line


def read_all(line: socket.socket) -> bytes:
    """All that comes until the other side closes; a reset counts as closed."""
    parts = []
    try:
        while part := line.recv(65536):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


def exchange(port: int, request: bytes, source: str = "127.0.0.1") -> bytes:
    """Sends bytes and gives everything that comes back until the connection is closed."""
    with connect(port, source) as line:
        with suppress(ConnectionError):
            line.sendall(request)
        return read_all(line)


def answered(raw: bytes) -> tuple[int, object]:
    """Status and JSON of the one answer in some bytes."""
    head, _, body = raw.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), json.loads(body)


def health(port: int, source: str = "127.0.0.1") -> int:
    """Status of the service's health over a new connection; 0 where none comes."""
    try:
        raw = exchange(port, HEALTH + b"Connection: close\r\n\r\n", source)
    except OSError:
        return 0
    return answered(raw)[0] if raw else 0


def measured(port: int, name: str) -> float:
    """A number that the service shows at /metrics; 0 where it is not there yet."""
    text = exchange(port, b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").decode()
    _, found, rest = text.partition(f"\n{name} ")
    return float(rest.split()[0]) if found else 0


def until(happened: Callable[[], object], seconds: float = 20) -> None:
    """Waits for a condition, and fails if it does not come true in time."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it has not happened in time"
        time.sleep(0.002)
