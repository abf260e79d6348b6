"""Runs blocking work in threads, with bounds on how many calls run, how many wait, and for how long."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from fastapi import HTTPException

from gedbd.io.sqlite_file import StoreUnavailable

log = logging.getLogger("gedbd")
PAUSE_AFTER_ERROR_S = 10.0
T = TypeVar("T")
CLOSE_S = 1.0  # how long shutdown waits for calls that have started
SHUTTING_DOWN = "the service is shutting down: try again when it is back"


class BoundedThreadPool:
    """A bounded number of threads behind a bounded queue.

    A call that times out keeps its slot until its thread finishes, so that slow calls cannot pile up. anyio's
    ``CapacityLimiter`` has no bound on waiting calls, and releases its slot when the caller stops waiting although the
    thread still runs.

    Args:
        at_once: Number of threads.
        waiting: Number of calls that may wait for a thread.
        timeout_s: How long a call waits for its result, in seconds.
        name: Kind of the calls, as in the names of the settings.
    """

    def __init__(self, at_once: int, waiting: int, timeout_s: float, name: str = "searches") -> None:
        self.capacity = at_once + waiting
        self.timeout_s = timeout_s
        self.unfinished: set[Future[Any]] = set()
        self.lock = threading.Lock()
        self.closing = False
        self.threads = ThreadPoolExecutor(at_once, thread_name_prefix=f"gedbd-{name}")

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Returns the result of a call.

        Raises:
            HTTPException: 503 if the queue is full, the call times out or the service shuts down; 422 with the message
                of a ValueError.
        """
        with self.lock:
            if self.closing:
                raise HTTPException(503, SHUTTING_DOWN, {"Retry-After": "5"})
            if len(self.unfinished) >= self.capacity:
                raise HTTPException(503, "too many requests are waiting: try again in a moment", {"Retry-After": "1"})
            future = self.threads.submit(work, *args)
            self.unfinished.add(future)
        # Outside the lock: if the future is already done, the callback runs at once.
        future.add_done_callback(self.unfinished.discard)
        waiter = asyncio.wrap_future(future)
        try:
            await asyncio.wait({waiter}, timeout=self.timeout_s)
            if not waiter.done():
                late = f"no answer within {self.timeout_s:g} seconds: try again later or with a shorter text"
                raise HTTPException(503, late, {"Retry-After": "5"})
            return waiter.result()
        except ValueError as error:
            raise HTTPException(422, str(error)) from error
        except asyncio.CancelledError as error:  # by uvicorn, when the time for requests in flight is over
            raise HTTPException(503, SHUTTING_DOWN, {"Retry-After": "5"}) from error
        finally:
            future.cancel()  # no effect once it runs: only a call that still waits for a thread is dropped
            waiter.cancel()

    def close(self) -> bool:
        """Accepts no further call and waits a moment for those that run; returns whether all have finished."""
        with self.lock:
            self.closing = True
            unfinished = set(self.unfinished)
        self.threads.shutdown(wait=False, cancel_futures=True)
        return not wait(unfinished, CLOSE_S).not_done


class BackgroundWorker:
    """Repeats a piece of work in a daemon thread until it is stopped. The work returns the seconds to wait."""

    def __init__(self, name: str, work: Callable[[], float]) -> None:
        self.work = work
        self.stopping = threading.Event()
        self._awake = threading.Event()
        # A daemon thread never keeps the process from exiting, even if a call hangs.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Starts the next call now."""
        self._awake.set()

    def stop(self) -> None:
        """Starts no further call; the running one finishes."""
        self.stopping.set()
        self._awake.set()

    def join(self, timeout_s: float) -> bool:
        """Waits for the running call; returns whether it finished in time."""
        if self._thread.ident is not None:  # the thread was started
            self._thread.join(max(timeout_s, 0.0))
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                pause = self.work()
            except StoreUnavailable as error:
                log.warning("%s waits: %s", self._thread.name, error)
                pause = float(error.retry_after_s)
            except Exception:  # the thread must survive an error in a single call
                log.exception("%s failed", self._thread.name)
                pause = PAUSE_AFTER_ERROR_S
            self._awake.wait(pause)
            self._awake.clear()
