"""Runs work beside the event loop: so many at once, so many waiting, and none waited for longer than is said."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from fastapi import HTTPException

T = TypeVar("T")
CLOSE_S = 1.0  # how long the end of the service waits for work that has begun
ENDING = "the service is ending: try again when it is back"


class Pool:
    """A bounded number of threads before a bounded queue.

    Work that is given up because it took too long keeps its place until it ends, so that slow work cannot pile up.

    Args:
        at_once: Threads.
        waiting: Calls that may wait for one.
        timeout_s: How long a call waits for its answer, in seconds.
        name: What the calls are, as in the names of the settings.
    """

    def __init__(self, at_once: int, waiting: int, timeout_s: float, name: str = "searches") -> None:
        for option, value, least in ((f"{name}_at_once", at_once, 1), (f"{name}_waiting", waiting, 0)):
            if value < least:
                raise ValueError(f"{option}={value} must be {least} or more")
        if timeout_s <= 0:
            raise ValueError(f"timeout_s={timeout_s} must be above 0")
        self.places, self.timeout_s = at_once + waiting, timeout_s
        self.begun: set[Future[Any]] = set()
        self.waiters: set[asyncio.Future[Any]] = set()
        self.lock, self.ending = threading.Lock(), False
        self.threads = ThreadPoolExecutor(at_once, thread_name_prefix=f"gedbd-{name}")

    @property
    def taken(self) -> int:
        """Places that are taken."""
        return len(self.begun)

    async def run(self, work: Callable[..., T], *args: Any, **named: Any) -> T:
        """The result of a call.

        Raises:
            HTTPException: 503 if there is no place, no answer in time, or the service ends; 422 with the words of a
                ValueError.
        """
        future = self._begin(work, args, named)
        waiter = asyncio.wrap_future(future)
        self.waiters.add(waiter)
        try:
            await asyncio.wait({waiter}, timeout=self.timeout_s)
            if not waiter.done():
                took = f"no answer within {self.timeout_s:g} seconds: try again later or with a shorter text"
                raise HTTPException(503, took, {"Retry-After": "5"})
            if waiter.cancelled():
                raise HTTPException(503, ENDING, {"Retry-After": "5"})
            return waiter.result()
        except ValueError as error:
            raise HTTPException(422, str(error)) from error
        finally:
            self.waiters.discard(waiter)
            future.cancel()  # work that has not begun, and that nobody waits for any more, is not done
            waiter.cancel()

    def _begin(self, work: Callable[..., T], args: tuple[Any, ...], named: dict[str, Any]) -> "Future[T]":
        with self.lock:
            if self.ending:
                raise HTTPException(503, ENDING, {"Retry-After": "5"})
            if len(self.begun) >= self.places:
                raise HTTPException(503, "too many requests are waiting: try again in a moment", {"Retry-After": "1"})
            future = self.threads.submit(work, *args, **named)
            self.begun.add(future)
        future.add_done_callback(self._leave)
        return future

    def _leave(self, future: Future[Any]) -> None:
        with self.lock:
            self.begun.discard(future)

    def send_away(self) -> None:
        """Answers those who wait that the service ends, in the thread of the event loop."""
        self.ending = True
        for waiter in list(self.waiters):
            waiter.cancel()

    def close(self) -> bool:
        """Waits a moment for the work that has begun; whether it has ended."""
        with self.lock:
            self.ending = True
            begun = set(self.begun)
        self.threads.shutdown(wait=False, cancel_futures=True)
        return not wait(begun, CLOSE_S).not_done
