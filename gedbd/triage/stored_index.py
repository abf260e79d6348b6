"""An open index: searches reports, adds and deletes them, links duplicates."""

from collections.abc import Sequence, Set
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from omegaconf import DictConfig

from gedbd.corpora.bug_report import (
    MAX_QUOTED_LENGTH,
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
from gedbd.triage.index_search import find_matches
from gedbd.triage.storage.cache_files import MIN_REPORTS, remove_outdated
from gedbd.triage.storage.compaction import Compaction, is_due
from gedbd.triage.storage.in_memory import InMemoryIndex
from gedbd.triage.storage.index_folder import FILE, check_index
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.storage.report_store import ReportStore
from gedbd.triage.storage.rows import StoredReport
from gedbd.triage.storage.state import CurrentState, EncodeReports, LoadModel, StoredState
from gedbd.triage.storage.stored_model import load_model, template_of
from gedbd.triage.triage_model import TriageModel

if TYPE_CHECKING:
    from threadpoolctl import threadpool_limits

BATCH_SIZE = 64
NO_FILTERS = Filters()


class StoredIndex:
    """The reports of one tracker, ready to be searched.

    Every method may be called from any thread. Searches run in parallel and never wait; changes take turns. A change is
    on disk before the method returns. If another process changes the file, the next call reads it again, with its new
    model; meanwhile searches use the old state. Answers depend only on what is stored now: they equal those of an index
    that has just been opened.

    Every method raises ``StoreUnavailable`` if the file cannot be used at the moment.

    Args:
        folder: The folder of the file.
        load: Loads the encoder and the model from an open file.
        read_only: Whether nothing is written to the folder; methods that change the index raise ``StoreUnavailable``.

    Raises:
        ValueError: If there is no index, or it is damaged.
    """

    def __init__(self, folder: Path, load: LoadModel, read_only: bool = False) -> None:
        self.folder = folder
        self._limits: threadpool_limits | None = None
        try:
            self._current = CurrentState(folder / FILE, load, read_only)
        except StoreUnavailable as error:
            raise ValueError(str(error)) from error
        self._compaction = Compaction(folder / FILE, self._current.read_again)

    def __len__(self) -> int:
        """Number of reports that searches see; never waits and reads no file."""
        return len(self._current.state.memory)

    @property
    def name(self) -> str:
        """The tracker's name."""
        return self._current.state.about.get("name", "")

    @property
    def matching(self) -> TriageModel:
        """What was learned from the tracker's history."""
        return self._current.state.matching

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

    @property
    def encode(self) -> EncodeReports:
        """Encodes reports as the stored ones were encoded."""
        return self._current.state.encode

    @property
    def store(self) -> IndexStore:
        """The file."""
        return self._current.state.writer

    def close(self) -> None:
        """Closes the file."""
        self._current.close()
        if self._limits is not None:
            self._limits.restore_original_limits()

    def get(self, issue_id: str) -> Report | None:
        """A stored report, None if there is none."""
        one = without_surrogates(issue_id)
        return self._current.latest().reader.reports([one]).get(one)

    def get_many(self, ids: Sequence[str]) -> dict[str, Report]:
        """Stored reports by id; unknown ids are left out."""
        return self._current.latest().reader.reports([without_surrogates(one) for one in ids])

    def components_like(self, name: str, limit: int) -> list[str]:
        """Components of stored reports: first those whose name contains a text, then the others, the most common first.

        Args:
            name: The text, in upper or lower case.
            limit: How many there are at most.
        """
        return self._current.latest().reader.components_like(name, limit)

    def known_duplicates(self, ids: Sequence[str]) -> dict[str, set[str]]:
        """The ids of the other stored reports in the group of each report, by its id; none if it is not stored."""
        memory = self._current.latest().memory
        return {one: set(memory.group_ids(one)) - {one} for one in ids}

    @property
    def memory(self) -> InMemoryIndex:
        """What is held in memory of the stored reports, after the last change of the file."""
        return self._current.latest().memory

    def vectors(self) -> tuple[list[str], np.ndarray]:
        """Ids of all N stored reports, and their vectors ``(N, D)``, float32 unit rows."""
        memory = self._current.latest().memory
        return [memory.ids[row] for row in range(len(memory))], memory.store.vectors.filled

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
        state = self._current.latest()
        return find_matches(state, as_stored(report, state.template), top_k, filters)

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
        with self._current.exclusive() as state:
            changed = changed_reports(state.reader, reports, fields)
            if changed.reports:
                changed = self._store(state, changed, reports, fields)
        return changed.said(reports)

    def link(self, report_id: str, duplicate_id: str, source: str) -> None:
        """Marks two stored reports as duplicates, which merges their groups.

        Raises:
            ValueError: If they are the same report, or one is not stored.
        """
        if report_id == duplicate_id:
            raise ValueError(f"report {report_id} cannot be a duplicate of itself")
        with self._current.change() as change:
            for one in (report_id, duplicate_id):
                if one not in change.state.memory.ids:
                    raise ValueError(f"report {one} is not in the index: add it first")
            change.state.writer.write_links([(report_id, duplicate_id, source)])
            change.update = lambda memory: memory.linked(report_id, duplicate_id)

    def unlink(self, report_id: str, duplicate_id: str, source: str | None = None) -> bool:
        """Deletes the links between two reports in both directions, and splits their group if nothing else ties it.

        Args:
            report_id: Id of a report, stored or deleted.
            duplicate_id: Id of the other report.
            source: The source whose links are deleted; None for all sources.

        Returns:
            Whether there was a link.
        """
        with self._current.change() as change:
            store = change.state.writer
            is_linked = store.delete_links(report_id, duplicate_id, source)
            if is_linked:
                links = store.links()
                change.update = lambda memory: memory.regrouped(links)
        return is_linked

    def delete(self, issue_id: str) -> bool:
        """Deletes a report; returns whether it was stored."""
        with self._current.change() as change:
            is_stored = issue_id in change.state.memory.ids
            if is_stored:
                change.state.writer.delete([issue_id])
                change.update = lambda memory: memory.without(issue_id)
        return is_stored

    def forget(self, issue_id: str) -> bool:
        """Deletes a report and erases all that came from it; returns whether it was stored.

        Its text, vector, words and links are gone from the bytes of the index file, its write-ahead log and the files
        beside it; reports that were duplicates of it stay duplicates of each other.

        Raises:
            OSError: If a file cannot be deleted.
        """
        with self._current.exclusive():
            with self._current.change() as change:
                store = change.state.writer
                is_stored = issue_id in change.state.memory.ids
                store.forget([issue_id])
                links = store.links()
                change.update = lambda memory: memory.without(issue_id).regrouped(links)
            store.checkpoint()
            remove_outdated(store)
        if len(self) >= MIN_REPORTS:
            self._compaction.start()
        return is_stored

    def _store(
        self, state: StoredState, changed: "Changed", given: Sequence[Report], fields: Sequence[str] | None
    ) -> "Changed":
        """Writes reports that have changed, and only then shows them to searches; returns what it has written."""
        reports = list(changed.reports.values())
        table = as_table(reports)
        # Before the transaction, which locks the file: encoding may take seconds.
        vectors = encode_in_batches(state.encode, table)
        with ExitStack() as undo, self._current.change() as change:
            memory = change.state.memory
            store = change.state.writer
            if change.state is not state:  # another process has written since; the lock now keeps this state
                changed = changed_reports(change.state.reader, given, fields)
                if not changed.reports:
                    return changed
                reports = list(changed.reports.values())
                table = as_table(reports)
                vectors = encode_in_batches(change.state.encode, table)
            known = len(memory.vocabulary)
            undo.callback(memory.vocabulary.forget, known)
            numbers = memory.encoder.encode(table, vectors, learn=True)
            store.add_terms(known, memory.vocabulary.since(known))
            used = np.unique(np.concatenate([text for texts in numbers.terms.values() for text in texts]))
            store.restore_terms((one, memory.vocabulary[one]) for one in used[used < known].tolist())
            store.add(map(StoredReport, reports, vectors, zip(*numbers.terms.values(), strict=True)))
            added = [report.issue_id for report in reports if report.issue_id not in memory.ids]
            links = store.links_if_any_names(added)

            def shown(former: InMemoryIndex) -> InMemoryIndex:
                undo.pop_all()  # the new terms are on disk: they stay in memory too
                return former.changed([report.issue_id for report in reports], numbers, links)

            change.update = shown
        current = self._current.state.memory
        if is_due(len(current), current.num_changed):
            self._compaction.start()
        return changed


@stage("open the index")
def open_index(
    folder: str | Path,
    cache_dir: str,
    backend: DictConfig | None = None,
    given: GivenEncoder | None = None,
    read_only: bool = False,
) -> StoredIndex:
    """Opens an index. Until it is closed, the linear algebra of NumPy runs on one thread.

    Args:
        folder: The folder of the index.
        cache_dir: Where 8-bit models are kept.
        backend: Encodes queries instead of the backend that has encoded the stored reports.
        given: The encoder, where the index was built with an object in Python.
        read_only: Whether nothing is written to the folder.

    Raises:
        ValueError: If there is no index, or it is damaged or of another version.
    """
    folder = Path(folder)
    check_index(folder)
    from threadpoolctl import threadpool_limits

    # Encoders have threads of their own; those of BLAS would compete with them for the same cores.
    limits = threadpool_limits(1, user_api="blas")
    try:
        source = str(folder)
        index = StoredIndex(
            folder, lambda store: load_model(store, source, cache_dir, backend, given, read_only), read_only
        )
    except BaseException:
        limits.restore_original_limits()
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

    def said(self, given: Sequence[Report]) -> dict[str, str]:
        """What ``StoredIndex.add`` says of each report."""
        said = {report.issue_id: "unchanged" for report in given}
        return said | {one: "updated" if one in self.stored else "added" for one in self.reports}


def stored_report(index: StoredIndex, issue_id: str) -> Report:
    """A stored report. Raises ValueError if there is none."""
    report = index.get(issue_id.strip())
    if report is None:
        shown = printable_line(issue_id)[:MAX_QUOTED_LENGTH]
        raise ValueError(f"report {shown!r} is not in the index: check the id, or search by a text")
    return report


def check_stored(reports: Sequence[Report]) -> None:
    """Raises ValueError if a report cannot be stored, see ``StoredIndex.add``."""
    for report in reports:
        check_report(report)
        if not report.issue_id.strip():
            raise ValueError("a report without an id cannot be stored: give issue_id")


def changed_reports(store: ReportStore, reports: Sequence[Report], fields: Sequence[str] | None) -> Changed:
    """Compares reports with the stored ones; see ``StoredIndex.add``."""
    stored = store.reports([report.issue_id for report in reports])
    url_template = store.fact("url_template")
    template = template_of(store)
    given = [as_stored(report, template) for report in reports]
    wanted = {one.issue_id: _filled(one, stored.get(one.issue_id), url_template, fields) for one in given}
    return Changed(stored, {one: report for one, report in wanted.items() if stored.get(one) != report})


def as_stored(report: Report, template: Set[str]) -> Report:
    """A report without the lines of the tracker's template, which stored reports do not have either."""
    return replace(report, description=without_template(report.description, template)) if template else report


def encode_in_batches(encode: EncodeReports, table: pd.DataFrame) -> np.ndarray:
    """``(B, D)`` vectors of B reports."""
    starts = range(0, len(table), BATCH_SIZE)
    return np.concatenate([encode(table.iloc[start : start + BATCH_SIZE]) for start in starts])


def _filled(report: Report, stored: Report | None, template: str, fields: Sequence[str] | None) -> Report:
    """A report with a date and an address: its own, those of the stored version, or now and the template's."""
    if stored is not None and fields is not None:
        report = replace(stored, **{name: getattr(report, name) for name in fields})
    created_at = report.created_at
    url = report.url
    if created_at is None:
        created_at = stored.created_at if stored else datetime.now(UTC)
    if not url and stored:
        url = stored.url
    if not url and template:
        url = fill_template(template, report.issue_id)
    return replace(report, created_at=created_at, url=url)
