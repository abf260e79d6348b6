"""An open index: searches, and takes reports in."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.corpora.urls import fill_template
from gedbd.triage.backtesting.targets import TargetResult
from gedbd.triage.report import Filters, Match, Report, as_table, check_report, check_top_k, whole_characters
from gedbd.triage.searching import find_matches
from gedbd.triage.storage.connection import StoreUnavailable
from gedbd.triage.storage.current_state import Current
from gedbd.triage.storage.rows import Stored
from gedbd.triage.storage.state import ReadModel, ReadReports
from gedbd.triage.storage.store import FILE, Store
from gedbd.triage.training import TriageModel

BATCH = 64
ANYTHING = Filters()


class Index:
    """Reports of one tracker, ready to be searched.

    Every method may be called from any thread: searches run side by side and wait for nobody, what changes the index
    waits its turn. A change is on disk before the method returns. If somebody else changes the file, it is read again
    at the next call, with the model it has by then; searches go on with the old state meanwhile. Answers depend on what
    is stored, never on what was: they are those of an index that has just been opened.

    A method raises ``StoreUnavailable`` if the file cannot be used at the moment.

    Args:
        folder: Where the file lies.
        read_model: Makes from an open file the reader of reports and what was learnt from the tracker's history.

    Raises:
        ValueError: If there is no index, or it is damaged.
    """

    def __init__(self, folder: Path, read_model: ReadModel) -> None:
        self.folder = folder
        try:
            self._current = Current(folder / FILE, read_model)
        except StoreUnavailable as error:
            raise ValueError(str(error)) from error

    def __len__(self) -> int:
        """How many reports searches see; looks at no file and waits for nobody."""
        return len(self._current.state.memory)

    @property
    def name(self) -> str:
        """The tracker's name."""
        return self._current.state.about.get("name", "")

    @property
    def matching(self) -> TriageModel:
        """What was learnt from the tracker's history."""
        return self._current.state.matching

    @property
    def targets(self) -> tuple[TargetResult, ...]:
        """The results for all precision targets that the backtest measured."""
        return self.matching.targets

    @property
    def target(self) -> TargetResult:
        """The one of them that counts unless another is asked for."""
        return self.matching.target

    @property
    def reader(self) -> ReadReports:
        """Reads reports as the stored ones were read."""
        return self._current.state.reader

    @property
    def store(self) -> Store:
        """The file."""
        return self._current.state.file.writer

    def close(self) -> None:
        """Closes the file."""
        self._current.close()

    def get(self, issue_id: str) -> Report | None:
        """A stored report."""
        one = whole_characters(issue_id)
        return self._current.look().file.reports([one]).get(one)

    def search(self, report: Report, top_k: int = 10, filters: Filters = ANYTHING) -> list[Match]:
        """The duplicate groups that a report may belong to, the best first.

        A report that is stored under the same id is not its own candidate. Scores are standardised over the candidates
        that the filters leave. A report without a date is taken to be filed when the newest stored one was: an index
        that nobody has kept up to date would make all its reports look old.

        Raises:
            ValueError: If the report has no text or too much, or ``top_k`` is not between 1 and 50.
        """
        check_report(report)
        check_top_k(top_k)
        return find_matches(self._current.look(), report, top_k, filters)

    def add(self, reports: Sequence[Report]) -> dict[str, str]:
        """Takes reports in, all of them or none.

        One without a date keeps the date it had, or else is filed now; one without an address keeps the one it had, or
        else takes that of the tracker's template, if there is one.

        Returns:
            Id to ``added``, ``updated`` or ``unchanged``. Of several with one id the last counts.

        Raises:
            ValueError: If a report has no id, no text or too much.
        """
        for report in reports:
            check_report(report)
            if not report.issue_id.strip():
                raise ValueError("a report without an id cannot be stored: give issue_id")
        with self._current.turn() as state:
            stored = state.file.reports([report.issue_id for report in reports])
            template = state.about.get("url_template", "")
            wanted = {report.issue_id: _filled(report, stored.get(report.issue_id), template) for report in reports}
            fresh = {one: report for one, report in wanted.items() if stored.get(one) != report}
            if fresh:
                self._take_in(state.reader, list(fresh.values()))
        said = {one: "updated" if one in stored else "added" for one in fresh}
        return {one: said.get(one, "unchanged") for one in wanted}

    def link(self, report_id: str, duplicate_id: str, source: str) -> None:
        """Marks two stored reports as duplicates: their groups become one.

        Raises:
            ValueError: If they are one, or not stored.
        """
        if report_id == duplicate_id:
            raise ValueError(f"report {report_id} cannot be a duplicate of itself")
        with self._current.turn():
            with self._current.change() as change:
                memory, store = change.state.memory, change.state.file.writer
                for one in (report_id, duplicate_id):
                    if one not in memory.row_of:
                        raise ValueError(f"report {one} is not in the index: add it first")
                store.write_links([(report_id, duplicate_id, source)])
                links = store.links()
            memory.regroup(links)
            self._current.publish(change, memory)

    def unlink(self, report_id: str, duplicate_id: str, source: str | None = None) -> bool:
        """Deletes the links between two reports, whichever was called the duplicate; their groups part if none is left.

        Args:
            report_id: One report, which may be deleted.
            duplicate_id: The other one.
            source: Whose links are deleted; None for those of all sources.

        Returns:
            Whether there was a link.
        """
        with self._current.turn():
            with self._current.change() as change:
                store = change.state.file.writer
                found = store.delete_links(report_id, duplicate_id, source)
                links = store.links() if found else []
            if found:
                change.state.memory.regroup(links)
                self._current.publish(change, change.state.memory)
        return found

    def delete(self, issue_id: str) -> bool:
        """Deletes a report; gives whether it was there."""
        with self._current.turn():
            with self._current.change() as change:
                memory, store = change.state.memory, change.state.file.writer
                found = issue_id in memory.row_of
                if found:
                    store.delete([issue_id])
                links = store.links() if found else []
            if found:
                self._current.publish(change, memory.without(issue_id, links))
        return found

    def _take_in(self, reader: ReadReports, reports: list[Report]) -> None:
        """Writes reports, and only then shows them to searches."""
        table = as_table(reports)
        vectors = _read(reader, table)
        with ExitStack() as undo:
            with self._current.change() as change:
                memory, store = change.state.memory, change.state.file.writer
                if change.state.reader is not reader:  # another model has come since; a further one cannot come now
                    vectors = _read(change.state.reader, table)
                known = len(memory.vocabulary.terms)
                undo.callback(memory.vocabulary.forget, known)
                numbers = memory.encoder.encode(table, vectors, learn=True)
                store.add_terms(known, memory.vocabulary.terms[known:])
                store.add(map(Stored, reports, vectors, numbers.text, numbers.title))
                links = store.links()
            undo.pop_all()  # the terms are stored
        self._current.publish(change, memory.changed([report.issue_id for report in reports], numbers, links))


def _read(reader: ReadReports, table: pd.DataFrame) -> np.ndarray:
    """``(B, D)`` vectors of B reports."""
    return np.concatenate([reader(table.iloc[start : start + BATCH]) for start in range(0, len(table), BATCH)])


def _filled(report: Report, before: Report | None, template: str) -> Report:
    """With a date and an address: its own, those of the stored report it replaces, or now and the template's."""
    filed = report.created_at
    url = report.url
    if filed is None:
        filed = before.created_at if before else datetime.now(UTC)
    if not url and before:
        url = before.url
    if not url and template:
        url = fill_template(template, report.issue_id)
    return replace(report, created_at=filed, url=url)
