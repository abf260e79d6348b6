"""Background work: a thread that repeats a step, and a call with a timeout."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from gedbd.triage.storage.connection import StoreUnavailable

log = logging.getLogger("gedbd")
PAUSE_AFTER_ERROR_S = 10.0
T = TypeVar("T")


class Worker:
    """Repeats a step in a daemon thread until it is stopped.

    Args:
        name: Name of the thread.
        step: Does one piece of work and returns the seconds to wait before the next call.
    """

    def __init__(self, name: str, step: Callable[[], float]) -> None:
        self.step = step
        self.stopping = threading.Event()
        self._awake = threading.Event()
        # A daemon thread never keeps the process from exiting, even if a step hangs.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Starts the next step now."""
        self._awake.set()

    def stop(self) -> None:
        """Starts no further step; the running one finishes."""
        self.stopping.set()
        self._awake.set()

    def join(self, timeout_s: float) -> bool:
        """Waits for the running step; returns whether it finished in time."""
        if self._thread.ident is not None:  # the thread was started
            self._thread.join(max(timeout_s, 0.0))
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                pause = self.step()
            except StoreUnavailable as error:
                log.warning("%s waits: %s", self._thread.name, error)
                pause = float(error.retry_after_s)
            except Exception:  # the thread must survive an error in a single step
                log.exception("%s failed", self._thread.name)
                pause = PAUSE_AFTER_ERROR_S
            self._awake.wait(pause)
            self._awake.clear()


def call_with_timeout(seconds: float, work: Callable[[], T]) -> T:
    """Returns the result of a call, or stops waiting for it.

    After the timeout the call continues in a daemon thread and its result is dropped.

    Raises:
        TimeoutError: If the call takes longer.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # raised again by the caller's ``future.result``
            future.set_exception(error)

    threading.Thread(target=run, name="gedbd-call", daemon=True).start()
    return future.result(seconds)
