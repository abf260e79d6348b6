"""One search of an index: candidates, their order, their probabilities, and the reasons for each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd

from gedbd.corpora.bug_report import Filters, Match, Report, as_table, has_component
from gedbd.retrieval.reports.candidate_features import FEATURES, candidate_features
from gedbd.retrieval.reports.first_stage import QueryScores, find_candidates
from gedbd.retrieval.reports.report_features import ERROR_MARK, IDENTIFIER_MARK, ReportFeatures, days_of
from gedbd.retrieval.reports.report_ranker import ReportRanker
from gedbd.retrieval.reports.term_index import SharedTerms
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.triage.explanation import SharedLine, explain, reasons
from gedbd.triage.storage.in_memory import InMemoryIndex
from gedbd.triage.storage.report_store import ReportStore
from gedbd.triage.storage.stored_model import LoadedModel

SIMILARITY = FEATURES.index("dense")


class IndexState(Protocol):
    """One state of an index, which no change alters while it is used."""

    @property
    def reports(self) -> ReportStore:
        """The stored reports; in a change, what writes them."""

    @property
    def model(self) -> LoadedModel:
        """The model that encoded them."""

    @property
    def template(self) -> frozenset[str]:
        """The lines of the tracker's issue template, which the stored reports do not have."""

    def candidates(self, report: Report, filters: Filters, vector: Callable[[], np.ndarray]) -> InMemoryIndex:
        """The reports that may be duplicates of a report: all, or those that a server has found.

        Args:
            report: The report.
            filters: What the duplicates must be.
            vector: Waits for the vector of the report, ``(D,)``.
        """

    def groups(self, ids: Sequence[str]) -> dict[str, list[str]]:
        """The ids of each report and its known duplicates, the oldest first, by its id; none if it is not stored."""

    def vectors(self, ids: Sequence[str] | None = None) -> tuple[list[str], np.ndarray]:
        """The ids of all reports, or of those of some that are stored, and their vectors, ``(N, D)``."""

    def newest_day(self) -> float:
        """When the newest report was created, in days since 1970; NaN if none has a date."""


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


def find_matches(state: IndexState, report: Report, top_k: int, filters: Filters) -> list[Match]:
    """See ``StoredIndex.search``.

    Raises:
        StoreUnavailable: If the texts of the reports that were found cannot be read.
    """
    table = as_table([report])
    vector = state.model.encode_one(table)  # encoded in another thread, while this one compares words
    index = state.candidates(report, filters, vector.result)
    query = _without_vector(table, report, index)
    scores = QueryScores(index.store, query, index.groups, vector=vector.result)
    candidates = find_candidates(scores, _allowed(index, report, filters))
    (features,) = candidate_features([candidates])
    order, ranks, probability = state.model.matching.best(features, top_k)
    best = Ranked(candidates.row[order], ranks, features[order], probability)
    why = _reasons(index, state.model.matching.ranker, candidates.scores, best, top_k, bool(report.created_at))
    return _matches(report, state.reports, index, best, why)


def _without_vector(table: pd.DataFrame, report: Report, index: InMemoryIndex) -> ReportFeatures:
    """The other features of a query; one without a date comes after all that is stored, also what was resolved."""
    query = index.encoder.encode(table, np.empty((1, 0), dtype=np.float32), learn=False)
    if report.created_at:
        return query
    day = np.nextafter([index.store.latest_day], np.inf)
    return replace(query, columns=query.columns | {"day": day})


def _matches(
    report: Report, reports: ReportStore, index: InMemoryIndex, ranked: Ranked, why: list[tuple[str, ...]]
) -> list[Match]:
    """The first candidates, as many as there are reasons, with their texts, groups and explanations."""
    rows = ranked.row[: len(why)].tolist()
    members = [tuple(index.ids[row] for row in index.members(row)) for row in rows]
    best = [index.ids[row] for row in rows]
    stored = reports.reports(sorted({*best, *(ids[0] for ids in members)}))
    urls = reports.urls([issue_id for ids in members for issue_id in ids])
    # Others may have been deleted since the search began.
    places = [place for place, ids in enumerate(members) if best[place] in stored and ids[0] in stored]
    num_reports = len(index.store.terms["text"])
    candidates = [stored[best[place]] for place in places]
    explanations = explain(report, candidates, lambda words: index.rarity(words, num_reports))
    matches = []
    for place, explanation in zip(places, explanations, strict=True):
        ids = members[place]
        match = Match(
            stored[ids[0]],
            stored[best[place]],
            ids,
            float(ranked.score[place]),
            float(ranked.probability[place]),
            replace(explanation, reasons=why[place]),
            {issue_id: urls[issue_id] for issue_id in ids if issue_id in urls},
            round(float(ranked.features[place, SIMILARITY]), 4),
        )
        matches.append(match)
    return matches


def _reasons(
    index: InMemoryIndex, ranker: ReportRanker, scores: QueryScores, ranked: Ranked, top_k: int, is_dated: bool
) -> list[tuple[str, ...]]:
    """Why each of the first ``top_k`` candidates is among them; ``is_dated`` if the report has a date of its own."""
    features = ranked.features[:top_k]
    contributions = ranker.contributions(features)
    identifiers, errors = (scores.words[kind].compare(ranked.row[:top_k]) for kind in ("identifiers", "errors"))
    why = []
    for values, added, named, lines in zip(
        features.tolist(),
        contributions,
        _shared_names(identifiers, index.encoder.vocabulary, IDENTIFIER_MARK),
        _shared_names(errors, index.encoder.vocabulary, ERROR_MARK),
        strict=True,
    ):
        facts = dict(zip(FEATURES, values, strict=True)) | ({} if is_dated else {"days": np.nan})
        error = SharedLine(lines[0][1], lines[0][0], scores.count) if lines else None
        why.append(reasons(added, facts, [name for _, name in named], error))
    return why


def _shared_names(shared: SharedTerms, vocabulary: Vocabulary, mark: str) -> Iterator[list[tuple[int, str]]]:
    """The terms that each report shares with the query, the rarest first: how many reports have it, and its name."""
    own = shared.query.own
    frequency = shared.query.frequency
    for places in shared.by_report():
        names = [vocabulary[number].removeprefix(mark) for number in own[places].tolist()]
        yield sorted(zip(frequency[places].tolist(), names, strict=True))


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
        # The filter itself too: an empty one is that of reports without a component.
        allowed &= np.isin(index.store["component"], encode([filters.component, *components], learn=False))
    return None if allowed.all() else allowed
