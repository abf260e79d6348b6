"""The first stage of a search: the groups that are worth a closer look."""

from typing import NamedTuple

import numpy as np

from gedbd.retrieval.reports.feature_store import FeatureStore
from gedbd.retrieval.reports.known_groups import KnownGroups
from gedbd.retrieval.reports.report_features import FIELDS, ReportFeatures

MAX_GROUPS = 300
# How many reports each kind of retrieval finds.
DEPTHS = {"dense": 1000, "text": 500, "title": 300, "identifiers": 100, "recent": 1000}
# Weights of the sum that orders what was found: cosine, BM25 as shares of what a copy of the query would score, equal
# fields, and -log(1 + days).
WEIGHTS = {"dense": 10.0, "text": 4.0, "title": 3.0, "component": 0.7, "product": 0.3, "recency": 0.35}
COMPONENT = FIELDS.index("component")
PRODUCT = FIELDS.index("product")
WORDS = ("text", "title", "identifiers")  # the kinds of terms that find candidates
MIN_COPY_SCORE = 1e-6  # avoids division by zero for a query without words


class FirstStage(NamedTuple):
    """The candidates of a query, those with the highest sum first.

    Attributes:
        group: ``(C,)`` groups.
        row: ``(C,)`` the report of each group with the highest sum.
        members: The reports of each group that are candidates, ascending.
        sums: ``(C,)`` these sums, descending, see ``find_candidates``.
        scores: The scores of all members.
        count: How many reports were searched.
    """

    group: np.ndarray
    row: np.ndarray
    members: list[np.ndarray]
    sums: np.ndarray
    scores: "Scores"
    count: int


class Scores(NamedTuple):
    """Scores of some reports for a query.

    Attributes:
        rows: ``(R,)`` the reports, ascending.
        of: ``(R,)`` scores by name: ``dense`` (cosine), ``text``, ``title`` and ``identifiers`` (BM25).
    """

    rows: np.ndarray
    of: dict[str, np.ndarray]

    def __call__(self, name: str, rows: np.ndarray) -> np.ndarray:
        """A score of some of the reports."""
        return np.asarray(self.of[name][np.searchsorted(self.rows, rows)])


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
    lists = [_nearest(store, query, count, allowed, dense)]
    for kind in WORDS:
        terms = getattr(query.terms, kind)[0]
        lists.append(store.terms(kind).best(terms, DEPTHS[kind], count, allowed))
    found = np.unique(np.concatenate([*lists, _latest(store, query, count, allowed)]))
    sums = quick_sums(store, query, score(store, query, found, count, dense), found, count)
    order = np.argsort(-sums, kind="stable")
    first = np.sort(np.unique(groups.group[found[order]], return_index=True)[1])[:max_groups]
    chosen = order[first]
    group = groups.group[found[chosen]]
    members = _members(groups, group, found[chosen], allowed)
    scores = score(store, query, np.unique(np.concatenate([found[:0], *members])), count, dense)
    return FirstStage(group, found[chosen], members, sums[chosen], scores, count)


def quick_sums(store: FeatureStore, query: ReportFeatures, scores: Scores, rows: np.ndarray, count: int) -> np.ndarray:
    """The sum with the weights ``WEIGHTS`` of some of the first ``count`` reports, ``(R,) -> (R,)``."""
    total = WEIGHTS["dense"] * scores("dense", rows)
    for kind in ("text", "title"):
        copy = store.terms(kind).self_score(getattr(query.terms, kind)[0], count)
        total = total + WEIGHTS[kind] * scores(kind, rows) / max(copy, MIN_COPY_SCORE)
    for name, place in (("component", COMPONENT), ("product", PRODUCT)):
        code = query.codes[0, place]
        total = total + WEIGHTS[name] * ((code >= 0) & (store.code(place)[rows] == code))
    days = np.abs(query.day[0] - store.day[rows])
    # Without dates, rows count as days.
    return np.asarray(total - WEIGHTS["recency"] * np.log1p(np.where(np.isnan(days), count - rows, days)))


def score(
    store: FeatureStore,
    query: ReportFeatures,
    rows: np.ndarray,
    count: int,
    dense: np.ndarray | None = None,
) -> Scores:
    """Scores of some of the first ``count`` reports, ascending; ``dense``, if known, are the cosines of all."""
    cosines = store.vectors.cosines(rows, query.vectors[0]) if dense is None else dense[rows]
    words = {kind: store.terms(kind).scores_of(getattr(query.terms, kind)[0], rows, count) for kind in WORDS}
    return Scores(rows, {"dense": cosines, **words})


def _nearest(
    store: FeatureStore, query: ReportFeatures, count: int, allowed: np.ndarray | None, dense: np.ndarray | None
) -> np.ndarray:
    """The reports with the highest cosines, the highest first; of equal ones the older report comes first."""
    depth = DEPTHS["dense"]
    if dense is None:
        return store.vectors.nearest(query.vectors[0], depth, count, allowed)
    rows = np.arange(count) if allowed is None else np.flatnonzero(allowed)
    if len(rows) > depth:
        lowest = np.partition(dense[rows], -depth)[-depth]
        rows = rows[dense[rows] >= lowest]
    return np.asarray(rows[np.argsort(-dense[rows], kind="stable")][:depth])


def _latest(store: FeatureStore, query: ReportFeatures, count: int, allowed: np.ndarray | None) -> np.ndarray:
    """The latest reports of the query's component, the latest first; of all where it has none, or no other has it."""
    if allowed is None:
        allowed = np.ones(count, dtype=bool)
    code = query.codes[0, COMPONENT]
    # A component that a stored report introduced later has a code here, but none in an index of the reports before it.
    rows = np.flatnonzero(allowed & (store.code(COMPONENT)[:count] == code)) if code >= 0 else np.empty(0, dtype=int)
    if not len(rows):
        rows = np.flatnonzero(allowed)
    return rows[::-1][: DEPTHS["recent"]]


def _members(groups: KnownGroups, group: np.ndarray, row: np.ndarray, allowed: np.ndarray | None) -> list[np.ndarray]:
    """See ``FirstStage.members``."""
    found = []
    for number, own in zip(group.tolist(), row, strict=True):
        members = groups.members.get(number, own[None])
        found.append(members if allowed is None else members[allowed[members]])
    return found
