"""Searches one state of an index, whatever becomes of the index meanwhile."""

from dataclasses import replace

import numpy as np
import pandas as pd

from gedbd.retrieval.feature_store import Numbers, days_of
from gedbd.retrieval.features import Candidates, best_groups, raw_scores
from gedbd.triage.calibration import SHOWN, signals_of
from gedbd.triage.explanation import explain
from gedbd.triage.report import Filters, Match, Report, as_table
from gedbd.triage.storage.in_memory import Groups, Memory
from gedbd.triage.storage.state import State
from gedbd.triage.training import numbers_of


def find_matches(state: State, report: Report, top_k: int, filters: Filters) -> list[Match]:
    """See ``Index.search``.

    Raises:
        StoreUnavailable: If the texts of the reports that were found cannot be read.
    """
    memory, groups = state.memory, state.memory.groups
    count = len(groups.of)
    query = _numbers(report, state, count)
    allowed = _allowed(memory, count, report, filters)
    scores = raw_scores(memory.columns, query, count, replayed=True)
    found = best_groups(scores, state.matching.weights, groups.of, allowed, max(top_k, SHOWN))
    lexicons = (memory.columns.text, query.text[0]), (memory.columns.title, query.title[0])
    signals = signals_of(found, [lexicon.self_score(terms, count) for lexicon, terms in lexicons])
    rows = found.row[:top_k].tolist()
    return _matches(report, state, groups, rows, found, state.matching.confidence(signals))


def _numbers(report: Report, state: State, count: int) -> Numbers:
    """A query as numbers; without a date it is as new as the newest of the first so many reports."""
    memory, table = state.memory, as_table([report])
    query = numbers_of(table, state.encode_one(table)[None], memory.vocabulary, memory.codes, learn=False)
    if report.created_at:
        return query
    return replace(query, day=memory.columns.day[:count].max(initial=-np.inf, keepdims=True))


def _matches(
    report: Report, state: State, groups: Groups, rows: list[int], found: Candidates, probability: np.ndarray
) -> list[Match]:
    memory, count = state.memory, len(groups.of)
    named = [tuple(memory.ids[row] for row in memory.members(groups, row)) for row in rows]
    best = [memory.ids[row] for row in rows]
    stored = state.file.reports(sorted({*best, *(ids[0] for ids in named)}))
    urls = state.file.urls([one for ids in named for one in ids])
    # others were deleted since the search began
    there = [place for place, ids in enumerate(named) if best[place] in stored and ids[0] in stored]
    reasons = explain(report, [stored[best[place]] for place in there], lambda some: memory.rarity(some, count))
    sums, sure = found.score.tolist(), probability.tolist()
    matches = []
    for place, why in zip(there, reasons, strict=True):
        ids = named[place]
        linked = {one: urls[one] for one in ids if one in urls}
        matches.append(Match(stored[ids[0]], stored[best[place]], ids, sums[place], sure[place], why, linked))
    return matches


def _allowed(memory: Memory, count: int, report: Report, filters: Filters) -> np.ndarray | None:
    """The candidates among the first so many reports, ``(N,)`` bool; None for all."""
    allowed, day = np.ones(count, dtype=bool), memory.columns.day[:count]
    own = memory.row_of.get(report.issue_id)
    if own is not None and own < count:
        allowed[own] = False
    for moment, keep in ((filters.created_from, np.greater_equal), (filters.created_before, np.less)):
        if moment is not None:
            allowed &= keep(day, days_of(pd.Series(pd.to_datetime([moment], utc=True)))[0])
    if filters.component is not None:
        allowed &= memory.columns.component[:count] == memory.codes[1](pd.Series([filters.component]), False)[0]
    return None if allowed.all() else allowed
