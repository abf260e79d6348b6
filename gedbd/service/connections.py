"""Limits of connections: how many are open, and how long a client may take to send a request and read its answer."""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

log = logging.getLogger("gedbd")

KEEP_ALIVE_S = 5
READ_BYTES = 1 << 14  # read from one connection at once; asyncio would read 256 KiB
LOG_EVERY_S = 10.0
IPV6_NETWORK_BITS = 64  # one subscriber has all addresses of such a network, and could use each once


@dataclass(frozen=True)
class ConnectionLimits:
    """How many connections may be open, and how long each may take.

    Attributes:
        max_connections: Maximum number of open connections; more are answered 503 and closed.
        max_connections_per_address: Maximum number from one IPv4 address or one IPv6 network of 64 bits.
        header_timeout_s: How long a client may take to send the head of a request, in seconds, counted from the
            opening of the connection or the end of the previous answer.
        send_timeout_s: How long a client may take to read each part of an answer, in seconds.
        shutdown_grace_s: How long requests in flight may take after a signal to stop, in seconds. The process exits
            at most three seconds later.

    Raises:
        ValueError: If a number is out of range.
    """

    max_connections: int = 256
    max_connections_per_address: int = 64
    header_timeout_s: float = 10.0
    send_timeout_s: float = 30.0
    shutdown_grace_s: float = 5.0

    def __post_init__(self) -> None:
        for name in ("max_connections", "max_connections_per_address"):
            number = getattr(self, name)
            if not isinstance(number, int) or number < 1:
                raise ValueError(f"connections.{name}={number} must be a whole number, 1 or more")
        for name in ("header_timeout_s", "send_timeout_s"):
            seconds = getattr(self, name)
            if not isinstance(seconds, int | float) or not seconds > 0:
                raise ValueError(f"connections.{name}={seconds} must be a number above 0")
        grace_s = self.shutdown_grace_s
        if not isinstance(grace_s, int | float) or not grace_s >= 0:
            raise ValueError(f"connections.shutdown_grace_s={grace_s} must be a number, 0 or more")


class OpenConnections(ServerState):
    """The connections of one server, counted by address.

    Args:
        limits: How many there may be.
        count: Called with the reason whenever the server closes a connection of its own accord.
    """

    def __init__(self, limits: ConnectionLimits, count: Callable[[str], None]) -> None:
        super().__init__()
        self.limits = limits
        self.count = count
        # One buffer for all connections: its content is passed on before the next one is read.
        self.buffer = memoryview(bytearray(READ_BYTES))
        self.total = 0
        self.by_address: Counter[str] = Counter()
        self._unlogged: Counter[str] = Counter()
        self._log_again_at: dict[str, float] = {}

    def add(self, address: str) -> str | None:
        """Counts a new connection; returns why it must be closed, or None."""
        self.total += 1
        self.by_address[address] += 1
        if self.total > self.limits.max_connections:
            return f"more than max_connections={self.limits.max_connections} are open"
        limit = self.limits.max_connections_per_address
        if self.by_address[address] > limit:
            return f"more than max_connections_per_address={limit} are open from one address"
        return None

    def remove(self, address: str) -> None:
        """Removes a closed connection from the count."""
        self.total -= 1
        self.by_address[address] -= 1
        if not self.by_address[address]:
            del self.by_address[address]  # or the table would grow with every address that was ever seen

    def count_closed(self, kind: str, reason: str) -> None:
        """Counts a connection that the server closes, and logs it, at most one line of a kind every ten seconds."""
        self.count(kind)
        self._unlogged[kind] += 1
        now = time.monotonic()
        if now >= self._log_again_at.get(kind, 0.0):
            log.warning("connections closed: %d, because %s", self._unlogged.pop(kind), reason)
            self._log_again_at[kind] = now + LOG_EVERY_S


class BoundedProtocol(H11Protocol, asyncio.BufferedProtocol):
    """uvicorn's HTTP/1.1 protocol with deadlines for the client and a limit of connections.

    One timer runs while the head of a request is awaited; no single byte restarts it. Another runs while the client
    does not read its answer. Between the two, ``RequestGuard`` bounds the time to read a body, and
    ``BoundedThreadPool`` the time to answer.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        assert isinstance(server_state, OpenConnections)
        self.open = server_state
        self.limits = server_state.limits
        self.address = ""
        self.request_timer: asyncio.TimerHandle | None = None
        self.write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accepts a connection, or closes it if there are too many."""
        super().connection_made(transport)
        # ``pause_writing`` then starts the timer as soon as the client leaves a single byte unread.
        transport.set_write_buffer_limits(high=0)
        self.address = address_key(self.client[0] if self.client else "")
        surplus = self.open.add(self.address)
        if surplus is None:
            self._start_request_timer()
        else:
            self.open.count_closed("surplus", surplus)
            self._refuse(503, "too many connections are open: try again in a moment")

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the timers and updates the count."""
        self.open.remove(self.address)
        _cancel(self.request_timer)
        super().connection_lost(exc)
        _cancel(self.write_timer)

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer that asyncio reads into."""
        return self.open.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Handles the bytes that asyncio has read."""
        self.data_received(bytes(self.open.buffer[:nbytes]))

    def handle_events(self) -> None:
        """Parses the bytes that were read; a complete head of a request stops the timer."""
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            _cancel(self.request_timer)

    def on_response_complete(self) -> None:
        """Waits for the next request."""
        if not self.transport.is_closing():
            self._start_request_timer()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client has bytes to read: starts the timer."""
        super().pause_writing()
        _cancel(self.write_timer)
        self.write_timer = self.loop.call_later(self.limits.send_timeout_s, self._on_write_timeout)

    def resume_writing(self) -> None:
        """The client has read everything: stops the timer."""
        super().resume_writing()
        _cancel(self.write_timer)

    def send_400_response(self, msg: str) -> None:
        """Answers bytes that are not HTTP, or closes the connection if an answer has begun already."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(400, "this is not a valid HTTP request")
        else:
            self.transport.close()

    def _should_upgrade(self) -> bool:
        return False  # no websockets here; uvicorn would log two lines for each request that asks for one

    def _start_request_timer(self) -> None:
        _cancel(self.request_timer)
        self.request_timer = self.loop.call_later(self.limits.header_timeout_s, self._on_request_timeout)

    def _on_request_timeout(self) -> None:
        if self.transport.is_closing():
            return
        reason = f"no complete request came within {self.limits.header_timeout_s:g} seconds"
        self.open.count_closed("slow request", reason)
        received, _ = self.conn.trailing_data
        # Without a byte of a request there is nothing to answer: the client only kept its connection open.
        if received and self.conn.our_state is h11.IDLE:
            self._refuse(408, f"the request was not complete within {self.limits.header_timeout_s:g} seconds")
        else:
            self.transport.close()

    def _on_write_timeout(self) -> None:
        self.open.count_closed("slow reader", f"an answer was not read within {self.limits.send_timeout_s:g} seconds")
        self.transport.abort()

    def _refuse(self, status: int, detail: str) -> None:
        """Answers without the application and closes the connection."""
        body = json.dumps({"detail": detail}).encode()
        retry = "Retry-After: 1\r\n" if status == HTTPStatus.SERVICE_UNAVAILABLE else ""
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{retry}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def address_key(host: str) -> str:
    """What the connections of one client have in common: its IPv4 address or its IPv6 network."""
    try:
        address = ip_address(host.partition("%")[0])  # "fe80::1%eth0": the zone is no part of the address
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:  # ::ffff:192.0.2.1 is 192.0.2.1
            return str(address.ipv4_mapped)
        # the network is the upper 64 of 128 bits
        return f"{int(address) >> (128 - IPV6_NETWORK_BITS):x}/{IPV6_NETWORK_BITS}"
    return str(address)
