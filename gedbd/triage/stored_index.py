"""An open index: searches reports, adds and deletes them, links duplicates."""

from collections.abc import Callable, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pandas as pd
from omegaconf import DictConfig

from gedbd.corpora.bug_report import (
    MAX_QUOTED_LENGTH,
    Explanation,
    Filters,
    Match,
    Report,
    as_table,
    check_report,
    check_top_k,
    without_surrogates,
)
from gedbd.corpora.issue_template import without_template
from gedbd.corpora.urls import fill_template
from gedbd.encoders.given_encoder import GivenEncoder
from gedbd.evaluation.thresholds import TargetResult
from gedbd.io.console import printable_line, stage
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.triage.explanation import explain
from gedbd.triage.index_search import IndexState, find_matches
from gedbd.triage.storage.folder_store import FolderStore
from gedbd.triage.storage.index_folder import check_index
from gedbd.triage.storage.report_store import ReportStore
from gedbd.triage.storage.stored_model import LoadedModel, load_model
from gedbd.triage.triage_model import TriageModel

if TYPE_CHECKING:
    from threadpoolctl import threadpool_limits

NO_FILTERS = Filters()


class OpenStore(Protocol):
    """Where an open index keeps its reports: a folder, or a database on a server.

    Every method raises ``StoreUnavailable`` if it cannot be used.
    """

    def __len__(self) -> int:
        """Number of reports that searches see; raises nothing."""

    @property
    def model(self) -> LoadedModel:
        """The model that was last loaded."""

    def read(self) -> AbstractContextManager[IndexState]:
        """The latest state."""

    def change(self) -> AbstractContextManager[IndexState]:
        """The latest state, and a transaction that changes it: all of it is stored, or nothing."""

    def forget(self, issue_id: str) -> bool:
        """Erases all that came from a report; returns whether it was stored."""

    def close(self) -> None:
        """Closes it."""


class StoredIndex:
    """The reports of one tracker, ready to be searched.

    Every method may be called from any thread. Searches run in parallel and never wait; changes take turns. A change is
    stored before the method returns. What another process changes, the next call sees, with its new model. Answers
    depend only on what is stored now: they equal those of an index that has just been opened.

    Every method raises ``StoreUnavailable`` if the store cannot be used at the moment.

    Args:
        store: The reports, which this object closes.
        folder: The folder of an index, or where feedback and deliveries of a service are kept.
    """

    def __init__(self, store: OpenStore, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self._limits: threadpool_limits | None = None

    def __len__(self) -> int:
        """Number of reports that searches see."""
        return len(self.store)

    @property
    def name(self) -> str:
        """The tracker's name."""
        return self.store.model.name

    @property
    def matching(self) -> TriageModel:
        """What was learned from the tracker's history."""
        return self.store.model.matching

    @property
    def targets(self) -> tuple[TargetResult, ...]:
        """The results for all precision targets that the backtest measured."""
        return self.matching.targets

    @property
    def target(self) -> TargetResult:
        """The result for the precision target of the index."""
        return self.matching.target

    @property
    def list_targets(self) -> tuple[TargetResult, ...]:
        """The results for lists of the best matches, see ``TargetResult.list_length``."""
        return self.matching.list_targets

    @property
    def list_target(self) -> TargetResult:
        """The result for lists and the precision target of the index."""
        return self.matching.list_target

    def close(self) -> None:
        """Closes the store."""
        self.store.close()
        if self._limits is not None:
            self._limits.restore_original_limits()

    def get(self, issue_id: str) -> Report | None:
        """A stored report, None if there is none."""
        return next(iter(self.get_many([issue_id]).values()), None)

    def get_many(self, ids: Sequence[str]) -> dict[str, Report]:
        """Stored reports by id; unknown ids are left out."""
        with self.store.read() as state:
            return state.reports.reports([without_surrogates(issue_id) for issue_id in ids])

    def components_like(self, name: str, limit: int) -> list[str]:
        """Components of stored reports: first those whose name contains a text, then the others, the most common first.

        Args:
            name: The text, in upper or lower case.
            limit: How many there are at most.
        """
        with self.store.read() as state:
            return state.reports.components_like(name, limit)

    def known_duplicates(self, ids: Sequence[str]) -> dict[str, set[str]]:
        """The ids of the other stored reports in the group of each report, by its id; none if it is not stored."""
        with self.store.read() as state:
            return {issue_id: set(members) - {issue_id} for issue_id, members in state.groups(ids).items()}

    def group(self, issue_id: str) -> list[str]:
        """The ids of a report and its known duplicates, the oldest first; none if it is not stored."""
        with self.store.read() as state:
            return state.groups([issue_id])[issue_id]

    def vectors(self, ids: Sequence[str] | None = None) -> tuple[list[str], np.ndarray]:
        """Ids of all N stored reports, or of those of some that are stored; and vectors ``(N, D)``, unit rows."""
        with self.store.read() as state:
            return state.vectors(ids)

    def newest_day(self) -> float:
        """When the newest report was created, in days since 1970; NaN if none has a date."""
        with self.store.read() as state:
            return state.newest_day()

    def explain(self, query: Report, candidate: Report) -> Explanation:
        """What two reports share, whatever a search for one of them finds."""
        with self.store.read() as state:
            candidates = state.candidates(query, NO_FILTERS, lambda: state.model.encode_one(as_table([query])).result())
            count = len(candidates.store.terms["text"])
            (explanation,) = explain(query, [candidate], lambda words: candidates.rarity(words, count))
        return explanation

    def search(self, report: Report, top_k: int = 10, filters: Filters = NO_FILTERS) -> list[Match]:
        """Finds the duplicate groups that a report may belong to, the best first.

        A report stored under the same id is not a candidate. Scores are standardised over the candidates that pass the
        filters. A report without a date counts as created with the newest stored one: with today's date, all reports of
        an index that is out of date would look old.

        Raises:
            ValueError: If the report has no text or too much, or ``top_k`` is not between 1 and 50.
        """
        check_report(report)
        check_top_k(top_k)
        with self.store.read() as state:
            query = state.reports.storable(as_stored(report, state.template))
            return find_matches(state, query, top_k, state.reports.storable(filters))

    def add(self, reports: Sequence[Report], fields: Sequence[str] | None = None) -> dict[str, str]:
        """Adds or updates reports, all of them or none.

        A report without a date keeps its stored date, or else gets the current time. A report without an address keeps
        its stored address, or else gets that of the tracker's template, if there is one.

        Args:
            reports: The reports.
            fields: Names of the fields that they give; the other fields of a stored report stay, whoever else changes
                them at the same time. None for all.

        Returns:
            For each id ``added``, ``updated`` or ``unchanged``. Of several reports with one id the last one counts.

        Raises:
            ValueError: If a report has no id, no text or too much.
        """
        check_stored(reports)
        now = datetime.now(UTC)
        with self.store.read() as state:
            changed = changed_reports(state, reports, fields, now)
            model = state.model
        if changed.reports:
            # Before the transaction, in which no other process can change the index: encoding may take seconds.
            vectors = model.vectors(list(changed.reports.values()))
            with self.store.change() as latest:
                later = changed_reports(latest, reports, fields, now)
                if later.reports and (latest.model is not model or later.reports != changed.reports):
                    vectors = latest.model.vectors(list(later.reports.values()))
                changed = later
                if changed.reports:
                    latest.reports.write_reports(list(changed.reports.values()), list(vectors))
        statuses = {report.issue_id: "unchanged" for report in reports}
        return statuses | {one: "updated" if one in changed.stored else "added" for one in changed.reports}

    def link(self, report_id: str, duplicate_id: str, source: str) -> None:
        """Marks two stored reports as duplicates, which merges their groups.

        Raises:
            ValueError: If they are the same report, or one is not stored.
        """
        if report_id == duplicate_id:
            raise ValueError(f"report {report_id} cannot be a duplicate of itself")
        with self.store.change() as state:
            stored = state.reports.reports([report_id, duplicate_id])
            for issue_id in (report_id, duplicate_id):
                if issue_id not in stored:
                    raise ValueError(f"report {issue_id} is not in the index: add it first")
            state.reports.write_links([(report_id, duplicate_id, source)])

    def unlink(self, report_id: str, duplicate_id: str, source: str | None = None) -> bool:
        """Deletes the links between two reports in both directions, and splits their group if nothing else ties it.

        Args:
            report_id: Id of a report, stored or deleted.
            duplicate_id: Id of the other report.
            source: The source whose links are deleted; None for all sources.

        Returns:
            Whether there was a link.
        """
        with self.store.change() as state:
            return state.reports.delete_links(report_id, duplicate_id, source)

    def delete(self, issue_id: str) -> bool:
        """Deletes a report; returns whether it was stored."""
        with self.store.change() as state:
            is_stored = bool(state.reports.reports([issue_id]))
            if is_stored:
                state.reports.delete([issue_id])
        return is_stored

    def forget(self, issue_id: str) -> bool:
        """Deletes a report and erases all that came from it; returns whether it was stored.

        Its text, vector, words and links are gone from the bytes of the index file, its write-ahead log and the files
        beside it; a server keeps bytes until it has written over them, and in its log and backups. Reports that were
        duplicates of it stay duplicates of each other.

        Raises:
            OSError: If a file cannot be deleted.
        """
        return self.store.forget(issue_id)


@stage("open the index")
def open_index(
    folder: str | Path,
    cache_dir: str,
    backend: DictConfig | None = None,
    given: GivenEncoder | None = None,
    read_only: bool = False,
    url: str | None = None,
) -> StoredIndex:
    """Opens an index. Until one in a folder is closed, the linear algebra of NumPy runs on one thread.

    Args:
        folder: The folder of the index, or of feedback and deliveries of a service.
        cache_dir: Where 8-bit models, and encoders of queries for an index on a server, are kept.
        backend: Encodes queries instead of the backend that has encoded the stored reports.
        given: The encoder, where the index was built with an object in Python.
        read_only: Whether nothing is written to the folder.
        url: The address of an index on a server, ``postgresql://user@host:port/database``; None for one in the folder.

    Raises:
        ValueError: If there is no index, it is damaged or of another version, or the server cannot be used.
    """
    folder = Path(folder)

    def load(store: ReportStore) -> tuple[Callable[[pd.DataFrame], np.ndarray], TriageModel]:
        source = str(folder if url is None else store.path)
        return load_model(store, source, cache_dir, backend, given, read_only)

    if url is not None:
        from gedbd.triage.shared_store.store_search import SharedStore

        return StoredIndex(SharedStore(url, load), folder)
    check_index(folder)
    from threadpoolctl import threadpool_limits

    # Encoders have threads of their own; those of BLAS would compete with them for the same cores.
    limits = threadpool_limits(1, user_api="blas")
    try:
        index = StoredIndex(FolderStore(folder, load, read_only), folder)
    except BaseException as error:
        limits.restore_original_limits()
        if isinstance(error, StoreUnavailable):
            raise ValueError(str(error)) from error
        raise
    index._limits = limits
    return index


class Changed(NamedTuple):
    """What adding reports changes.

    Attributes:
        stored: The stored versions of all reports that are added, by id.
        reports: The reports that differ from these, by id.
    """

    stored: dict[str, Report]
    reports: dict[str, Report]


def stored_report(index: StoredIndex, issue_id: str) -> Report:
    """A stored report. Raises ValueError if there is none."""
    report = index.get(issue_id.strip())
    if report is None:
        quoted = printable_line(issue_id)[:MAX_QUOTED_LENGTH]
        raise ValueError(f"report {quoted!r} is not in the index: check the id, or search by a text")
    return report


def check_stored(reports: Sequence[Report]) -> None:
    """Raises ValueError if a report cannot be stored, see ``StoredIndex.add``."""
    for report in reports:
        check_report(report)
        if not report.issue_id.strip():
            raise ValueError("a report without an id cannot be stored: give issue_id")


def changed_reports(
    state: IndexState, reports: Sequence[Report], fields: Sequence[str] | None, now: datetime
) -> Changed:
    """Compares reports with the stored ones; see ``StoredIndex.add``."""
    given = [state.reports.storable(as_stored(report, state.template)) for report in reports]
    stored = state.reports.reports([report.issue_id for report in given])
    url_template = state.reports.fact("url_template")
    wanted = {one.issue_id: _filled(one, stored.get(one.issue_id), url_template, fields, now) for one in given}
    return Changed(stored, {one: report for one, report in wanted.items() if stored.get(one) != report})


def as_stored(report: Report, template: Set[str]) -> Report:
    """A report without the lines of the tracker's template, which stored reports do not have either."""
    return replace(report, description=without_template(report.description, template)) if template else report


def _filled(
    report: Report, stored: Report | None, template: str, fields: Sequence[str] | None, now: datetime
) -> Report:
    """A report with a date and an address: its own, those of the stored version, or now and the template's."""
    if stored is not None and fields is not None:
        report = replace(stored, **{name: getattr(report, name) for name in fields})
    created_at = report.created_at
    url = report.url
    if created_at is None:
        created_at = stored.created_at if stored else now
    if not url and stored:
        url = stored.url
    if not url and template:
        url = fill_template(template, report.issue_id)
    return replace(report, created_at=created_at, url=url)
