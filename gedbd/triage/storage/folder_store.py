"""An open index in a folder: its file, all features in memory, and a cache that makes opening a large index fast.

The cache can be deleted at any time: it is rebuilt from the index file. It holds one state of the index; later changes
are read from the index file when it is opened.
"""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gedbd.corpora.bug_report import Filters, Report
from gedbd.io.arrow_files import read_arrays, write_arrays
from gedbd.io.console import stage
from gedbd.io.sqlite_file import LOCK_TIMEOUT_S, StoreUnavailable, file_identity
from gedbd.retrieval.report_ranking.feature_store import FeatureEncoder
from gedbd.triage.storage.in_memory import InMemoryIndex
from gedbd.triage.storage.index_folder import CACHE, CACHE_SUFFIX, FILE
from gedbd.triage.storage.index_store import IndexStore, StoredVocabulary, remove_caches
from gedbd.triage.storage.stored_model import LoadedModel, LoadModel, template_of

MIN_REPORTS = 10_000  # fewer are read within a second
MAX_CHANGED = 0.2  # share of the reports; if more have changed, the cache is rebuilt
FORMAT = 2  # of the cache
MODULE = "gedbd.triage.storage.folder_store"
log = logging.getLogger("gedbd")
EXCLUSIVE_TIMEOUT_S = 5.0
RETRY_S = 5
READ_TIMEOUT_S = 1.0  # readers do not wait for writers, so a lock that stops them is rare
NOT_OF_MODEL = ("url_template", "template")  # facts about the reports of an index, not about its model
UNDATED = "%s: %d reports have an invalid date and count as undated (first: report %s)"
UNCLEAR = "%s: %d reports have an invalid date of resolution and count as open (first: report %s)"
MIN_CHANGED = 1_000
CHANGED_SHARE = 0.02  # of the reports: more changes would slow searches and additions down


def read_index(store: IndexStore) -> InMemoryIndex:
    """Reads an index; with ``MIN_REPORTS`` reports or more, from its cache, which is written if missing."""
    with store.snapshot():
        if store.count() < MIN_REPORTS:
            return InMemoryIndex.of(store)
        cached = read_cache(store)
        if cached is not None and len(store.rows_since(cached.change)) <= MAX_CHANGED * len(cached):
            return cached.latest(store)
        if store.read_only:
            return InMemoryIndex.of(store)
        log.warning("%s: writing a cache that makes opening the index faster", store.path.parent)
        return write_cache(store)


def read_cache(store: IndexStore) -> InMemoryIndex | None:
    """The index in the state of its latest cache; None if there is none, or it is damaged."""
    names = (path.name.removeprefix(CACHE).removesuffix(CACHE_SUFFIX) for path in store.path.parent.glob(f"{CACHE}*"))
    for number in sorted((int(name) for name in names if name.isdecimal()), reverse=True):
        path = cache_path(store, number)
        try:
            arrays, facts = read_arrays(path, check=False)
            if facts["owner"] == _owner(store) and store.has_all_changes_since(facts["change"]):
                return InMemoryIndex.of_arrays(arrays, facts)
        except FileNotFoundError:
            continue  # another process has replaced it
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("%s cannot be used (%s): it is rebuilt", path, error)
    return None


def write_cache(store: IndexStore) -> InMemoryIndex:
    """Reads an index completely, writes the cache of its current state, and deletes older caches.

    Raises:
        ValueError: If the index is damaged.
    """
    with store.snapshot():  # until the file has its name: nothing is erased from an index while it is read
        index = InMemoryIndex.of(store)
        arrays, facts = index.as_arrays()
        path = cache_path(store, index.change)
        try:
            write_arrays(path, arrays, facts | {"owner": _owner(store)})
        except (OSError, ValueError) as error:
            log.warning("%s cannot be written (%s), so all reports are read each time", path, error)
            return index
    with suppress(OSError):
        remove_caches(path.parent, index.change)
    return InMemoryIndex.of_arrays(*read_arrays(path, check=False))


def cache_path(store: IndexStore, change: int) -> Path:
    """The path of the cache of an index in its state after a change."""
    return store.path.with_name(f"{CACHE}{change}{CACHE_SUFFIX}")


@stage("write the cache of the index")
def compact(path: Path) -> None:
    """Deletes words that no report has any more, and writes the cache of an index of ``MIN_REPORTS`` reports or more.

    Changes that the cache includes are deleted from the log of the index.
    """
    with closing(IndexStore(path, create=False)) as store:
        if store.is_empty:
            return
        with store.transaction():
            store.empty_unused_terms()
        if store.count() >= MIN_REPORTS:
            change = write_latest(store)
            with store.transaction():
                store.forget_changes(change)


def compact_elsewhere(path: Path) -> str:
    """Writes the cache of an index in a separate process; returns the error, empty if there is none."""
    # -P: -m alone would import modules from the current folder, which may be untrusted.
    command = [sys.executable, "-P", "-m", MODULE, str(path)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    return (process.stderr.strip().splitlines() or ["it was stopped"])[-1] if process.returncode else ""


def write_latest(store: IndexStore) -> int:
    """Writes the cache of an index unless it is up to date; returns the number of the last change in it."""
    cached = read_cache(store)
    if cached is not None and cached.change == store.last_change():
        return cached.change
    return write_cache(store).change


def _owner(store: IndexStore) -> list[object]:
    """Identifies the index, model and terms that a cache belongs to."""
    about = store.about()
    return [FORMAT, store.token(), about.get("model"), about.get("terms")]


@dataclass(frozen=True)
class FolderState:
    """A state of an index file. A change creates a new state; running searches keep theirs."""

    reports: IndexStore  # the connection that searches read from; within a change, the writing connection
    writer: IndexStore  # the connection that changes the file
    version: int  # ``IndexStore.changes`` of the reader when the state was read
    about: dict[str, str]  # facts about the index, see ``ReportStore.about``
    model: LoadedModel  # the model that encoded the reports
    memory: InMemoryIndex  # the features of the stored reports
    template: frozenset[str]  # see ``template_of``

    @property
    def is_stale(self) -> bool:
        """Whether the file has been changed or replaced since."""
        return self.writer.is_replaced or self.reports.changes != self.version

    def candidates(self, report: Report, filters: Filters, vector: object) -> InMemoryIndex:
        """The candidates for duplicates of a report: all stored reports; filters and vector are ignored."""
        index = copy(self.memory)  # with the numbers of terms in the file, for this search
        index.encoder = FeatureEncoder(StoredVocabulary(self.reports))
        index.encoder.categories = self.memory.encoder.categories
        return index

    def groups(self, ids: Sequence[str]) -> dict[str, list[str]]:
        """Ids of each report and its known duplicates, oldest first, by its id; empty if it is not stored."""
        memory = self.memory
        rows = {issue_id: memory.members(memory.row_of[issue_id]) for issue_id in ids if issue_id in memory.row_of}
        return {issue_id: [memory.ids[row] for row in rows.get(issue_id, [])] for issue_id in ids}

    def vectors(self, ids: Sequence[str] | None = None) -> tuple[list[str], np.ndarray]:
        """Ids and vectors, ``(N, D)``, of the stored reports, or of those among ``ids``."""
        memory = self.memory
        if ids is None:
            return memory.ids, memory.store.vectors.filled
        stored = [issue_id for issue_id in ids if issue_id in memory.row_of]
        return stored, memory.store.vectors.take(
            np.array([memory.row_of[issue_id] for issue_id in stored], dtype=np.int64)
        )

    def newest_day(self) -> float:
        """Date of the newest report in days since 1970; NaN without dates."""
        return float(np.fmax.reduce(self.memory.store["day"], initial=np.nan))


class FailedRead(NamedTuple):
    """A failed attempt to read a version of a file, which is not repeated until a time of the monotonic clock."""

    version: tuple[object, ...]
    until: float
    message: str


class FolderStore:
    """An open index in a folder. ``SharedStore`` has the same interface for a server.

    After another process has changed or replaced the file, the first thread that needs the state reads what has
    changed, or the whole file with its model; other threads use the old state until the new one is complete. Only
    threads that change the index wait.

    Args:
        folder: The folder.
        load_model: Loads the encoder and the model that are stored in its file.
        read_only: See ``SqliteFile``.

    Raises:
        StoreUnavailable: If there is no index, or it is damaged.
    """

    def __init__(self, folder: Path, load_model: LoadModel, read_only: bool = False) -> None:
        self._path = folder / FILE
        self._read_only = read_only
        self._load_model = load_model
        self._lock = threading.RLock()
        self._failure: FailedRead | None = None
        self.state = self._open()
        self._compacting = threading.Lock()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self.state.memory)

    @property
    def model(self) -> LoadedModel:
        """The last loaded model."""
        return self.state.model

    @property
    def file(self) -> IndexStore:
        """The connection that changes the file."""
        return self.state.writer

    def read(self) -> AbstractContextManager[FolderState]:
        """The latest state; never waits.

        Raises:
            StoreUnavailable: If the file has changed and cannot be read any more. If it was replaced by one that cannot
                be read, searches use the old file, which is still open.
        """
        state = self.state
        # Another thread that reads the file or changes it holds the lock: this one does not wait for it.
        if state.is_stale and self._lock.acquire(blocking=False):
            try:
                self._refresh()
            except StoreUnavailable:
                if not state.writer.is_replaced:
                    raise
            finally:
                self._lock.release()
        return nullcontext(self.state)

    @contextmanager
    def change(self) -> Iterator[FolderState]:
        """The latest state in a transaction that changes it. Raises StoreUnavailable if other threads take too long."""
        with self._exclusive():
            writer = self._refresh().writer
            with writer.transaction():
                # Another process may have written before this one had the lock of the file.
                yield replace(self._refresh(), reports=writer)
            with suppress(StoreUnavailable):  # the change is on disk, and the next call reads it
                self._refresh()
        memory = self.state.memory
        if memory.num_changed > max(MIN_CHANGED, CHANGED_SHARE * len(memory)):
            self._start_compaction()

    def forget(self, issue_id: str) -> bool:
        """Erases a report and all that comes from it; returns whether it was stored. Raises OSError too."""
        with self._exclusive():
            missing = self._refresh().writer.forget([issue_id])
            self._refresh()
        self._start_compaction()
        return not missing

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._is_closed = True
            self.state.writer.close()
            self.state.reports.close()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Lets one thread at a time change the index; raises StoreUnavailable if the others take too long."""
        if not self._lock.acquire(timeout=EXCLUSIVE_TIMEOUT_S):
            raise StoreUnavailable(f"{self._path} is being read or changed: try again in a moment", RETRY_S)
        try:
            yield
        finally:
            self._lock.release()

    def _refresh(self) -> FolderState:
        """The state, read again if the file has been changed or replaced. The caller holds the lock."""
        state = self.state
        is_replaced = state.writer.is_replaced
        version = None if is_replaced else state.reports.changes
        if version == state.version:
            return state
        file_version = (file_identity(self._path), version)
        failure = self._failure
        # Reading a large file takes seconds: after a failure not every search tries again.
        if failure is not None and failure.version == file_version and time.monotonic() < failure.until:
            raise StoreUnavailable(failure.message, RETRY_S)
        try:
            self.state = self._open_replacement() if is_replaced else self._read(state.writer, state.reports, state)
        except (OSError, StoreUnavailable) as error:
            if failure is None or failure.version != file_version:
                log.error("%s", error)
            self._failure = FailedRead(file_version, time.monotonic() + RETRY_S, str(error))
            raise StoreUnavailable(str(error), RETRY_S) from error
        self._failure = None
        return self.state

    def _open(self) -> FolderState:
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

    def _open_replacement(self) -> FolderState:
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

    def _read(
        self, writer: IndexStore, reader: IndexStore, former: FolderState | None = None, whole: bool = False
    ) -> FolderState:
        """Reads the file through a separate connection, so that searches continue.

        Args:
            writer: See ``FolderState``.
            reader: The connection that searches read from.
            former: The previous state, whose model and features are reused as far as they are still valid.
            whole: Whether all features are read, not only those that have changed.
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
                known = former
                if former is not None and _facts_of_model(former.about) != _facts_of_model(about):
                    known = None
                if known is not None and not whole and store.has_all_changes_since(known.memory.change):
                    memory = known.memory.latest(store)
                else:
                    memory = read_index(store)
                model = LoadedModel.of(store, self._load_model) if known is None else known.model
                state = FolderState(reader, writer, version, about, model, memory, template_of(store))
        except ValueError as error:
            raise StoreUnavailable(str(error)) from error
        if writer.is_replaced:
            raise StoreUnavailable(f"{self._path} is being replaced: try again in a moment")
        if former is None or (memory.undated, memory.unclear) != (former.memory.undated, former.memory.unclear):
            for message, ids in ((UNDATED, memory.undated), (UNCLEAR, memory.unclear)):
                if ids:
                    log.warning(message, self._path, len(ids), ids[0])
        return state

    def _start_compaction(self) -> None:
        """Rebuilds the cache of a large index in another process, unless a rebuild is running."""
        if len(self) >= MIN_REPORTS and self._compacting.acquire(blocking=False):
            threading.Thread(target=self._compact, name="compaction", daemon=True).start()

    def _compact(self) -> None:
        try:
            reason = compact_elsewhere(self._path)
            if reason:
                log.error("%s: its cache could not be rebuilt (%s)", self._path, reason)
                return
            with self._exclusive():
                if self._is_closed:
                    return
                former = self._refresh()
                self.state = self._read(former.writer, former.reports, former, whole=True)
                cached = read_cache(former.writer)
                if cached is not None:
                    with former.writer.transaction():
                        former.writer.forget_changes(cached.change)
        except (OSError, StoreUnavailable) as error:
            log.error("%s", error)
        finally:
            self._compacting.release()


def _facts_of_model(about: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in about.items() if name not in NOT_OF_MODEL}


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(10)  # searches come first
    with closing(IndexStore(Path(sys.argv[1]), create=False)) as opened:
        with opened.transaction():
            opened.empty_unused_terms()
        write_latest(opened)
