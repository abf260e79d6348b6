"""What an open index has taken from its file: the connections, the model, and the numbers that searches compare."""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.triage.report import Report
from gedbd.triage.report_encoder import Together
from gedbd.triage.storage.connection import StoreUnavailable, log_of, place_of
from gedbd.triage.storage.in_memory import InMemoryIndex
from gedbd.triage.storage.store import Store
from gedbd.triage.training import TriageModel

READ_TIMEOUT_S = 1.0  # readers wait for nobody's changes, so that a lock that stops them is rare
OF_REPORTS = ("url_template",)  # what the index says of its reports, not of its model

UNDATED = "%s: %d reports have dates that cannot be used: they count as without (first: report %s)"

ReadReports = Callable[[pd.DataFrame], np.ndarray]
ReadModel = Callable[[Store], tuple[ReadReports, TriageModel]]

log = logging.getLogger("gedbd")


class IndexFile:
    """The file of an open index: one connection that changes it, and one that reads beside it without waiting.

    Args:
        path: The file.

    Attributes:
        log_place: Where its write-ahead log lies, see ``place_of``.

    Raises:
        StoreUnavailable: If it is no index, damaged, or being replaced.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._place = place_of(path)
        with ExitStack() as closing:
            try:
                self.writer = Store(path, create=False)
                closing.callback(self.writer.close)
                self._reader = Store(path, create=False, timeout_s=READ_TIMEOUT_S)
                closing.callback(self._reader.close)
            except ValueError as error:
                raise StoreUnavailable(str(error)) from error
            if self.is_replaced:
                raise StoreUnavailable(f"{path} is being replaced: try again in a moment")
            closing.pop_all()  # it stays open
        if self.writer.refusal:
            log.warning("%s is opened for reading only (%s)", path, self.writer.refusal)
        self.log_place = place_of(log_of(path))
        self._turn = threading.Lock()

    @property
    def is_replaced(self) -> bool:
        """Whether the path leads to another file by now, or to none."""
        return place_of(self.path) != self._place

    def check_place(self) -> None:
        """Raises StoreUnavailable if what is written now is lost, as the file or its log was replaced or deleted."""
        if self.is_replaced:
            raise StoreUnavailable(f"{self.path} was replaced or deleted: put a whole index there, or start again")
        if place_of(log_of(self.path)) != self.log_place:
            raise StoreUnavailable(
                f"{log_of(self.path)} was replaced or deleted: end what uses the index, and start again"
            )

    def version(self) -> int:
        """A number that is another one after each change, whoever made it."""
        with self._turn:
            return self._reader.changes

    def reports(self, ids: Sequence[str]) -> dict[str, Report]:
        """Some reports by id."""
        with self._turn:
            return self._reader.reports(ids)

    def urls(self, ids: Sequence[str]) -> dict[str, str]:
        """Addresses of some reports by id."""
        with self._turn:
            return self._reader.urls(ids)

    def close(self) -> None:
        """Ends both connections."""
        self.writer.close()
        with self._turn:
            self._reader.close()


@dataclass(frozen=True)
class State:
    """A whole state of an index; it is replaced, never changed, but for reports that are added to ``memory``.

    Attributes:
        file: Where it comes from.
        version: Of the file, see ``IndexFile.version``.
        about: What the file says of itself.
        reader: Reads reports as the stored ones were read.
        together: Likewise, for threads that want one report read each.
        matching: What was learnt from the tracker's history.
        memory: The stored reports.
    """

    file: IndexFile
    version: int
    about: dict[str, str]
    reader: ReadReports
    together: Together
    matching: TriageModel
    memory: InMemoryIndex

    @property
    def is_stale(self) -> bool:
        """Whether somebody else has changed or replaced the file."""
        return self.file.is_replaced or self.file.version() != self.version


def read_state(file: IndexFile, read_model: ReadModel, former: State | None = None) -> State:
    """Reads all that a file holds, through a connection of its own, so that others go on meanwhile.

    Args:
        file: The file.
        read_model: Makes the reader and the matching that are stored there.
        former: The state before; its model is kept if the file still has it.

    Raises:
        StoreUnavailable: If it cannot be read, or is damaged.
    """
    version = file.version()  # first: what is changed after it is read again, at worst in vain
    try:
        store = Store(file.path, create=False, timeout_s=READ_TIMEOUT_S)
        try:
            with store.moment():
                read = _read(store, file, version, read_model, former)
        finally:
            store.close()
    except ValueError as error:
        raise StoreUnavailable(str(error)) from error
    if file.is_replaced:
        raise StoreUnavailable(f"{file.path} is being replaced: try again in a moment")
    if read.memory.undated:
        log.warning(UNDATED, file.path, len(read.memory.undated), read.memory.undated[0])
    return read


def _read(store: Store, file: IndexFile, version: int, read_model: ReadModel, former: State | None) -> State:
    if store.is_empty:
        raise ValueError(f"{file.path}: its building was cut off before anything was in it: build it again")
    about, memory = store.about(), InMemoryIndex.of(store)
    if former is not None and _model(former.about) == _model(about):
        return replace(former, file=file, version=version, about=about, memory=memory)
    reader, matching = read_model(store)
    return State(file, version, about, reader, Together(reader), matching, memory)


def _model(about: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in about.items() if name not in OF_REPORTS}
