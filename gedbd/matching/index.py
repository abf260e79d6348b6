"""An open index: searches, and takes reports in."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.data.urls import fill_template
from gedbd.matching.columns import Numbers, days_of
from gedbd.matching.confidence import SHOWN, signals_of
from gedbd.matching.learn import Matching, numbers_of
from gedbd.matching.memory import Memory
from gedbd.matching.reading import ReportReader, Together
from gedbd.matching.report import Filters, Match, Report, as_table, check_report, check_top_k, whole_characters
from gedbd.matching.scoring import Candidates, best_groups, raw_scores
from gedbd.matching.store import Store, Stored
from gedbd.matching.why import explain

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
        self.targets, self.target = matching.targets, matching.target
        self._together = Together(reader)
        self._disk, self._change = threading.RLock(), threading.RLock()
        self._url_template = about.get("url_template", "")
        self._seen, self._memory = store.changes, Memory.of(store)

    def __len__(self) -> int:
        self._refresh()
        return int(self._memory.now[0].sum())

    def close(self) -> None:
        """Closes the file."""
        with self._change, self._disk:
            self.store.close()

    def get(self, issue_id: str) -> Report | None:
        """A stored report."""
        one = whole_characters(issue_id)
        with self._disk:
            return self.store.reports([one]).get(one)

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
        self._refresh()
        memory = self._memory
        alive, groups = memory.now
        query = self._numbers(report, memory)
        allowed = _allowed(memory, alive, report, filters)
        scores = raw_scores(memory.columns, query, len(alive))
        found = best_groups(scores, self.matching.weights, groups.of, allowed, max(top_k, SHOWN))
        lexicons = (memory.columns.text, query.text[0]), (memory.columns.title, query.title[0])
        signals = signals_of(found, [lexicon.self_score(terms) for lexicon, terms in lexicons])
        rows, sure = found.row[:top_k].tolist(), self.matching.confidence(signals)
        members = [memory.members(groups, alive, row) for row in rows]
        return self._matches(report, memory, members, found, sure)

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
        with self._change:
            self._refresh()
            with self._disk:
                stored = self.store.reports([report.issue_id for report in reports])
            wanted = {report.issue_id: self._filled(report, stored.get(report.issue_id)) for report in reports}
            fresh = {one: report for one, report in wanted.items() if stored.get(one) != report}
            if fresh:
                self._take_in(list(fresh.values()))
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

    def unlink(self, report_id: str, duplicate_id: str, source: str | None = None) -> bool:
        """Deletes the links between two reports, whichever was called the duplicate; their groups part if none is left.

        Args:
            report_id: One report, which may be deleted.
            duplicate_id: The other one.
            source: Whose links are deleted; None for those of all sources.

        Returns:
            Whether there was a link.
        """
        with self._change:
            self._refresh()
            with self._disk:
                with self.store.change():
                    found = self.store.delete_links(report_id, duplicate_id, source)
                if found:
                    self._memory.regroup(self.store.links())
            return found

    def delete(self, issue_id: str) -> bool:
        """Deletes a report; gives whether it was there."""
        with self._change:
            self._refresh()
            if issue_id not in self._memory.row_of:
                return False
            with self._disk:
                with self.store.change():
                    self.store.delete([issue_id])
                self._memory.forget(issue_id, self.store.links())
            return True

    def _filled(self, report: Report, before: Report | None) -> Report:
        """With a date and an address: its own, those of the stored report it replaces, or now and the template's."""
        filed = report.created_at
        url = report.url
        if filed is None:
            filed = before.created_at if before else datetime.now(UTC)
        if not url and before:
            url = before.url
        if not url and self._url_template:
            url = fill_template(self._url_template, report.issue_id)
        return replace(report, created_at=filed, url=url)

    def _take_in(self, reports: list[Report]) -> None:
        """Writes reports, and only then shows them to searches."""
        table = as_table(reports)
        batches = [self.reader(table.iloc[start : start + BATCH]) for start in range(0, len(table), BATCH)]
        vectors = np.concatenate(batches)
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
        table = as_table([report])
        query = numbers_of(table, self._together(table)[None], memory.vocabulary, memory.codes, learn=False)
        return (
            query if report.created_at else replace(query, day=memory.columns.day.max(initial=-np.inf, keepdims=True))
        )

    def _matches(
        self, report: Report, memory: Memory, members: list[list[int]], found: Candidates, probability: np.ndarray
    ) -> list[Match]:
        named = [tuple(memory.ids[row] for row in rows) for rows in members]
        best = [memory.ids[row] for row in found.row[: len(members)].tolist()]
        with self._disk:
            stored = self.store.reports(sorted({*best, *(ids[0] for ids in named)}))
            urls = self.store.urls([one for ids in named for one in ids])
        # others were deleted since the search began
        there = [place for place, ids in enumerate(named) if best[place] in stored and ids[0] in stored]
        reasons = explain(report, [stored[best[place]] for place in there], memory.rarity)
        sums, sure = found.score.tolist(), probability.tolist()
        matches = []
        for place, why in zip(there, reasons, strict=True):
            ids = named[place]
            linked = {one: urls[one] for one in ids if one in urls}
            matches.append(Match(stored[ids[0]], stored[best[place]], ids, sums[place], sure[place], why, linked))
        return matches

    def _refresh(self) -> None:
        """Reads the file anew if somebody else has changed it; searches that run go on with what they began with."""
        with self._disk:
            self._read_changes()

    def _read_changes(self) -> None:
        if self.store.changes == self._seen:
            return
        about = self.store.about()
        if about.get("model") != self._model:
            raise ValueError(f"{self.folder} was built anew with another model: open it again")
        self._url_template = about.get("url_template", "")
        self._seen, self._memory = self.store.changes, Memory.of(self.store)


def _allowed(memory: Memory, alive: np.ndarray, report: Report, filters: Filters) -> np.ndarray | None:
    """The candidates among the reports, ``(N,)`` bool; None for all."""
    count = len(alive)
    allowed, day = alive.copy(), memory.columns.day[:count]
    own = memory.row_of.get(report.issue_id)
    if own is not None and own < count:
        allowed[own] = False
    for moment, keep in ((filters.filed_from, np.greater_equal), (filters.filed_before, np.less)):
        if moment is not None:
            allowed &= keep(day, days_of(pd.Series(pd.to_datetime([moment], utc=True)))[0])
    if filters.component is not None:
        allowed &= memory.columns.component[:count] == memory.codes[1](pd.Series([filters.component]), False)[0]
    return None if allowed.all() else allowed
