"""One state of an open index: the connections to its file, the model, and the features that searches compare."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.triage.report import Report
from gedbd.triage.report_encoder import BatchingEncoder
from gedbd.triage.storage.cache_files import read_cache, read_index
from gedbd.triage.storage.connection import StoreUnavailable, file_identity, wal_path
from gedbd.triage.storage.in_memory import InMemoryIndex
from gedbd.triage.storage.store import Store
from gedbd.triage.triage_model import TriageModel

EXCLUSIVE_TIMEOUT_S = 5.0
RETRY_S = 5
READ_TIMEOUT_S = 1.0  # readers do not wait for writers, so a lock that stops them is rare
NOT_OF_MODEL = ("url_template",)  # facts about the reports of an index, not about its model
UNDATED = "%s: %d reports have an invalid date and count as undated (first: report %s)"
UNCLEAR = "%s: %d reports have an invalid date of resolution and count as open (first: report %s)"
EncodeReports = Callable[[pd.DataFrame], np.ndarray]
LoadModel = Callable[[Store], tuple[EncodeReports, TriageModel]]
log = logging.getLogger("gedbd")


class IndexFile:
    """The file of an open index: one connection that writes, and one that reads without waiting for it.

    Args:
        path: The file.

    Attributes:
        wal_identity: Identity of its write-ahead log, see ``file_identity``.

    Raises:
        StoreUnavailable: If it is not an index, damaged, or being replaced.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._identity = file_identity(path)
        with ExitStack() as opened:
            try:
                self.writer = Store(path, create=False)
                opened.callback(self.writer.close)
                self._reader = Store(path, create=False, timeout_s=READ_TIMEOUT_S)
                opened.callback(self._reader.close)
            except ValueError as error:
                raise StoreUnavailable(str(error)) from error
            if self.is_replaced:
                raise StoreUnavailable(f"{path} is being replaced: try again in a moment")
            opened.pop_all()  # nothing failed: both connections stay open
        if self.writer.refusal:
            log.warning("%s is opened for reading only (%s)", path, self.writer.refusal)
        self.wal_identity = file_identity(wal_path(path))
        self._turn = threading.Lock()

    @property
    def is_replaced(self) -> bool:
        """Whether there is another file at the path now, or none."""
        return file_identity(self.path) != self._identity

    def check_identity(self) -> None:
        """Raises StoreUnavailable if the file or its log was replaced or deleted, so that changes would be lost."""
        if self.is_replaced:
            raise StoreUnavailable(f"{self.path} was replaced or deleted: put a complete index there, or restart")
        wal = wal_path(self.path)
        if file_identity(wal) != self.wal_identity:
            raise StoreUnavailable(f"{wal} was replaced or deleted: stop what uses the index, and start it again")

    def version(self) -> int:
        """A number that changes with every change of the file, by this process or another one."""
        with self._turn:
            return self._reader.changes

    def reports(self, ids: Sequence[str]) -> dict[str, Report]:
        """Stored reports by id."""
        with self._turn:
            return self._reader.reports(ids)

    def urls(self, ids: Sequence[str]) -> dict[str, str]:
        """Addresses of reports by id."""
        with self._turn:
            return self._reader.urls(ids)

    def close(self) -> None:
        """Closes both connections."""
        self.writer.close()
        with self._turn:
            self._reader.close()


@dataclass(frozen=True)
class State:
    """One state of an index. It is replaced, never changed, except that reports are added to ``memory``.

    Attributes:
        file: The file it was read from.
        version: Version of the file, see ``IndexFile.version``.
        about: Facts about the index, see ``Store.about``.
        encode: Encodes reports as the stored ones were encoded.
        encode_one: Likewise starts to encode one report, for several threads.
        matching: What was learned from the tracker's history.
        memory: The features of the stored reports.
    """

    file: IndexFile
    version: int
    about: dict[str, str]
    encode: EncodeReports
    encode_one: BatchingEncoder
    matching: TriageModel
    memory: InMemoryIndex

    @property
    def is_stale(self) -> bool:
        """Whether another process has changed or replaced the file."""
        return self.file.is_replaced or self.file.version() != self.version


def read_state(file: IndexFile, load_model: LoadModel, former: State | None = None) -> State:
    """Reads a file completely, through a connection of its own, so that searches go on.

    Args:
        file: The file.
        load_model: Loads the encoder and the model that are stored in it.
        former: The state before; its model is kept if the file still has it.

    Raises:
        StoreUnavailable: If the file cannot be read, or is damaged.
    """
    # Before reading: a change after this line makes the state stale, and it is read again.
    version = file.version()
    try:
        store = Store(file.path, create=False, timeout_s=READ_TIMEOUT_S)
        try:
            with store.snapshot():
                state = _read(store, file, version, load_model, former)
        finally:
            store.close()
    except ValueError as error:
        raise StoreUnavailable(str(error)) from error
    if file.is_replaced:
        raise StoreUnavailable(f"{file.path} is being replaced: try again in a moment")
    for message, ids in ((UNDATED, state.memory.undated), (UNCLEAR, state.memory.unclear)):
        if ids:
            log.warning(message, file.path, len(ids), ids[0])
    return state


def _read(store: Store, file: IndexFile, version: int, load_model: LoadModel, former: State | None) -> State:
    if store.is_empty:
        raise ValueError(f"{file.path} is empty because building it was interrupted: build it again")
    if former is None:
        store.check_structure()
    about = store.about()
    memory = read_index(store)
    if former is not None and _facts_of_model(former.about) == _facts_of_model(about):
        return replace(former, file=file, version=version, about=about, memory=memory)
    encode, matching = load_model(store)
    return State(file, version, about, encode, BatchingEncoder(encode), matching, memory)


def _facts_of_model(about: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in about.items() if name not in NOT_OF_MODEL}


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
