"""Work that goes on beside the requests, in a thread of its own."""

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
    """Repeats one step until it is stopped. Its thread never keeps the process from ending.

    Args:
        name: Of the thread.
        step: Does a piece of work, and gives the seconds until there may be more.
    """

    def __init__(self, name: str, step: Callable[[], float]) -> None:
        self.step, self.stopping = step, threading.Event()
        self._awake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def wake(self) -> None:
        """Lets the next step begin now."""
        self._awake.set()

    def stop(self) -> None:
        """Lets no further step begin."""
        self.stopping.set()
        self._awake.set()

    def join(self, timeout_s: float) -> bool:
        """Waits for the step that runs; whether it ended in time."""
        if self._thread.ident is not None:
            self._thread.join(max(timeout_s, 0.0))
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                pause = self.step()
            except StoreUnavailable as error:
                log.warning("%s waits: %s", self._thread.name, error)
                pause = float(error.retry_after_s)
            except Exception:
                log.exception("%s failed", self._thread.name)
                pause = PAUSE_AFTER_ERROR_S
            self._awake.wait(pause)
            self._awake.clear()


def within(seconds: float, work: Callable[[], T]) -> T:
    """The result of a call that is not waited for any longer than is said.

    A call that takes longer goes on in a thread that does not keep the process from ending; its result is dropped.

    Raises:
        TimeoutError: If it takes longer.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="gedbd-call", daemon=True).start()
    return future.result(seconds)
