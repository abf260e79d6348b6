"""An open index: searches, and takes reports in."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.matching.columns import Numbers, days_of
from gedbd.matching.confidence import signals_of
from gedbd.matching.learn import Matching, numbers_of
from gedbd.matching.memory import Groups, Memory
from gedbd.matching.reading import ReportReader, Together
from gedbd.matching.report import Filters, Match, Report, as_table, check_report
from gedbd.matching.scoring import Candidates, best_groups, raw_scores
from gedbd.matching.store import Store, Stored
from gedbd.matching.why import explain

MOST = 50
BATCH = 64
ANYTHING = Filters()


class Index:
    """Reports of one tracker, ready to be searched.

    Every method may be called from any thread: searches run side by side, what changes the index waits its turn. A
    change is on disk before the method returns. If somebody else changes the file, it is read anew at the next call.

    Args:
        folder: Where the file lies.
        store: The file.
        reader: Reads reports as the stored ones were read.
        matching: What was learnt from the tracker's history.
    """

    def __init__(self, folder: Path, store: Store, reader: ReportReader, matching: Matching) -> None:
        self.folder, self.store, self.reader, self.matching = folder, store, reader, matching
        about = store.about()
        self.name, self._model = about["name"], about["model"]
        self.threshold, self.precision = matching.threshold, matching.precision
        self._together = Together(reader)
        self._disk, self._change = threading.RLock(), threading.RLock()
        self._seen, self._memory = store.changes, Memory.of(store)

    def __len__(self) -> int:
        return int(self._memory.alive.sum())

    def close(self) -> None:
        """Closes the file."""
        with self._change, self._disk:
            self.store.close()

    def get(self, issue_id: str) -> Report | None:
        """A stored report."""
        with self._disk:
            return self.store.reports([issue_id]).get(issue_id)

    def search(self, report: Report, top_k: int = 10, filters: Filters = ANYTHING) -> list[Match]:
        """The duplicate groups that a report may belong to, the best first.

        A report that is stored under the same id is not its own candidate. Scores are standardised over the candidates
        that the filters leave.

        Raises:
            ValueError: If the report has no text or too much, or ``top_k`` is not between 1 and 50.
        """
        check_report(report)
        if not 1 <= top_k <= MOST:
            raise ValueError(f"top_k={top_k} must be between 1 and {MOST}")
        self._refresh()
        memory, groups = self._memory, self._memory.groups
        count = min(len(memory), len(groups.of))
        query = self._numbers(report, memory)
        allowed = _allowed(memory, count, report, filters)
        scores = raw_scores(memory.columns, query, count)
        found = best_groups(scores, self.matching.weights, groups.of[:count], allowed, top_k)
        lexicons = (memory.columns.text, query.text[0]), (memory.columns.title, query.title[0])
        signals = signals_of(found, [lexicon.self_score(terms) for lexicon, terms in lexicons])
        return self._matches(report, memory, groups, found, self.matching.confidence(signals))

    def add(self, reports: Sequence[Report]) -> dict[str, str]:
        """Takes reports in. One without a date keeps the date it had, or else is filed now.

        Returns:
            Id to ``added``, ``updated`` or ``unchanged``. Of several with one id the last counts.

        Raises:
            ValueError: If a report has no id, no text or too much.
        """
        for report in reports:
            check_report(report)
            if not report.issue_id.strip():
                raise ValueError("a report without an id cannot be stored: give issue_id")
        with self._change:
            self._refresh()
            with self._disk:
                stored = self.store.reports([report.issue_id for report in reports])
            wanted = {report.issue_id: _dated(report, stored.get(report.issue_id)) for report in reports}
            fresh = {one: report for one, report in wanted.items() if stored.get(one) != report}
            changed = list(fresh.values())
            for start in range(0, len(changed), BATCH):
                self._take_in(changed[start : start + BATCH])
        said = {one: "updated" if one in stored else "added" for one in fresh}
        return {one: said.get(one, "unchanged") for one in wanted}

    def link(self, report_id: str, duplicate_id: str, source: str) -> None:
        """Marks two stored reports as duplicates: their groups become one.

        Raises:
            ValueError: If they are one, or not stored.
        """
        if report_id == duplicate_id:
            raise ValueError(f"report {report_id} cannot be a duplicate of itself")
        with self._change:
            self._refresh()
            for one in (report_id, duplicate_id):
                if one not in self._memory.row_of:
                    raise ValueError(f"report {one} is not in the index: add it first")
            with self._disk:
                with self.store.change():
                    self.store.write_links([(report_id, duplicate_id, source)])
                self._memory.regroup(self.store.links())

    def delete(self, issue_id: str) -> bool:
        """Deletes a report; gives whether it was there."""
        with self._change:
            self._refresh()
            if issue_id not in self._memory.row_of:
                return False
            with self._disk:
                with self.store.change():
                    self.store.delete([issue_id])
                self._memory.forget(issue_id)
                self._memory.regroup(self.store.links())
            return True

    def _take_in(self, reports: list[Report]) -> None:
        """Writes reports, and only then shows them to searches."""
        table = as_table(reports)
        vectors = self.reader(table)
        with self._disk:
            try:
                with self.store.change():
                    self._read_changes()  # here nobody else can change the file any more
                    memory, known = self._memory, len(self._memory.vocabulary.terms)
                    numbers = numbers_of(table, vectors, memory.vocabulary, memory.codes, learn=True)
                    self.store.add_terms(known, memory.vocabulary.terms[known:])
                    self.store.add(map(Stored, reports, vectors, numbers.text, numbers.title))
            except BaseException:
                self._memory = Memory.of(self.store)  # for the vocabulary has learnt words that are not stored
                raise
            memory.append([report.issue_id for report in reports], numbers, self.store.links())

    def _numbers(self, report: Report, memory: Memory) -> Numbers:
        table = as_table([_dated(report, None)])
        return numbers_of(table, self._together(table)[None], memory.vocabulary, memory.codes, learn=False)

    def _matches(
        self, report: Report, memory: Memory, groups: Groups, found: Candidates, probability: np.ndarray
    ) -> list[Match]:
        members = [[memory.ids[row] for row in memory.members(groups, row)] for row in found.row.tolist()]
        best = [memory.ids[row] for row in found.row.tolist()]
        with self._disk:
            stored = self.store.reports(sorted({*best, *(ids[0] for ids in members if ids)}))
        there = [one in stored and bool(ids) and ids[0] in stored for one, ids in zip(best, members, strict=True)]
        rows = np.flatnonzero(there).tolist()  # others were deleted since the search began
        reasons = explain(report, [stored[best[row]] for row in rows], memory.rarity)
        return [
            Match(stored[ids[0]], stored[best[row]], tuple(ids), float(found.score[row]), float(probability[row]), why)
            for row, ids, why in zip(rows, (members[row] for row in rows), reasons, strict=True)
        ]

    def _refresh(self) -> None:
        """Reads the file anew if somebody else has changed it; searches that run go on with what they began with."""
        with self._disk:
            self._read_changes()

    def _read_changes(self) -> None:
        if self.store.changes == self._seen:
            return
        if self.store.about().get("model") != self._model:
            raise ValueError(f"{self.folder} was built anew with another model: open it again")
        self._seen, self._memory = self.store.changes, Memory.of(self.store)


def _allowed(memory: Memory, count: int, report: Report, filters: Filters) -> np.ndarray | None:
    """The candidates among the first so many reports, ``(count,)`` bool; None for all."""
    allowed, day = memory.alive[:count].copy(), memory.columns.day[:count]
    own = memory.row_of.get(report.issue_id)
    if own is not None and own < count:
        allowed[own] = False
    for moment, keep in ((filters.filed_from, np.greater_equal), (filters.filed_before, np.less)):
        if moment is not None:
            allowed &= keep(day, days_of(pd.Series(pd.to_datetime([moment], utc=True)))[0])
    if filters.component is not None:
        allowed &= memory.columns.component[:count] == memory.codes[1](pd.Series([filters.component]), False)[0]
    return None if allowed.all() else allowed


def _dated(report: Report, before: Report | None) -> Report:
    """With a date: its own, that of the stored report it replaces, or now."""
    if report.created_at:
        return report
    return replace(report, created_at=before.created_at if before and before.created_at else datetime.now(UTC))
