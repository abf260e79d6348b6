"""Runs work beside the event loop: so many at once, so many waiting, and none waited for longer than is said."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from fastapi import HTTPException

T = TypeVar("T")


class Pool:
    """A bounded number of threads before a bounded queue.

    Work that is given up because it took too long keeps its place until it ends, so that slow work cannot pile up.

    Args:
        at_once: Threads.
        waiting: Calls that may wait for one.
        timeout_s: How long a call waits for its answer, in seconds.
    """

    def __init__(self, at_once: int, waiting: int, timeout_s: float) -> None:
        for name, value, least in (("searches_at_once", at_once, 1), ("searches_waiting", waiting, 0)):
            if value < least:
                raise ValueError(f"{name}={value} must be {least} or more")
        if timeout_s <= 0:
            raise ValueError(f"timeout_s={timeout_s} must be above 0")
        self.places, self.timeout_s = at_once + waiting, timeout_s
        self.taken, self.lock = 0, threading.Lock()
        self.threads = ThreadPoolExecutor(at_once, thread_name_prefix="gedbd")

    async def run(self, work: Callable[..., T], *args: Any, **named: Any) -> T:
        """The result of a call.

        Raises:
            HTTPException: 503 if there is no place or no answer in time, 422 with the words of a ValueError.
        """
        with self.lock:
            if self.taken >= self.places:
                raise HTTPException(503, "too many requests are waiting: try again in a moment", {"Retry-After": "1"})
            future = self.threads.submit(work, *args, **named)
            self.taken += 1
        future.add_done_callback(self._leave)
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), self.timeout_s)
        except TimeoutError as error:
            future.cancel()
            took = f"no answer within {self.timeout_s:g} seconds: try again later or with a shorter text"
            raise HTTPException(503, took, {"Retry-After": "5"}) from error
        except ValueError as error:
            raise HTTPException(422, str(error)) from error

    def _leave(self, future: Future[Any]) -> None:
        with self.lock:
            self.taken -= 1

    def close(self) -> None:
        """Waits for the work that has begun."""
        self.threads.shutdown(wait=True, cancel_futures=True)
