"""Faults that are injected while clients work."""

import os
import random
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from github import FaultyGitHub
from ledger import Ledger, now
from server import TOKEN, Server

LASTING_S = 6.0
GRACE_S = 3.0  # after a fault, requests that began in it are still answered
ATTACKER = "127.0.0.66"  # limits are for each address
HALF_OPEN = 300
SLOW_READERS = 20
SECOND_S = 40.0  # a second server has ended by then, or works


class Faults:
    """All that can go wrong around the server.

    Args:
        server: The service.
        hub: The GitHub it talks to.
        disk: Where the index lies, on a small disk of its own; None if none could be made.
        ledger: Where the times of faults are kept.
        seed: Of the choices.
    """

    def __init__(self, server: Server, hub: FaultyGitHub, disk: Path | None, ledger: Ledger, seed: int) -> None:
        self.server, self.hub, self.disk, self.ledger = server, hub, disk, ledger
        self.random = random.Random(seed)
        self.stops: list[tuple[str, float]] = []
        self.memory: list[tuple[float, float]] = []
        self.began_mb = 0.0
        self.not_refused: list[str] = []

    def restarts(self) -> dict[str, Callable[[], None]]:
        """Faults that end the process."""
        return {"kill -9": self.kill, "SIGTERM": self.terminate}

    def others(self) -> dict[str, Callable[[], None]]:
        """Faults that the process survives."""
        faults: dict[str, Callable[[], None]] = {
            "GitHub hangs": lambda: self.last(self.hanging_github()),
            "GitHub fails": lambda: self.last(self.failing_github()),
            "locked store": lambda: self.last(self.locked_store()),
            "readers that do not read": lambda: self.last(self.slow_readers()),
        }
        if self.server.proxy_program is not None:  # which alone limits the connections of one client
            faults["half-open connections"] = lambda: self.last(self.half_open_connections())
        if self.disk is not None:
            faults["full disk"] = lambda: self.last(self.full_disk())
        if self.server.clock_library is not None:
            faults["clock set back"] = lambda: self.last(self.clock_set_back())
        return faults

    def last(self, fault: object) -> None:
        """Lets one fault last for some seconds."""
        with fault:  # type: ignore[attr-defined]
            time.sleep(LASTING_S)

    def overlap(self) -> None:
        """Starts a second server over the same folder while the first one works: it must be refused."""
        assert self.server.process is not None
        output = self.server.start_second(SECOND_S)
        if f"process {self.server.process.pid} " not in output:
            self.not_refused.append(output[-500:] or f"it ran for {SECOND_S:.0f} s")

    def start(self) -> None:
        """Starts the server and measures its memory."""
        self.server.start()
        self.began_mb = self.server.memory_mb()

    def kill(self) -> None:
        """Kills the server and starts it again."""
        with self.window("down: kill -9"):
            self.server.kill()
            self.start()

    def terminate(self, companion: str | None = None) -> None:
        """Asks the server to end, mostly while something else is wrong, and starts it again."""
        companions = {
            "nothing else": ExitStack,
            "GitHub hangs": self.hanging_github,
            "locked store": self.locked_store,
            "readers that do not read": self.slow_readers,
        }
        if self.server.proxy_program is not None:
            companions["half-open connections"] = self.half_open_connections
        name = companion or self.random.choice(list(companions))
        with self.window("down: SIGTERM"):
            with companions[name]():
                time.sleep(0.5)
                self.memory.append((self.began_mb, self.server.memory_mb()))
                self.stops.append((name, self.server.terminate()))
            self.start()

    @contextmanager
    def window(self, kind: str) -> Iterator[None]:
        """Keeps when a fault began and ended; requests meanwhile may fail."""
        begun = now()
        position = len(self.ledger.windows)
        self.ledger.windows.append((begun, float("inf"), kind))
        try:
            yield
        finally:
            self.ledger.windows[position] = (begun, now() + GRACE_S, kind)

    @contextmanager
    def hanging_github(self) -> Iterator[None]:
        """GitHub takes requests and never answers: no reason for the service to fail, so this is no window."""
        self.hub.set_mode("hangs")
        try:
            yield
        finally:
            self.hub.set_mode("answers")

    @contextmanager
    def failing_github(self) -> Iterator[None]:
        """GitHub is out of order or refuses by its rate limit."""
        self.hub.set_mode(self.random.choice(["fails", "limits"]))
        try:
            yield
        finally:
            self.hub.set_mode("answers")

    @contextmanager
    def locked_store(self) -> Iterator[None]:
        """Another process holds the lock on the index."""
        with self.window("locked store"):
            other = sqlite3.connect(self.server.index / "index.sqlite", timeout=30, isolation_level=None)
            try:
                other.execute("BEGIN EXCLUSIVE")
                yield
            finally:
                other.close()

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """The disk of the index has no byte left."""
        assert self.disk is not None
        ballast = self.disk / "ballast"
        with self.window("full disk"):
            try:
                with ballast.open("wb") as file:
                    _fill(file.fileno())
                yield
            finally:
                ballast.unlink()

    @contextmanager
    def clock_set_back(self) -> Iterator[None]:
        """The server's clock shows an hour ago: no reason for it to fail."""
        self.server.set_clock(-3600)
        try:
            yield
        finally:
            self.server.set_clock(0)

    @contextmanager
    def half_open_connections(self) -> Iterator[None]:
        """A client begins requests and does not finish them; other clients go on."""
        with ExitStack() as opened:
            for _ in range(HALF_OPEN):
                line = opened.enter_context(self._connected())
                _send(line, b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            yield

    @contextmanager
    def slow_readers(self) -> Iterator[None]:
        """A client asks again and again and reads no answer; other clients go on."""
        request = f"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
        with ExitStack() as opened:
            for _ in range(SLOW_READERS):
                line = opened.enter_context(self._connected())
                line.setblocking(False)
                _send(line, request * 100)
            yield

    def _connected(self) -> socket.socket:
        try:
            address = ("127.0.0.1", self.server.port)
            return socket.create_connection(address, timeout=5, source_address=(ATTACKER, 0))
        except OSError:  # turned away: that is an answer too
            return socket.socket()


def _send(line: socket.socket, content: bytes) -> None:
    try:
        line.send(content)
    except OSError:  # turned away
        return


def _fill(descriptor: int) -> None:
    for size in (1 << 20, 1 << 12, 1):
        try:
            while True:
                os.write(descriptor, bytes(size))
        except OSError:  # no space left for so many bytes
            continue
