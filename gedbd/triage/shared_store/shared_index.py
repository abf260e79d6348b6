"""An open index on a PostgreSQL server: what ``StoredIndex`` offers, without a copy of the reports in this process."""

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from omegaconf import DictConfig

from gedbd.corpora.bug_report import Filters, Match, Report, as_table, check_report, check_top_k
from gedbd.encoders.given_encoder import GivenEncoder
from gedbd.io.console import stage
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.triage.index_search import find_matches
from gedbd.triage.report_encoder import BatchingEncoder
from gedbd.triage.shared_store.connections import storable
from gedbd.triage.shared_store.postgres_store import PostgresStore
from gedbd.triage.shared_store.store_search import find_reports
from gedbd.triage.storage.state import EncodeReports, SearchState
from gedbd.triage.storage.stored_model import load_model, template_of
from gedbd.triage.stored_index import (
    NO_FILTERS,
    Changed,
    StoredIndex,
    as_stored,
    changed_reports,
    check_stored,
    encode_in_batches,
)
from gedbd.triage.triage_model import TriageModel

log = logging.getLogger("gedbd")


class LoadedModel(NamedTuple):
    """The model of an index in this process.

    Attributes:
        key: Identifies it.
        name: Name of the tracker.
        encode_one: Starts to encode one report as the stored ones were encoded, for several threads.
        matching: What was learned from the tracker's history.
    """

    key: str
    name: str
    encode_one: BatchingEncoder
    matching: TriageModel

    def vectors(self, changed: Changed) -> np.ndarray:
        """``(B, D)`` vectors of the reports that have changed."""
        reports = list(changed.reports.values())
        return encode_in_batches(self.encode_one.encode, as_table(reports)) if reports else np.empty((0, 0))


class SharedIndex(StoredIndex):
    """The reports of one tracker on a server, ready to be searched from several machines.

    Each method sees what is stored when it is called, and a change is stored when its method returns.

    Args:
        store: The index, which this object closes.
        load: Loads the encoder and the model from it.
        folder: Where feedback and deliveries of a service are kept.

    Raises:
        ValueError: If the model of the index is damaged.
    """

    def __init__(
        self, store: PostgresStore, load: Callable[[PostgresStore], tuple[EncodeReports, TriageModel]], folder: Path
    ) -> None:
        self.folder = folder
        self._shared = store
        self._load = load
        self._loading = threading.Lock()
        with store.snapshot():
            self._model = self._read_model()
            self._count = store.count()

    def __len__(self) -> int:
        try:
            self._count = self._shared.count()
        except StoreUnavailable as error:
            log.warning("%s", error)
        return self._count

    @property
    def name(self) -> str:
        """The tracker's name."""
        return self._model.name

    @property
    def matching(self) -> TriageModel:
        """What was learned from the tracker's history."""
        return self._model.matching

    def close(self) -> None:
        """Closes the connections."""
        self._shared.close()

    def get(self, issue_id: str) -> Report | None:
        """See ``StoredIndex``."""
        return next(iter(self._shared.reports([issue_id]).values()), None)

    def get_many(self, ids: Sequence[str]) -> dict[str, Report]:
        """See ``StoredIndex``."""
        return self._shared.reports(ids)

    def components_like(self, name: str, limit: int) -> list[str]:
        """See ``StoredIndex``."""
        return self._shared.components_like(name, limit)

    def known_duplicates(self, ids: Sequence[str]) -> dict[str, set[str]]:
        """See ``StoredIndex``."""
        return self._shared.known_duplicates(ids)

    def vectors(self) -> tuple[list[str], np.ndarray]:
        """See ``StoredIndex``."""
        return self._shared.vectors()

    def search(self, report: Report, top_k: int = 10, filters: Filters = NO_FILTERS) -> list[Match]:
        """See ``StoredIndex``."""
        check_report(report)
        check_top_k(top_k)
        report = storable(report)
        filters = storable(filters)
        with self._shared.snapshot():
            report = as_stored(report, template_of(self._shared))
            model = self._latest_model()
            vector = model.encode_one(as_table([report]))  # encoded in another thread, while words are looked up
            memory = find_reports(self._shared, report, filters, vector.result)
            state = SearchState(self._shared, lambda _: vector, model.matching, memory)
            return find_matches(state, report, top_k, filters)

    def add(self, reports: Sequence[Report], fields: Sequence[str] | None = None) -> dict[str, str]:
        """See ``StoredIndex``."""
        check_stored(reports)
        given = list(map(storable, reports))
        with self._shared.snapshot():
            model = self._latest_model()
            changed = changed_reports(self._shared, given, fields)
        if changed.reports:
            # Before the transaction, in which no other process can change the index: encoding may take seconds.
            vectors = model.vectors(changed)
            with self._shared.transaction():
                latest = self._latest_model()
                now = changed_reports(self._shared, given, fields)
                if latest is not model or now.reports != changed.reports:
                    changed = now
                    vectors = latest.vectors(now)
                self._shared.write_reports(list(changed.reports.values()), vectors)
        return changed.said(given)

    def link(self, report_id: str, duplicate_id: str, source: str) -> None:
        """See ``StoredIndex``."""
        if report_id == duplicate_id:
            raise ValueError(f"report {report_id} cannot be a duplicate of itself")
        with self._shared.transaction():
            stored = self._shared.reports([report_id, duplicate_id])
            for one in (report_id, duplicate_id):
                if one not in stored:
                    raise ValueError(f"report {one} is not in the index: add it first")
            self._shared.write_links([(report_id, duplicate_id, source)])

    def unlink(self, report_id: str, duplicate_id: str, source: str | None = None) -> bool:
        """See ``StoredIndex``."""
        with self._shared.transaction():
            return self._shared.delete_links(report_id, duplicate_id, source)

    def delete(self, issue_id: str) -> bool:
        """See ``StoredIndex``."""
        with self._shared.transaction():
            is_stored = bool(self._shared.reports([issue_id]))
            self._shared.delete([issue_id])
        return is_stored

    def forget(self, issue_id: str) -> bool:
        """Deletes a report and all that came from it; returns whether it was stored.

        Reports that were duplicates of it stay duplicates of each other. The server keeps the bytes of what was deleted
        until it has written over them, and in its log and its backups until these are deleted.
        """
        with self._shared.transaction():
            is_stored = bool(self._shared.reports([issue_id]))
            self._shared.forget([issue_id])
        self._shared.tidy()
        return is_stored

    def _read_model(self) -> LoadedModel:
        encode, matching = self._load(self._shared)
        about = self._shared.about()
        return LoadedModel(about["model"], about["name"], BatchingEncoder(encode), matching)

    def _latest_model(self) -> LoadedModel:
        """The model that has encoded what this transaction sees; loaded again if another process has replaced it."""
        with self._loading:
            if self._shared.fact("model") != self._model.key:
                self._model = self._read_model()
            return self._model


@stage("open the index")
def open_shared_index(
    url: str,
    cache_dir: str,
    backend: DictConfig | None = None,
    given: GivenEncoder | None = None,
    folder: str | Path = ".",
) -> SharedIndex:
    """Opens an index on a server.

    Args:
        url: The address, ``postgresql://user@host:port/database``.
        cache_dir: Where 8-bit models and encoders of queries are kept.
        backend: See ``open_index``.
        given: Likewise.
        folder: Where feedback and deliveries of a service are kept.

    Raises:
        ValueError: If the address is invalid, the server cannot be used, or there is no index.
    """
    store = PostgresStore(url, create=False)
    try:
        return SharedIndex(
            store, lambda opened: load_model(opened, opened.path, cache_dir, backend, given), Path(folder)
        )
    except BaseException:
        store.close()
        raise
