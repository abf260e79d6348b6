"""Search in an index: candidates, their ranks, probabilities and reasons."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd

from gedbd.corpora.bug_report import Filters, Match, Report, as_table, has_component
from gedbd.retrieval.reports.candidate_features import FEATURES, candidate_features
from gedbd.retrieval.reports.first_stage import QueryScores, find_candidates
from gedbd.retrieval.reports.report_features import ERROR_MARK, IDENTIFIER_MARK, days_of
from gedbd.retrieval.reports.report_ranker import ReportRanker
from gedbd.retrieval.reports.term_index import SharedTerms
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.triage.explanation import SharedLine, explain, reasons
from gedbd.triage.storage.in_memory import InMemoryIndex
from gedbd.triage.storage.report_store import ReportStore
from gedbd.triage.storage.stored_model import LoadedModel

SIMILARITY = FEATURES.index("dense")


class IndexState(Protocol):
    """An immutable state of an index."""

    @property
    def reports(self) -> ReportStore:
        """The stored reports."""

    @property
    def model(self) -> LoadedModel:
        """The model that encoded them."""

    @property
    def template(self) -> frozenset[str]:
        """The lines of the tracker's issue template, which are removed from stored reports."""

    def candidates(self, report: Report, filters: Filters, vector: Callable[[], np.ndarray]) -> InMemoryIndex:
        """The candidates for duplicates of a report: all reports, or those that a server returns.

        Args:
            report: The report.
            filters: Filters of the duplicates.
            vector: Returns the vector of the report, ``(D,)``, when it is computed.
        """

    def groups(self, ids: Sequence[str]) -> dict[str, list[str]]:
        """Ids of each report and its known duplicates, oldest first, by its id; empty if it is not stored."""

    def vectors(self, ids: Sequence[str] | None = None) -> tuple[list[str], np.ndarray]:
        """Ids and vectors, ``(N, D)``, of the stored reports, or of those among ``ids``."""

    def newest_day(self) -> float:
        """Date of the newest report in days since 1970; NaN without dates."""


class Ranked(NamedTuple):
    """The best K candidates, best first.

    Attributes:
        row: ``(K,)`` row of the most similar report of each group.
        score: ``(K,)`` scores.
        features: ``(K, F)`` features.
        probability: ``(K,)`` probability that each is right.
    """

    row: np.ndarray
    score: np.ndarray
    features: np.ndarray
    probability: np.ndarray


def find_matches(state: IndexState, report: Report, top_k: int, filters: Filters) -> list[Match]:
    """Implements ``StoredIndex.search`` on one state.

    Raises:
        StoreUnavailable: If the texts of the matches cannot be read.
    """
    table = as_table([report])
    vector = state.model.encode_one(table)  # in another thread, while this one compares words
    index = state.candidates(report, filters, vector.result)
    query = index.encoder.encode(table, np.empty((1, 0), dtype=np.float32), learn=False)
    if not report.created_at:  # after all stored dates, also those of resolutions
        query = replace(query, columns=query.columns | {"day": np.nextafter([index.store.latest_day], np.inf)})
    scores = QueryScores(index.store, query, index.groups, vector=vector.result)
    candidates = find_candidates(scores, _allowed(index, report, filters))
    (features,) = candidate_features([candidates])
    order, ranks, probability = state.model.matching.best(features, top_k)
    best = Ranked(candidates.row[order], ranks, features[order], probability)
    why = _reasons(index, state.model.matching.ranker, candidates.scores, best, top_k, bool(report.created_at))
    return _matches(report, state.reports, index, best, why)


def _matches(
    report: Report, reports: ReportStore, index: InMemoryIndex, ranked: Ranked, why: list[tuple[str, ...]]
) -> list[Match]:
    """The first candidates, as many as ``why`` has, with their texts, groups and explanations."""
    rows = ranked.row[: len(why)].tolist()
    members = [tuple(index.ids[row] for row in index.members(row)) for row in rows]
    best = [index.ids[row] for row in rows]
    stored = reports.reports(sorted({*best, *(ids[0] for ids in members)}))
    urls = reports.urls([issue_id for ids in members for issue_id in ids])
    # A report may have been deleted during the search.
    positions = [position for position, ids in enumerate(members) if best[position] in stored and ids[0] in stored]
    num_reports = len(index.store.terms["text"])
    candidates = [stored[best[position]] for position in positions]
    explanations = explain(report, candidates, lambda words: index.rarity(words, num_reports))
    matches = []
    for position, explanation in zip(positions, explanations, strict=True):
        ids = members[position]
        match = Match(
            stored[ids[0]],
            stored[best[position]],
            ids,
            float(ranked.score[position]),
            float(ranked.probability[position]),
            replace(explanation, reasons=why[position]),
            {issue_id: urls[issue_id] for issue_id in ids if issue_id in urls},
            round(float(ranked.features[position, SIMILARITY]), 4),
        )
        matches.append(match)
    return matches


def _reasons(
    index: InMemoryIndex, ranker: ReportRanker, scores: QueryScores, ranked: Ranked, top_k: int, is_dated: bool
) -> list[tuple[str, ...]]:
    """The reasons for the first ``top_k`` candidates; ``is_dated``: whether the report has a date."""
    features = ranked.features[:top_k]
    contributions = ranker.contributions(features)
    identifiers, errors = (scores.words[kind].compare(ranked.row[:top_k]) for kind in ("identifiers", "errors"))
    why = []
    for values, feature_contributions, names, lines in zip(
        features.tolist(),
        contributions,
        _shared_names(identifiers, index.encoder.vocabulary, IDENTIFIER_MARK),
        _shared_names(errors, index.encoder.vocabulary, ERROR_MARK),
        strict=True,
    ):
        facts = dict(zip(FEATURES, values, strict=True)) | ({} if is_dated else {"days": np.nan})
        error = SharedLine(lines[0][1], lines[0][0], scores.count) if lines else None
        why.append(reasons(feature_contributions, facts, [name for _, name in names], error))
    return why


def _shared_names(shared: SharedTerms, vocabulary: Vocabulary, mark: str) -> Iterator[list[tuple[int, str]]]:
    """The terms that each report shares with the query, rarest first, as (number of reports with it, name)."""
    terms = shared.query.own
    frequency = shared.query.frequency
    for positions in shared.by_report():
        names = [vocabulary[number].removeprefix(mark) for number in terms[positions].tolist()]
        yield sorted(zip(frequency[positions].tolist(), names, strict=True))


def _allowed(index: InMemoryIndex, report: Report, filters: Filters) -> np.ndarray | None:
    """The reports that may be candidates, ``(N,)`` bool; None for all."""
    own_row = index.row_of.get(report.issue_id)
    if own_row is None and filters == Filters():
        return None
    allowed = np.ones(len(index), dtype=bool)
    if own_row is not None:
        allowed[own_row] = False
    day = index.store["day"]
    for moment, keep in ((filters.created_from, np.greater_equal), (filters.created_before, np.less)):
        if moment is not None:
            allowed &= keep(day, days_of(pd.Series(pd.to_datetime([moment], utc=True)))[0])
    if filters.component is not None:
        encode = index.encoder.categories["component"]
        components = [component for component in encode.values if has_component(component, filters.component)]
        # Includes the filter: an empty one matches reports without a component.
        allowed &= np.isin(index.store["component"], encode([filters.component, *components], learn=False))
    return None if allowed.all() else allowed
