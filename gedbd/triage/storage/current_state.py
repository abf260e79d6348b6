"""Keeps the state of an open index: reads the file again when others have changed it, and changes it under a lock."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from gedbd.triage.storage.connection import StoreUnavailable, log_of, place_of
from gedbd.triage.storage.in_memory import InMemoryIndex
from gedbd.triage.storage.state import IndexFile, ReadModel, State, read_state

TURN_TIMEOUT_S = 5.0
RETRY_S = 5

log = logging.getLogger("gedbd")


class Failure(NamedTuple):
    """Why a file could not be taken over.

    Attributes:
        of: Which file in which version.
        until: It is not tried again before, on the monotonic clock.
        message: What is wrong.
    """

    of: tuple[object, ...]
    until: float
    message: str


@dataclass(frozen=True)
class Change:
    """A change of the file that is being made.

    Attributes:
        state: What the file holds; nobody else can change it meanwhile.
        others: See ``Store.changes``, of the connection that makes it.
    """

    state: State
    others: int


class Current:
    """The state that searches see.

    If others have changed the file, or put another one in its place, the first thread that asks reads it, all of it
    with its model; others go on with the old state until the new one is whole. Only who changes the index waits.

    Args:
        path: The index file.
        read_model: See ``read_state``.

    Raises:
        StoreUnavailable: If there is no index, or it is damaged.
    """

    def __init__(self, path: Path, read_model: ReadModel) -> None:
        self._path, self._read_model = path, read_model
        self._turn = threading.RLock()
        self._failure: Failure | None = None
        self.state = self._opened()

    def look(self) -> State:
        """The state for a search; waits for nobody.

        Raises:
            StoreUnavailable: If the file was changed to what cannot be read. One that was replaced by what cannot be
                read is still there for those that have it open, and is searched as it was.
        """
        state = self.state
        if not state.is_stale or not self._turn.acquire(blocking=False):
            return self.state
        try:
            return self._read_again()
        except StoreUnavailable:
            if state.file.is_replaced:
                return self.state
            raise
        finally:
            self._turn.release()

    @contextmanager
    def turn(self) -> Iterator[State]:
        """The right to change the index, and its state; one thread has it at a time.

        Raises:
            StoreUnavailable: If the file cannot be changed, or others have the right for too long.
        """
        if not self._turn.acquire(timeout=TURN_TIMEOUT_S):
            raise StoreUnavailable(f"{self._path} is being read again or changed: try again in a moment", RETRY_S)
        try:
            yield self._read_again()
        finally:
            self._turn.release()

    @contextmanager
    def change(self) -> Iterator[Change]:
        """All that is written within is on disk afterwards, or nothing; then it must be published. Needs the turn.

        Raises:
            StoreUnavailable: If it could not be written, or the file was replaced meanwhile.
        """
        state = self.state
        state.file.check_place()
        with state.file.writer.change():
            if state.file.version() != state.version:
                state = self.state = read_state(state.file, self._read_model, state)
            yield Change(state, state.file.writer.changes)
        state.file.check_place()  # or else it was written where nobody will find it

    def publish(self, change: Change, memory: InMemoryIndex) -> None:
        """Shows searches what has been written."""
        version, file = change.state.version, change.state.file
        latest = file.version()
        if file.writer.changes == change.others:  # nobody else has written since, so that the latest is this change
            version = latest
        self.state = replace(change.state, memory=memory, version=version)

    def close(self) -> None:
        """Closes the file."""
        with self._turn:
            self.state.file.close()

    def _read_again(self) -> State:
        """The state, read again if the file is another one or was changed by others. Needs the turn."""
        state = self.state
        replaced = state.file.is_replaced
        version = None if replaced else state.file.version()
        if version == state.version:
            return state
        of = (place_of(self._path), version)
        failure = self._failure
        if failure is not None and failure.of == of and time.monotonic() < failure.until:
            raise StoreUnavailable(failure.message, RETRY_S)
        try:
            if replaced:
                self._take_over()
            else:
                self.state = read_state(state.file, self._read_model, state)
        except (OSError, StoreUnavailable) as error:
            if failure is None or failure.of != of:
                log.error("%s", error)
            self._failure = Failure(of, time.monotonic() + RETRY_S, str(error))
            raise StoreUnavailable(str(error), RETRY_S) from error
        self._failure = None
        return self.state

    def _opened(self) -> State:
        file = IndexFile(self._path)
        try:
            return read_state(file, self._read_model)
        except BaseException:
            file.close()
            raise

    def _take_over(self) -> None:
        """Opens the file that lies at the path now, in place of the one that lay there."""
        if place_of(self._path) is None:
            raise StoreUnavailable(f"{self._path} is gone: put it back, or build it again with python -m gedbd.index")
        log_place = self.state.file.log_place
        if log_place is not None and place_of(log_of(self._path)) == log_place:  # SQLite would mix the two files
            raise StoreUnavailable(f"{self._path} was replaced, but its -wal was not: replace the whole folder")
        former, self.state = self.state, self._opened()
        former.file.writer.close()  # the other connection ends with the last search that reads texts through it
        log.warning("%s was replaced: what lies there now is searched", self._path)
