"""Searches one state of an index, whatever changes the index meanwhile."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.retrieval.reports.candidate_features import FEATURES, candidate_features
from gedbd.retrieval.reports.first_stage import COMPONENT, find_candidates
from gedbd.retrieval.reports.known_groups import KnownGroups
from gedbd.retrieval.reports.query_scores import QueryScores
from gedbd.retrieval.reports.report_features import IDENTIFIER_MARK, ReportFeatures
from gedbd.retrieval.reports.shared_terms import SharedTerms
from gedbd.retrieval.scorers.fields import days_of
from gedbd.triage.confidence import NUM_COMPARED, confidence_features
from gedbd.triage.explanation import explain
from gedbd.triage.reasons import reasons
from gedbd.triage.report import Filters, Match, Report, as_table
from gedbd.triage.storage.in_memory import InMemoryIndex
from gedbd.triage.storage.state import State


class Ranked(NamedTuple):
    """The best candidates, K or fewer, the best first.

    Attributes:
        row: ``(K,)`` the report of each group that speaks most for it.
        score: ``(K,)`` the ranker's score.
        features: ``(K, F)`` what the ranker has read.
        probability: ``(K,)`` that it is right.
    """

    row: np.ndarray
    score: np.ndarray
    features: np.ndarray
    probability: np.ndarray


def find_matches(state: State, report: Report, top_k: int, filters: Filters) -> list[Match]:
    """See ``Index.search``.

    Raises:
        StoreUnavailable: If the texts of the reports that were found cannot be read.
    """
    index = state.memory
    groups = index.groups  # taken once: reports that are added meanwhile are beyond its count
    count = len(groups.group)
    table = as_table([report])
    vector = state.encode_one(table)  # encoded in another thread, while this one compares words
    query = _without_vector(table, report, state)
    allowed = _allowed(index, count, report, filters)
    found = find_candidates(index.store, query, groups, allowed, vector=vector.result)
    query = replace(query, vectors=vector.result()[None])
    features = candidate_features(index.store, query, found)
    scores = state.matching.ranker.scores(features)
    order = np.argsort(-scores, kind="stable")[: max(top_k, NUM_COMPARED)]
    probability = state.matching.confidence(confidence_features(features[order], scores[order]))
    best = Ranked(found.row[order], scores[order], features[order], probability)
    why = _reasons(state, found.scores, best, top_k, bool(report.created_at))
    return _matches(report, state, groups, best, why)


def _without_vector(table: pd.DataFrame, report: Report, state: State) -> ReportFeatures:
    """The other features of a query; one without a date comes after all that is stored, also what was resolved."""
    query = state.memory.encoder.encode(table, np.empty((1, 0), dtype=np.float32), learn=False)
    if report.created_at:
        return query
    return replace(query, day=np.nextafter([state.memory.store.latest_day], np.inf))


def _matches(
    report: Report, state: State, groups: KnownGroups, found: Ranked, why: list[tuple[str, ...]]
) -> list[Match]:
    """The first candidates, as many as there are reasons, with their texts, groups and explanations."""
    index = state.memory
    rows = found.row[: len(why)].tolist()
    members = [tuple(index.ids[row] for row in index.members(groups, row)) for row in rows]
    best = [index.ids[row] for row in rows]
    stored = state.file.reports(sorted({*best, *(ids[0] for ids in members)}))
    urls = state.file.urls([issue_id for ids in members for issue_id in ids])
    # Others may have been deleted since the search began.
    places = [place for place, ids in enumerate(members) if best[place] in stored and ids[0] in stored]
    num_reports = len(groups.group)
    found_reports = [stored[best[place]] for place in places]
    explanations = explain(report, found_reports, lambda words: index.rarity(words, num_reports))
    matches = []
    for place, explanation in zip(places, explanations, strict=True):
        ids = members[place]
        match = Match(
            stored[ids[0]],
            stored[best[place]],
            ids,
            float(found.score[place]),
            float(found.probability[place]),
            replace(explanation, reasons=why[place]),
            {issue_id: urls[issue_id] for issue_id in ids if issue_id in urls},
        )
        matches.append(match)
    return matches


def _reasons(state: State, scores: QueryScores, found: Ranked, top_k: int, is_dated: bool) -> list[tuple[str, ...]]:
    """Why each of the first ``top_k`` candidates is among them; ``is_dated`` if the report has a date of its own."""
    memory = state.memory
    features = found.features[:top_k]
    added = state.matching.ranker.contributions(features)
    identifiers, errors = (
        SharedTerms.of(memory.store.terms(kind), scores.words[kind], found.row[:top_k])
        for kind in ("identifiers", "errors")
    )
    own = identifiers.query.own
    frequency = identifiers.query.frequency
    why = []
    for values, one, places, num_errors in zip(
        features.tolist(), added, identifiers.by_report(), errors.number.tolist(), strict=True
    ):
        rarest_first = own[places[np.argsort(frequency[places], kind="stable")]]
        named = [memory.vocabulary[number].removeprefix(IDENTIFIER_MARK) for number in rarest_first.tolist()]
        facts = dict(zip(FEATURES, values, strict=True)) | ({} if is_dated else {"days": np.nan})
        why.append(reasons(one, facts, named, num_errors))
    return why


def _allowed(index: InMemoryIndex, count: int, report: Report, filters: Filters) -> np.ndarray | None:
    """The candidates among the first ``count`` reports, ``(N,)`` bool; None for all."""
    own_row = index.ids.row(report.issue_id)
    if own_row is None and filters == Filters():
        return None
    allowed = np.ones(count, dtype=bool)
    if own_row is not None:
        allowed[own_row] = False
    day = index.store.day[:count]
    for moment, keep in ((filters.created_from, np.greater_equal), (filters.created_before, np.less)):
        if moment is not None:
            allowed &= keep(day, days_of(pd.Series(pd.to_datetime([moment], utc=True)))[0])
    if filters.component is not None:
        code = index.encoder.categories[COMPONENT](pd.Series([filters.component]), learn=False)[0]
        allowed &= index.store.code(COMPONENT)[:count] == code
    return None if allowed.all() else allowed
