"""The current state of an open index: read again when another process changes the file, changed under a lock."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from gedbd.triage.storage.cache_files import read_cache
from gedbd.triage.storage.connection import StoreUnavailable, file_identity, wal_path
from gedbd.triage.storage.in_memory import InMemoryIndex
from gedbd.triage.storage.state import IndexFile, LoadModel, State, read_state

EXCLUSIVE_TIMEOUT_S = 5.0
RETRY_S = 5

log = logging.getLogger("gedbd")


class Failure(NamedTuple):
    """A failed attempt to read a file.

    Attributes:
        version: Identity and version of the file.
        until: Time before which it is not tried again, on the monotonic clock.
        message: What is wrong.
    """

    version: tuple[object, ...]
    until: float
    message: str


@dataclass(frozen=True)
class Change:
    """A change of the file in progress.

    Attributes:
        state: The state of the file; no other process can change it meanwhile.
        others: ``Store.changes`` of the connection that writes.
    """

    state: State
    others: int


class CurrentState:
    """The state that searches see.

    After another process has changed or replaced the file, the first thread that needs the state reads the file with
    its model; other threads use the old state until the new one is complete. Only threads that change the index wait.

    Args:
        path: The index file.
        load_model: See ``read_state``.

    Raises:
        StoreUnavailable: If there is no index, or it is damaged.
    """

    def __init__(self, path: Path, load_model: LoadModel) -> None:
        self._path = path
        self._load_model = load_model
        self._turn = threading.RLock()
        self._failure: Failure | None = None
        self.state = self._open()

    def latest(self) -> State:
        """The state for a search; never waits.

        Raises:
            StoreUnavailable: If the file has changed and cannot be read any more. If it was replaced by one that cannot
                be read, searches use the old file, which is still open.
        """
        state = self.state
        # Another thread that reads the file or changes it holds the lock: this one does not wait for it.
        if not state.is_stale or not self._turn.acquire(blocking=False):
            return self.state
        try:
            return self._refresh()
        except StoreUnavailable:
            if state.file.is_replaced:
                return self.state
            raise
        finally:
            self._turn.release()

    @contextmanager
    def exclusive(self) -> Iterator[State]:
        """The right to change the index, for one thread at a time; gives the latest state.

        Raises:
            StoreUnavailable: If the file cannot be changed, or other threads take too long.
        """
        if not self._turn.acquire(timeout=EXCLUSIVE_TIMEOUT_S):
            raise StoreUnavailable(f"{self._path} is being read or changed: try again in a moment", RETRY_S)
        try:
            yield self._refresh()
        finally:
            self._turn.release()

    @contextmanager
    def change(self) -> Iterator[Change]:
        """A transaction of the file, within ``exclusive``; after it the change must be published.

        Raises:
            StoreUnavailable: If it cannot be written, or the file was replaced meanwhile.
        """
        state = self.state
        state.file.check_identity()
        with state.file.writer.transaction():
            # Another process may have written between the refresh and the lock of the file.
            if state.file.version() != state.version:
                state = self.state = read_state(state.file, self._load_model, state)
            yield Change(state, state.file.writer.changes)
        state.file.check_identity()  # a file that was replaced meanwhile does not have the change

    def publish(self, change: Change, memory: InMemoryIndex) -> None:
        """Shows a change to searches."""
        file = change.state.file
        version = change.state.version
        latest = file.version()
        # If no other process has written since, the latest version is this change, and need not be read again.
        if file.writer.changes == change.others:
            version = latest
        self.state = replace(change.state, memory=memory, version=version)

    def read_again(self) -> None:
        """Reads the file again after the files beside it were made again, and forgets the changes that they have.

        Raises:
            StoreUnavailable: If it cannot be read or written.
        """
        with self.exclusive() as former:
            self.state = read_state(former.file, self._load_model, former)
            files = read_cache(former.file.writer)
            if files is not None:
                with self.change() as change:
                    change.state.file.writer.log.forget(files.facts["change"])
                self.publish(change, change.state.memory)

    def close(self) -> None:
        """Closes the file."""
        with self._turn:
            self.state.file.close()

    def _refresh(self) -> State:
        """The state, read again if another process has changed or replaced the file. The caller holds the lock."""
        state = self.state
        is_replaced = state.file.is_replaced
        version = None if is_replaced else state.file.version()
        if version == state.version:
            return state
        wanted = (file_identity(self._path), version)
        failure = self._failure
        # Reading a large file takes seconds: after a failure not every search tries again.
        if failure is not None and failure.version == wanted and time.monotonic() < failure.until:
            raise StoreUnavailable(failure.message, RETRY_S)
        try:
            if is_replaced:
                self._open_replacement()
            else:
                self.state = read_state(state.file, self._load_model, state)
        except (OSError, StoreUnavailable) as error:
            if failure is None or failure.version != wanted:
                log.error("%s", error)
            self._failure = Failure(wanted, time.monotonic() + RETRY_S, str(error))
            raise StoreUnavailable(str(error), RETRY_S) from error
        self._failure = None
        return self.state

    def _open(self) -> State:
        file = IndexFile(self._path)
        try:
            return read_state(file, self._load_model)
        except BaseException:
            file.close()
            raise

    def _open_replacement(self) -> None:
        """Opens the file that has replaced the open one."""
        if file_identity(self._path) is None:
            raise StoreUnavailable(f"{self._path} is gone: restore it, or build it again with gedbd index")
        former = self.state
        wal_identity = former.file.wal_identity
        # SQLite would apply the log of the former file to the new one.
        if wal_identity is not None and file_identity(wal_path(self._path)) == wal_identity:
            raise StoreUnavailable(f"{self._path} was replaced, but its -wal was not: replace the whole folder")
        self.state = self._open()
        former.file.writer.close()  # the other connection closes with the last search that reads texts through it
        log.warning("%s was replaced: searches use the new index", self._path)
