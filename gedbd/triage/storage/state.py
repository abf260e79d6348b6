"""One state of an open index: the connections to its file, the model, and the features that searches compare."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.io.sqlite_file import LOCK_TIMEOUT_S, StoreUnavailable, file_identity
from gedbd.triage.report_encoder import BatchingEncoder
from gedbd.triage.storage.cache_files import read_cache, read_index
from gedbd.triage.storage.in_memory import InMemoryIndex
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.storage.report_store import ReportStore
from gedbd.triage.storage.stored_model import template_of
from gedbd.triage.triage_model import TriageModel

EXCLUSIVE_TIMEOUT_S = 5.0
RETRY_S = 5
READ_TIMEOUT_S = 1.0  # readers do not wait for writers, so a lock that stops them is rare
NOT_OF_MODEL = ("url_template", "template")  # facts about the reports of an index, not about its model
UNDATED = "%s: %d reports have an invalid date and count as undated (first: report %s)"
UNCLEAR = "%s: %d reports have an invalid date of resolution and count as open (first: report %s)"
EncodeReports = Callable[[pd.DataFrame], np.ndarray]
LoadModel = Callable[[IndexStore], tuple[EncodeReports, TriageModel]]
log = logging.getLogger("gedbd")


@dataclass(frozen=True)
class SearchState:
    """What a search reads of an index.

    Attributes:
        reader: The texts of the stored reports.
        encode_one: Starts to encode one report as the stored ones were encoded, for several threads.
        matching: What was learned from the tracker's history.
        memory: The features of the stored reports.
    """

    reader: ReportStore
    encode_one: Callable[[pd.DataFrame], Future[np.ndarray]]
    matching: TriageModel
    memory: InMemoryIndex


@dataclass(frozen=True)
class StoredState(SearchState):
    """One state of an index file. A change makes another one, and searches go on with theirs.

    Attributes:
        reader: A connection that reads without waiting for ``writer``.
        writer: The connection to the file that changes it.
        version: ``IndexStore.changes`` of the reader when it was read.
        about: Facts about the index, see ``ReportStore.about``.
        encode: Encodes reports as the stored ones were encoded.
        template: See ``template_of``.
    """

    reader: IndexStore
    writer: IndexStore
    version: int
    about: dict[str, str]
    encode: EncodeReports
    template: frozenset[str]

    @property
    def is_stale(self) -> bool:
        """Whether another process has changed or replaced the file."""
        return self.writer.is_replaced or self.reader.changes != self.version


class FailedRead(NamedTuple):
    """A failed attempt to read a file.

    Attributes:
        version: Identity and version of the file.
        until: Time before which it is not tried again, on the monotonic clock.
        message: What is wrong.
    """

    version: tuple[object, ...]
    until: float
    message: str


@dataclass
class IndexChange:
    """A change of the file in progress; no other process can change it meanwhile.

    Attributes:
        state: The state of the file before it.
        update: Gives the features after it, once it is on disk.
    """

    state: StoredState
    update: Callable[[InMemoryIndex], InMemoryIndex] = lambda memory: memory


class CurrentState:
    """The state that searches see.

    After another process has changed or replaced the file, the first thread that needs the state reads the file with
    its model; other threads use the old state until the new one is complete. Only threads that change the index wait.

    Args:
        path: The index file.
        load_model: Loads the encoder and the model that are stored in it.
        read_only: See ``SqliteFile``.

    Raises:
        StoreUnavailable: If there is no index, or it is damaged.
    """

    def __init__(self, path: Path, load_model: LoadModel, read_only: bool = False) -> None:
        self._path = path
        self._read_only = read_only
        self._load_model = load_model
        self._turn = threading.RLock()
        self._failure: FailedRead | None = None
        self.state = self._open()

    def latest(self) -> StoredState:
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
            if state.writer.is_replaced:
                return self.state
            raise
        finally:
            self._turn.release()

    @contextmanager
    def exclusive(self) -> Iterator[StoredState]:
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
    def change(self) -> Iterator[IndexChange]:
        """A transaction of the file by one thread at a time; once it is on disk, searches see it.

        Raises:
            StoreUnavailable: If it cannot be written, or the file was replaced meanwhile, or other threads take too
                long.
        """
        with self.exclusive() as state:
            store = state.writer
            with store.transaction():
                # Another process may have written between the refresh and the lock of the file.
                if state.reader.changes != state.version:
                    state = self.state = self._read(state.writer, state.reader, state)
                others = store.changes
                change = IndexChange(state)
                yield change
            memory = change.update(state.memory)
            version = state.version
            latest = state.reader.changes
            # If no other process has written since, the latest version is this change, and need not be read again.
            if store.changes == others:
                version = latest
            self.state = replace(state, memory=memory, version=version)

    def read_again(self) -> None:
        """Reads the file again after the files beside it were made again, and forgets the changes that they have.

        Raises:
            StoreUnavailable: If it cannot be read or written.
        """
        with self.exclusive() as former:
            self.state = self._read(former.writer, former.reader, former)
            files = read_cache(former.writer)
            if files is not None:
                with self.change() as change:
                    change.state.writer.forget_changes(files.facts["change"])

    def close(self) -> None:
        """Closes the file."""
        with self._turn:
            self.state.writer.close()
            self.state.reader.close()

    def _refresh(self) -> StoredState:
        """The state, read again if another process has changed or replaced the file. The caller holds the lock."""
        state = self.state
        is_replaced = state.writer.is_replaced
        version = None if is_replaced else state.reader.changes
        if version == state.version:
            return state
        wanted = (file_identity(self._path), version)
        failure = self._failure
        # Reading a large file takes seconds: after a failure not every search tries again.
        if failure is not None and failure.version == wanted and time.monotonic() < failure.until:
            raise StoreUnavailable(failure.message, RETRY_S)
        try:
            self.state = self._open_replacement() if is_replaced else self._read(state.writer, state.reader, state)
        except (OSError, StoreUnavailable) as error:
            if failure is None or failure.version != wanted:
                log.error("%s", error)
            self._failure = FailedRead(wanted, time.monotonic() + RETRY_S, str(error))
            raise StoreUnavailable(str(error), RETRY_S) from error
        self._failure = None
        return self.state

    def _open(self) -> StoredState:
        """Opens the file and reads it."""
        with ExitStack() as opened:
            identity = file_identity(self._path)
            try:
                writer = opened.enter_context(closing(self._connect(must_stay=not self._read_only)))
                reader = opened.enter_context(closing(self._connect(timeout_s=READ_TIMEOUT_S)))
            except ValueError as error:
                raise StoreUnavailable(str(error)) from error
            if file_identity(self._path) != identity:
                raise StoreUnavailable(f"{self._path} is being replaced: try again in a moment")
            if writer.refusal and not self._read_only:
                log.warning("%s is opened for reading only (%s)", self._path, writer.refusal)
            state = self._read(writer, reader)
            opened.pop_all()  # nothing failed: both connections stay open
        return state

    def _connect(self, timeout_s: float = LOCK_TIMEOUT_S, must_stay: bool = False) -> IndexStore:
        """A connection to the file."""
        return IndexStore(self._path, False, timeout_s, must_stay, self._read_only)

    def _open_replacement(self) -> StoredState:
        """Opens the file that has replaced the open one."""
        if file_identity(self._path) is None:
            raise StoreUnavailable(f"{self._path} is gone: restore it, or build it again with gedbd index")
        former = self.state
        # SQLite would apply the log of the former file to the new one.
        if former.writer.is_log_kept:
            raise StoreUnavailable(f"{self._path} was replaced, but its -wal was not: replace the whole folder")
        state = self._open()
        former.writer.close()  # the other connection closes with the last search that reads texts through it
        log.warning("%s was replaced: searches use the new index", self._path)
        return state

    def _read(self, writer: IndexStore, reader: IndexStore, former: StoredState | None = None) -> StoredState:
        """Reads the file completely, through a connection of its own, so that searches go on.

        Args:
            writer: See ``StoredState``.
            reader: See ``StoredState``.
            former: The state before; its model is kept if the file still has it.

        Raises:
            StoreUnavailable: If the file cannot be read, or is damaged.
        """
        # Before reading: a change after this line makes the state stale, and it is read again.
        version = reader.changes
        try:
            with closing(self._connect(timeout_s=READ_TIMEOUT_S)) as store, store.snapshot():
                if store.is_empty:
                    raise ValueError(f"{self._path} is empty because building it was interrupted: build it again")
                if former is None:
                    store.check_structure()
                about = store.about()
                template = template_of(store)
                memory = read_index(store)
                if former is not None and _facts_of_model(former.about) == _facts_of_model(about):
                    state = replace(former, version=version, about=about, memory=memory, template=template)
                else:
                    encode, matching = self._load_model(store)
                    state = StoredState(
                        reader, BatchingEncoder(encode), matching, memory, writer, version, about, encode, template
                    )
        except ValueError as error:
            raise StoreUnavailable(str(error)) from error
        if writer.is_replaced:
            raise StoreUnavailable(f"{self._path} is being replaced: try again in a moment")
        for message, ids in ((UNDATED, memory.undated), (UNCLEAR, memory.unclear)):
            if ids:
                log.warning(message, self._path, len(ids), ids[0])
        return state


def _facts_of_model(about: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in about.items() if name not in NOT_OF_MODEL}
