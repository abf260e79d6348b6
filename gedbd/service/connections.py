"""Bounds what connections may hold: how many are open, and how long one may take to ask and to take its answer."""

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
READ_BYTES = 1 << 14  # of one connection in one go; asyncio would take 256 KiB from each
LOG_EVERY_S = 10.0
IPV6_NETWORK_BITS = 64  # one subscriber has all addresses of such a network


@dataclass(frozen=True)
class ConnectionLimits:
    """How many connections there may be, and how long each may take.

    Attributes:
        max_connections: Open connections; those above are answered 503 and closed at once.
        max_connections_per_address: Open connections from one IPv4 address or one IPv6 network of 64 bits.
        header_timeout_s: How long the head of a request may take, from the first moment of the connection or the end
            of the answer before, in seconds.
        send_timeout_s: How long a client may take for each part of an answer, in seconds.
        shutdown_grace_s: How long requests in flight may take when the service is told to end, in seconds. The process
            ends at most three seconds later.

    Raises:
        ValueError: If a number makes no sense.
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
        count: Is told the reason whenever the server closes a connection of its own accord.
    """

    def __init__(self, limits: ConnectionLimits, count: Callable[[str], None]) -> None:
        super().__init__()
        self.limits, self.count = limits, count
        self.buffer = memoryview(bytearray(READ_BYTES))  # one for all: what it holds is passed on at once
        self.total = 0
        self.by_address: Counter[str] = Counter()
        self._unlogged: Counter[str] = Counter()
        self._next_line: dict[str, float] = {}

    def enter(self, address: str) -> str | None:
        """Counts a new connection; the reason why it must be closed, or None."""
        self.total += 1
        self.by_address[address] += 1
        if self.total > self.limits.max_connections:
            return f"more than max_connections={self.limits.max_connections} are open"
        limit = self.limits.max_connections_per_address
        if self.by_address[address] > limit:
            return f"more than max_connections_per_address={limit} are open from one address"
        return None

    def leave(self, address: str) -> None:
        """Counts a connection that is closed."""
        self.total -= 1
        self.by_address[address] -= 1
        if not self.by_address[address]:
            del self.by_address[address]

    def closed(self, word: str, reason: str) -> None:
        """Counts a connection that the server closes, and logs a line about it, at most one every ten seconds."""
        self.count(word)
        self._unlogged[word] += 1
        now = time.monotonic()
        if now >= self._next_line.get(word, 0.0):
            log.warning("connections closed: %d, because %s", self._unlogged.pop(word), reason)
            self._next_line[word] = now + LOG_EVERY_S


class BoundedProtocol(H11Protocol, asyncio.BufferedProtocol):
    """uvicorn's HTTP/1.1 with deadlines for what a client does, and with an end to surplus connections.

    While no request is in progress a timer runs that no single byte restarts; while an answer is not taken another.
    The time between, in which a request's body is read and answered, is bounded by ``Guard`` and ``Pool``.
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
        self.open, self.limits = server_state, server_state.limits
        self.address = ""
        self.asking: asyncio.TimerHandle | None = None
        self.sending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes a connection, or closes it if there are too many."""
        super().connection_made(transport)
        # Any byte that the client has not taken yet then counts as an answer that waits for it.
        transport.set_write_buffer_limits(high=0)
        self.address = address_key(self.client[0] if self.client else "")
        surplus = self.open.enter(self.address)
        if surplus is None:
            self._await_request()
        else:
            self.open.closed("surplus", surplus)
            self._refuse(503, "too many connections are open: try again in a moment")

    def connection_lost(self, exc: Exception | None) -> None:
        """Counts it, and stops the timers."""
        self.open.leave(self.address)
        self._stop(self.asking)
        super().connection_lost(exc)
        self._stop(self.sending)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where asyncio puts what has come."""
        return self.open.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Takes what has come."""
        self.data_received(bytes(self.open.buffer[:nbytes]))

    def handle_events(self) -> None:
        """Reads what has come; the head of a request stops the timer."""
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop(self.asking)

    def on_response_complete(self) -> None:
        """Waits for the next request."""
        if not self.transport.is_closing():
            self._await_request()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Begins to wait for the client to take what was sent."""
        super().pause_writing()
        self._stop(self.sending)
        self.sending = self.loop.call_later(self.limits.send_timeout_s, self._abort)

    def resume_writing(self) -> None:
        """The client has taken everything."""
        super().resume_writing()
        self._stop(self.sending)

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP, or closes the connection if another answer has begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(400, "this is not a valid HTTP request")
        else:
            self.transport.close()

    def _should_upgrade(self) -> bool:
        return False  # there is nothing but HTTP here; uvicorn would log two lines for each who asks

    def _await_request(self) -> None:
        self._stop(self.asking)
        self.asking = self.loop.call_later(self.limits.header_timeout_s, self._give_up)

    def _give_up(self) -> None:
        if self.transport.is_closing():
            return
        self.open.closed("slow request", f"no whole request came within {self.limits.header_timeout_s:g} seconds")
        begun, _ = self.conn.trailing_data
        if begun and self.conn.our_state is h11.IDLE:
            self._refuse(408, f"the request was not complete within {self.limits.header_timeout_s:g} seconds")
        else:
            self.transport.close()

    def _abort(self) -> None:
        self.open.closed("slow reader", f"an answer was not taken within {self.limits.send_timeout_s:g} seconds")
        self.transport.abort()

    def _refuse(self, status: int, detail: str) -> None:
        """Answers for the server itself, past all routes, and closes the connection."""
        body = json.dumps({"detail": detail}).encode()
        retry = "Retry-After: 1\r\n" if status == HTTPStatus.SERVICE_UNAVAILABLE else ""
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{retry}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _stop(self, timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()


def address_key(host: str) -> str:
    """By what connections of one client are counted: its IPv4 address, or its IPv6 network."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return f"{int(address) >> (128 - IPV6_NETWORK_BITS):x}/{IPV6_NETWORK_BITS}"
    return str(address)
