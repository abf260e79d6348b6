"""An open index on a PostgreSQL server: what ``StoredIndex`` offers, without a copy of the reports in this process."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from omegaconf import DictConfig

from gedbd.encoders.given_encoder import GivenEncoder
from gedbd.io.console import stage
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.triage.backtesting.thresholds import TargetResult
from gedbd.triage.bug_report import Filters, Match, Report, as_table, check_report, check_top_k
from gedbd.triage.report_encoder import BatchingEncoder
from gedbd.triage.shared_store.postgres_store import MAX_LOOSE, PostgresStore, storable, text_of
from gedbd.triage.shared_store.store_search import FoundReports, search_store
from gedbd.triage.storage.state import EncodeReports
from gedbd.triage.storage.stored_model import load_model
from gedbd.triage.stored_index import (
    NO_FILTERS,
    changed_reports,
    check_stored,
    encode_in_batches,
    rank_candidates,
)
from gedbd.triage.triage_model import TriageModel

log = logging.getLogger("gedbd")
LoadModel = Callable[[PostgresStore], tuple[EncodeReports, TriageModel]]


@dataclass(frozen=True)
class LoadedModel:
    """The model of an index in this process.

    Attributes:
        about: Facts about the index, see ``IndexStore.about``.
        encode: Encodes reports as the stored ones were encoded.
        encode_one: Likewise starts to encode one report, for several threads.
        matching: What was learned from the tracker's history.
    """

    about: dict[str, str]
    encode: EncodeReports
    encode_one: BatchingEncoder
    matching: TriageModel


class SearchState(NamedTuple):
    """What ``rank_candidates`` reads of an index."""

    matching: TriageModel
    memory: FoundReports
    reader: PostgresStore


class SharedIndex:
    """The reports of one tracker on a server, ready to be searched from several machines.

    See ``StoredIndex`` for the methods: each sees what is stored when it is called, and a change is stored when its
    method returns.

    Args:
        store: The index, which this object closes.
        load: Loads the encoder and the model from it.
        folder: Where feedback and deliveries of a service are kept.

    Raises:
        ValueError: If there is no index, or its model is damaged.
    """

    def __init__(self, store: PostgresStore, load: LoadModel, folder: Path) -> None:
        self.folder = folder
        self._store = store
        self._load = load
        self._loading = threading.Lock()
        self._merging = threading.Lock()
        try:
            with store.snapshot():
                self._model = self._read_model()
                self._count = store.count()
        except StoreUnavailable as error:
            raise ValueError(str(error)) from error

    def __len__(self) -> int:
        try:
            self._count = self._store.count()
        except StoreUnavailable as error:
            log.warning("%s", error)
        return self._count

    @property
    def name(self) -> str:
        """The tracker's name."""
        return self._model.about.get("name", "")

    @property
    def matching(self) -> TriageModel:
        """What was learned from the tracker's history."""
        return self._model.matching

    @property
    def targets(self) -> tuple[TargetResult, ...]:
        """The results for all precision targets that the backtest measured."""
        return self.matching.targets

    @property
    def target(self) -> TargetResult:
        """The result for the precision target of the index."""
        return self.matching.target

    def close(self) -> None:
        """Closes the connections."""
        self._store.close()

    def get(self, issue_id: str) -> Report | None:
        """See ``StoredIndex``."""
        one = text_of(issue_id)
        return self._store.reports([one]).get(one)

    def vectors(self) -> tuple[list[str], np.ndarray]:
        """See ``StoredIndex``."""
        return self._store.vectors()

    def search(self, report: Report, top_k: int = 10, filters: Filters = NO_FILTERS) -> list[Match]:
        """See ``StoredIndex``."""
        check_report(report)
        check_top_k(top_k)
        report = storable(report)
        if filters.component is not None:
            filters = Filters(filters.created_from, filters.created_before, text_of(filters.component))
        with self._store.snapshot():
            model = self._latest_model()
            vector = model.encode_one(as_table([report]))  # encoded in another thread, while words are looked up
            found, reports = search_store(self._store, report, filters, vector.result)
            return rank_candidates(SearchState(model.matching, reports, self._store), report, found, top_k)

    def add(self, reports: Sequence[Report], fields: Sequence[str] | None = None) -> dict[str, str]:
        """See ``StoredIndex``."""
        check_stored(reports)
        given = [storable(report) for report in reports]
        with self._store.snapshot():
            model = self._latest_model()
            changed = changed_reports(self._store, model.about.get("url_template", ""), given, fields)
        # Before the transaction, in which no other process can change the index: encoding may take seconds.
        vectors = self._vectors(model, changed.reports)
        is_due = False
        if changed.reports:
            with self._store.transaction() as change:
                latest = self._latest_model()
                now = changed_reports(self._store, latest.about.get("url_template", ""), given, fields)
                if latest is not model or now.reports != changed.reports:
                    changed, vectors = now, self._vectors(latest, now.reports)
                self._store.write_reports(list(changed.reports.values()), vectors)
                is_due = change.loose > MAX_LOOSE
        if is_due:
            self._start_merging()
        said = {report.issue_id: "unchanged" for report in given}
        return said | {one: "updated" if one in changed.stored else "added" for one in changed.reports}

    def link(self, report_id: str, duplicate_id: str, source: str) -> None:
        """See ``StoredIndex``."""
        ends = [text_of(report_id), text_of(duplicate_id)]
        if ends[0] == ends[1]:
            raise ValueError(f"report {report_id} cannot be a duplicate of itself")
        with self._store.transaction():
            stored = self._store.reports(ends)
            for one in ends:
                if one not in stored:
                    raise ValueError(f"report {one} is not in the index: add it first")
            self._store.write_links([(ends[0], ends[1], source)])

    def unlink(self, report_id: str, duplicate_id: str, source: str | None = None) -> bool:
        """See ``StoredIndex``."""
        with self._store.transaction():
            return self._store.delete_links(text_of(report_id), text_of(duplicate_id), source)

    def delete(self, issue_id: str) -> bool:
        """See ``StoredIndex``."""
        one = text_of(issue_id)
        with self._store.transaction():
            is_stored = one in self._store.reports([one])
            self._store.delete([one])
        return is_stored

    def forget(self, issue_id: str) -> bool:
        """Deletes a report and all that came from it; returns whether it was stored.

        Reports that were duplicates of it stay duplicates of each other. PostgreSQL overwrites the bytes of deleted
        rows after the next ``VACUUM``, and keeps them in backups and in its log until these are deleted.
        """
        one = text_of(issue_id)
        with self._store.transaction():
            is_stored = one in self._store.reports([one])
            self._store.forget([one])
        self._store.tidy()
        return is_stored

    def _read_model(self) -> LoadedModel:
        encode, matching = self._load(self._store)
        return LoadedModel(self._store.about(), encode, BatchingEncoder(encode), matching)

    def _latest_model(self) -> LoadedModel:
        """The model that has encoded what this transaction sees; loaded again if another process has replaced it."""
        about = self._store.about()
        if about != self._model.about:
            with self._loading:
                if about["model"] != self._model.about["model"]:
                    self._model = self._read_model()
                else:
                    former = self._model
                    self._model = LoadedModel(about, former.encode, former.encode_one, former.matching)
        return self._model

    @staticmethod
    def _vectors(model: LoadedModel, reports: dict[str, Report]) -> np.ndarray:
        return encode_in_batches(model.encode, as_table(list(reports.values()))) if reports else np.empty((0, 0))

    def _start_merging(self) -> None:
        """Joins the postings of single reports in a thread, unless it is running already."""
        if self._merging.acquire(blocking=False):
            threading.Thread(target=self._merge, name="merging", daemon=True).start()

    def _merge(self) -> None:
        try:
            with self._store.transaction():
                self._store.merge_postings()
        except StoreUnavailable as error:
            log.warning("%s", error)  # the next addition tries again
        finally:
            self._merging.release()


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
        cache_dir: Where 8-bit models are kept.
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
