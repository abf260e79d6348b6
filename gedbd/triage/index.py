"""An open index: searches reports, adds and deletes them, links duplicates."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.urls import fill_template
from gedbd.triage.backtesting.targets import TargetResult
from gedbd.triage.report import Filters, Match, Report, as_table, check_report, check_top_k, without_surrogates
from gedbd.triage.searching import find_matches
from gedbd.triage.storage.cache_files import remove_outdated
from gedbd.triage.storage.compaction import Compaction, is_due
from gedbd.triage.storage.connection import StoreUnavailable
from gedbd.triage.storage.current_state import CurrentState
from gedbd.triage.storage.opening import MIN_REPORTS
from gedbd.triage.storage.rows import StoredReport
from gedbd.triage.storage.state import EncodeReports, LoadModel, State
from gedbd.triage.storage.store import FILE, Store
from gedbd.triage.triage_model import TriageModel

BATCH_SIZE = 64
NO_FILTERS = Filters()


class Index:
    """The reports of one tracker, ready to be searched.

    Every method may be called from any thread. Searches run in parallel and never wait; changes take turns. A change is
    on disk before the method returns. If another process changes the file, the next call reads it again, with its new
    model; meanwhile searches use the old state. Answers depend only on what is stored now: they equal those of an index
    that has just been opened.

    Every method raises ``StoreUnavailable`` if the file cannot be used at the moment.

    Args:
        folder: The folder of the file.
        load_model: Loads the encoder and the model from an open file.

    Raises:
        ValueError: If there is no index, or it is damaged.
    """

    def __init__(self, folder: Path, load_model: LoadModel) -> None:
        self.folder = folder
        try:
            self._current = CurrentState(folder / FILE, load_model)
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
    def encode(self) -> EncodeReports:
        """Encodes reports as the stored ones were encoded."""
        return self._current.state.encode

    @property
    def store(self) -> Store:
        """The file."""
        return self._current.state.file.writer

    def close(self) -> None:
        """Closes the file."""
        self._current.close()

    def get(self, issue_id: str) -> Report | None:
        """A stored report, None if there is none."""
        one = without_surrogates(issue_id)
        return self._current.latest().file.reports([one]).get(one)

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
        return find_matches(self._current.latest(), report, top_k, filters)

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
        for report in reports:
            check_report(report)
            if not report.issue_id.strip():
                raise ValueError("a report without an id cannot be stored: give issue_id")
        with self._current.exclusive() as state:
            changed = _changed(state, reports, fields)
            if changed.reports:
                changed = self._store(state, changed, reports, fields)
        said = {report.issue_id: "unchanged" for report in reports}
        return said | {one: "updated" if one in changed.stored else "added" for one in changed.reports}

    def link(self, report_id: str, duplicate_id: str, source: str) -> None:
        """Marks two stored reports as duplicates, which merges their groups.

        Raises:
            ValueError: If they are the same report, or one is not stored.
        """
        if report_id == duplicate_id:
            raise ValueError(f"report {report_id} cannot be a duplicate of itself")
        with self._current.exclusive():
            with self._current.change() as change:
                memory = change.state.memory
                store = change.state.file.writer
                for one in (report_id, duplicate_id):
                    if one not in memory.ids:
                        raise ValueError(f"report {one} is not in the index: add it first")
                store.write_links([(report_id, duplicate_id, source)])
            self._current.publish(change, memory.linked(report_id, duplicate_id))

    def unlink(self, report_id: str, duplicate_id: str, source: str | None = None) -> bool:
        """Deletes the links between two reports in both directions, and splits their group if nothing else ties it.

        Args:
            report_id: Id of a report, stored or deleted.
            duplicate_id: Id of the other report.
            source: The source whose links are deleted; None for all sources.

        Returns:
            Whether there was a link.
        """
        with self._current.exclusive():
            with self._current.change() as change:
                store = change.state.file.writer
                found = store.delete_links(report_id, duplicate_id, source)
                links = store.links() if found else []
            if found:
                self._current.publish(change, change.state.memory.regrouped(links))
        return found

    def delete(self, issue_id: str) -> bool:
        """Deletes a report; returns whether it was stored."""
        with self._current.exclusive():
            with self._current.change() as change:
                memory = change.state.memory
                store = change.state.file.writer
                found = issue_id in memory.ids
                if found:
                    store.delete([issue_id])
            if found:
                self._current.publish(change, memory.without(issue_id))
        return found

    def forget(self, issue_id: str) -> bool:
        """Deletes a report and erases all that came from it; returns whether it was stored.

        Its text, vector, words and links are gone from the bytes of the index file, its write-ahead log and the files
        beside it; reports that were duplicates of it stay duplicates of each other.

        Raises:
            OSError: If a file cannot be deleted.
        """
        with self._current.exclusive():
            with self._current.change() as change:
                memory = change.state.memory
                store = change.state.file.writer
                found = issue_id in memory.ids
                store.forget([issue_id])
                links = store.links()
            store.empty_log()
            remove_outdated(store)
            self._current.publish(change, memory.without(issue_id).regrouped(links))
        if len(self) >= MIN_REPORTS:
            self._compaction.start()
        return found

    def _store(
        self, state: State, changed: "Changed", given: Sequence[Report], fields: Sequence[str] | None
    ) -> "Changed":
        """Writes reports that have changed, and only then shows them to searches; returns what it has written."""
        reports = list(changed.reports.values())
        table = as_table(reports)
        # Before the transaction, which locks the file: encoding may take seconds.
        vectors = _encode_in_batches(state.encode, table)
        with ExitStack() as undo:
            with self._current.change() as change:
                memory = change.state.memory
                store = change.state.file.writer
                if change.state is not state:  # another process has written since; the lock now keeps this state
                    changed = _changed(change.state, given, fields)
                    if not changed.reports:
                        return changed
                    reports = list(changed.reports.values())
                    table = as_table(reports)
                    vectors = _encode_in_batches(change.state.encode, table)
                known = len(memory.vocabulary)
                undo.callback(memory.vocabulary.forget, known)
                numbers = memory.encoder.encode(table, vectors, learn=True)
                store.add_terms(known, memory.vocabulary.since(known))
                used = np.unique(np.concatenate([text for one in numbers.terms.by_report() for text in one]))
                store.restore_terms((one, memory.vocabulary[one]) for one in used[used < known].tolist())
                store.add(map(StoredReport, reports, vectors, numbers.terms.by_report()))
                added = [report.issue_id for report in reports if report.issue_id not in memory.ids]
                links = store.links_if_any_names(added)
            undo.pop_all()  # the new terms are on disk: they stay in memory too
        memory = memory.changed([report.issue_id for report in reports], numbers, links)
        self._current.publish(change, memory)
        if is_due(len(memory), memory.num_changed):
            self._compaction.start()
        return changed


class Changed(NamedTuple):
    """What adding reports changes.

    Attributes:
        stored: The stored versions of all reports that are added, by id.
        reports: The reports that differ from these, by id.
    """

    stored: dict[str, Report]
    reports: dict[str, Report]


def _changed(state: State, reports: Sequence[Report], fields: Sequence[str] | None) -> Changed:
    """Compares reports with a state of the index; see ``Index.add``."""
    stored = state.file.reports([report.issue_id for report in reports])
    template = state.about.get("url_template", "")
    wanted = {one.issue_id: _filled(one, stored.get(one.issue_id), template, fields) for one in reports}
    return Changed(stored, {one: report for one, report in wanted.items() if stored.get(one) != report})


def _encode_in_batches(encode: EncodeReports, table: pd.DataFrame) -> np.ndarray:
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
