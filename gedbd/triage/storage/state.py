"""One state of an open index: the connections to its file, the model, and the features that searches compare."""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.triage.report import Report
from gedbd.triage.report_encoder import BatchingEncoder
from gedbd.triage.storage.connection import StoreUnavailable, file_identity, wal_path
from gedbd.triage.storage.in_memory import InMemoryIndex
from gedbd.triage.storage.opening import read_index
from gedbd.triage.storage.store import Store
from gedbd.triage.triage_model import TriageModel

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
