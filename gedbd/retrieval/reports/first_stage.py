"""The first stage of a search: the groups that are worth a closer look."""

from typing import NamedTuple

import numpy as np

from gedbd.retrieval.reports.feature_store import FeatureStore
from gedbd.retrieval.reports.known_groups import KnownGroups
from gedbd.retrieval.reports.report_features import FIELDS, ReportFeatures
from gedbd.retrieval.scorers.cosine import cosines

MAX_GROUPS = 300
# How many reports each kind of retrieval finds.
DEPTHS = {"dense": 1000, "text": 500, "title": 300, "identifiers": 100, "recent": 1000}
# Weights of the sum that orders what was found: cosine, BM25 as shares of what a copy of the query would score, equal
# fields, and -log(1 + days).
WEIGHTS = {"dense": 10.0, "text": 4.0, "title": 3.0, "component": 0.7, "product": 0.3, "recency": 0.35}
COMPONENT = FIELDS.index("component")
PRODUCT = FIELDS.index("product")
MIN_COPY_SCORE = 1e-6  # avoids division by zero for a query without words


class FirstStage(NamedTuple):
    """The candidates of a query, those with the highest sum first.

    Attributes:
        group: ``(C,)`` groups.
        row: ``(C,)`` the report of each group with the highest sum.
        members: The reports of each group that are candidates, ascending.
        sums: ``(C,)`` these sums, descending, see ``find_candidates``.
        scores: Scores of all n reports by name: ``dense`` (cosine), ``text``, ``title`` and ``identifiers`` (BM25).
    """

    group: np.ndarray
    row: np.ndarray
    members: list[np.ndarray]
    sums: np.ndarray
    scores: dict[str, np.ndarray]


def find_candidates(
    store: FeatureStore,
    query: ReportFeatures,
    groups: KnownGroups,
    allowed: np.ndarray | None = None,
    max_groups: int = MAX_GROUPS,
    dense: np.ndarray | None = None,
) -> FirstStage:
    """Finds the groups with the most similar vectors, the most shared words, and the latest of the same component.

    What all kinds of retrieval find is ordered by a sum with the fixed ``WEIGHTS``, each group by its best report.

    Args:
        store: The stored reports.
        query: One report.
        groups: The groups among the first n reports, which alone are searched, and alone count in word statistics.
        allowed: ``(n,)`` bool, the candidates; None for all.
        max_groups: Number of groups to find.
        dense: ``(n,)`` the query's cosines, where they are known already.
    """
    count = len(groups.group)
    scores = raw_scores(store, query, count, dense)
    rows = np.arange(count) if allowed is None else np.flatnonzero(allowed)
    lists = [_highest(scores[name], rows, depth, name) for name, depth in DEPTHS.items() if name != "recent"]
    found = np.unique(np.concatenate([*lists, _latest(store, query, rows, DEPTHS["recent"])]))
    sums = quick_sums(store, query, scores, found)
    order = np.argsort(-sums, kind="stable")
    first = np.sort(np.unique(groups.group[found[order]], return_index=True)[1])[:max_groups]
    chosen = order[first]
    group = groups.group[found[chosen]]
    return FirstStage(group, found[chosen], _members(groups, group, found[chosen], allowed), sums[chosen], scores)


def quick_sums(
    store: FeatureStore, query: ReportFeatures, scores: dict[str, np.ndarray], rows: np.ndarray
) -> np.ndarray:
    """The sum with the weights ``WEIGHTS`` of some reports, ``(R,) -> (R,)``."""
    count = len(scores["dense"])
    total = WEIGHTS["dense"] * scores["dense"][rows]
    for kind in ("text", "title"):
        copy = getattr(store, kind).self_score(getattr(query.terms, kind)[0], count)
        total = total + WEIGHTS[kind] * scores[kind][rows] / max(copy, MIN_COPY_SCORE)
    for name, place in (("component", COMPONENT), ("product", PRODUCT)):
        code = query.codes[0, place]
        total = total + WEIGHTS[name] * ((code >= 0) & (store.codes[rows, place] == code))
    days = np.abs(query.day[0] - store.day[rows])
    # Without dates, rows count as days.
    return np.asarray(total - WEIGHTS["recency"] * np.log1p(np.where(np.isnan(days), count - rows, days)))


def raw_scores(
    store: FeatureStore, query: ReportFeatures, count: int, dense: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Scores of the first ``count`` reports, see ``FirstStage``; ``dense``, if known, are the cosines."""
    terms = query.terms
    return {
        "dense": cosines(store.vectors[:count], query.vectors)[0] if dense is None else dense,
        # A report that is being added meanwhile may already be in the index of words: cut to the same count.
        "text": store.text.scores(terms.text[0], count)[:count],
        "title": store.title.scores(terms.title[0], count)[:count],
        "identifiers": store.identifiers.scores(terms.identifiers[0], count)[:count],
    }


def _highest(scores: np.ndarray, rows: np.ndarray, depth: int, name: str) -> np.ndarray:
    """The rows with the highest scores, the highest first; of equal scores the older report comes first."""
    mine = scores[rows]
    if name != "dense":  # no shared word is no reason
        rows = rows[mine > 0]
        mine = scores[rows]
    if len(rows) > depth:
        lowest = np.partition(mine, -depth)[-depth]
        rows = rows[mine >= lowest]
        mine = scores[rows]
    return np.asarray(rows[np.argsort(-mine, kind="stable")][:depth])


def _latest(store: FeatureStore, query: ReportFeatures, rows: np.ndarray, depth: int) -> np.ndarray:
    """The latest reports of the query's component, the latest first; of all where it has none, or no other has it."""
    code = query.codes[0, COMPONENT]
    # A component that a stored report introduced later has a code here, but none in an index of the reports before it.
    same = rows[store.codes[rows, COMPONENT] == code] if code >= 0 else rows[:0]
    return np.asarray((same if len(same) else rows)[::-1][:depth])


def _members(groups: KnownGroups, group: np.ndarray, row: np.ndarray, allowed: np.ndarray | None) -> list[np.ndarray]:
    """See ``FirstStage.members``."""
    found = []
    for number, own in zip(group.tolist(), row, strict=True):
        members = groups.members.get(number, own[None])
        found.append(members if allowed is None else members[allowed[members]])
    return found
