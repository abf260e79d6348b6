"""The six scores of a query against stored reports, and the best duplicate groups by their learned sum.

Scores, standardisation and sum are those of the linear ranker that the evaluation measures (method ``fusion``).
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gedbd.retrieval.feature_store import FeatureStore
from gedbd.retrieval.linear_ranker import standardise, weighted_sum
from gedbd.retrieval.report_features import ReportFeatures
from gedbd.retrieval.scorers.cosine import VectorScorer, cosines
from gedbd.retrieval.scorers.fields import FieldAgreement, Recency, agreement, recency
from gedbd.retrieval.scorers.lexical import Bm25
from gedbd.retrieval.scorers.scorer import Scorer

FEATURES = ("dense", "bm25", "bm25_title", "component", "product", "recency")
MIN_SORTED_REPORTS = 64


class Candidates(NamedTuple):
    """The best groups for one query, K or fewer, the best first.

    Attributes:
        row: ``(K,)`` the report of each group with the highest score.
        score: ``(K,)`` its learned sum.
        features: ``(K, F)`` its six scores in the order of ``FEATURES``, not standardised.
    """

    row: np.ndarray
    score: np.ndarray
    features: np.ndarray


def feature_scorers(vectors: np.ndarray) -> dict[str, Scorer]:
    """The scorers of ``FEATURES`` by name, for a linear ranker; ``vectors (N, D)`` are unit rows of the reports."""
    return {
        "dense": VectorScorer(vectors),
        "bm25": Bm25(square_root=True),
        "bm25_title": Bm25(field="title", square_root=True),
        "component": FieldAgreement("component"),
        "product": FieldAgreement("product"),
        "recency": Recency(),
    }


def feature_scores(store: FeatureStore, query: ReportFeatures, count: int, replayed: bool = False) -> np.ndarray:
    """The six scores of the first ``count`` stored reports for one query, ``(F, count)`` float32.

    Args:
        store: The stored reports.
        query: One report.
        count: How many reports are scored.
        replayed: The other reports do not exist yet: they do not count in word statistics either.
    """
    before = count if replayed else None
    scores = np.empty((len(FEATURES), count), dtype=np.float32)
    scores[0] = cosines(store.vectors[:count], query.vectors)[0]
    # A report that is being added meanwhile may already be in the index of words: cut to the same count.
    np.sqrt(store.text.scores(query.text[0], before)[:count], out=scores[1])
    np.sqrt(store.title.scores(query.title[0], before)[:count], out=scores[2])
    scores[3] = agreement(store.component[:count], query.component)[0]
    scores[4] = agreement(store.product[:count], query.product)[0]
    # Without dates the query is the report after the last one.
    scores[5] = recency(store.day[:count], query.day, np.array([count]))[0]
    return scores


def best_groups(
    scores: np.ndarray, weights: Mapping[str, float], group: np.ndarray, allowed: np.ndarray | None, top_k: int
) -> Candidates:
    """Sums six scores and returns the best groups, each with its best report; of equal sums the older report is first.

    Args:
        scores: ``(F, N)``, see ``feature_scores``.
        weights: Weight of each feature by name, 0 for one that is missing.
        group: ``(N,)`` group of each report.
        allowed: ``(N,)`` bool, the candidates; None for all. Scores are standardised over the candidates alone.
        top_k: Number of groups K to return.
    """
    rows = np.arange(scores.shape[1]) if allowed is None else np.flatnonzero(allowed)
    candidates = scores if allowed is None else scores[:, rows]
    # Reports that a filter excludes must not shift the mean: a search in one component compares within it.
    standardised = np.stack([standardise(feature, len(rows)) for feature in candidates])
    weight = np.array([weights.get(name, 0.0) for name in FEATURES])
    total = weighted_sum(standardised[:, None], weight)[0]
    places = _first_of_groups(total, group[rows], top_k)
    return Candidates(rows[places], total[places], candidates[:, places].T)


def _first_of_groups(total: np.ndarray, group: np.ndarray, top_k: int) -> np.ndarray:
    """Places of the best report of each of the best groups, in order."""
    # A full sort of a million sums is slow: sort the highest few, and more of them only where they hold few groups.
    num_sorted = max(MIN_SORTED_REPORTS, 4 * top_k)
    while True:
        is_complete = num_sorted >= len(total)
        highest = np.arange(len(total))
        if not is_complete:
            # All that equal the lowest of them are taken too, so that of equal sums the older report stays first.
            highest = np.flatnonzero(total >= np.partition(total, -num_sorted)[-num_sorted])
        order = highest[np.argsort(-total[highest], kind="stable")]
        first = np.sort(np.unique(group[order], return_index=True)[1])[:top_k]
        if is_complete or len(first) == top_k:
            return np.asarray(order[first])
        num_sorted *= 8
