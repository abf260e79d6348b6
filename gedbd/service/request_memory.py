"""Bounds the memory that the bodies of all requests use together."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.responses import JSONResponse


class RequestRefused(Exception):  # noqa: N818 - carries an answer to the client, not a fault of the service
    """A request that is answered without running a route."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.response = JSONResponse({"detail": detail}, status, named)


class BodyBudget:
    """Bounds the memory that the bodies of all requests use together.

    Args:
        max_bytes: The bound.
        wait_s: How long a request waits for memory, in seconds.
    """

    def __init__(self, max_bytes: int, wait_s: float) -> None:
        self.max_bytes = max_bytes
        self.wait_s = wait_s
        self.used = 0
        self.released = asyncio.Event()

    @contextmanager
    def reserve(self) -> "Iterator[BodyReservation]":
        """The reservation of one request, released at the end of the block."""
        reservation = BodyReservation(self)
        try:
            yield reservation
        finally:
            self.used -= reservation.size
            self.released.set()


class BodyReservation:
    """The part of a ``BodyBudget`` that one request uses."""

    def __init__(self, budget: BodyBudget) -> None:
        self.budget = budget
        self.size = 0

    async def grow(self, size: int) -> None:
        """Waits until ``size`` bytes in all are reserved. Raises RequestRefused if that takes too long."""
        budget = self.budget
        more = size - self.size
        if more <= 0:
            return
        try:
            async with asyncio.timeout(budget.wait_s):
                while budget.used + more > budget.max_bytes:
                    budget.released.clear()
                    await budget.released.wait()
        except TimeoutError as error:
            busy = "too many large requests are being read: try again in a moment"
            raise RequestRefused(503, busy, Retry_After="5") from error
        budget.used += more
        self.size += more
