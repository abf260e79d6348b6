"""The first stage of a search: the groups that are worth a closer look."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from gedbd.retrieval.reports.feature_store import FeatureStore
from gedbd.retrieval.reports.known_groups import KnownGroups
from gedbd.retrieval.reports.report_features import ReportFeatures
from gedbd.retrieval.reports.term_index import TermQuery

MAX_GROUPS = 300
# How many reports each kind of retrieval finds.
DEPTHS = {"dense": 1000, "text": 500, "title": 300, "identifiers": 100, "recent": 1000}
# Weights of the sum that orders what was found: cosine, BM25 as shares of what a copy of the query would score, equal
# fields, and -log(1 + days).
WEIGHTS = {"dense": 10.0, "text": 4.0, "title": 3.0, "component": 0.7, "product": 0.3, "recency": 0.35}
WORDS = ("text", "title", "identifiers")  # kinds of terms
SUMMED_WORDS = ("text", "title")
THREADS = ThreadPoolExecutor(32, thread_name_prefix="nearest")  # one for each search at a time
MIN_COPY_SCORE = 1e-6  # avoids division by zero for a query without words


class QueryScores:
    """Scores of the first n reports of a store for one query: cosine, and BM25 of each kind of terms.

    Only an index without replaced and removed reports can leave out others than the first n.

    Args:
        store: The stored reports.
        query: One report.
        groups: The groups among the first n reports, which alone are searched, and alone count in word statistics.
        dense: ``(n,)`` the cosines, where they are known already.
        vector: Waits for the query's vector ``(D,)``, where it is still being computed; called in another thread too.
            None takes that of ``query``.
        words: The query's terms of each kind of ``TERM_KINDS``, where they are known already.

    Attributes:
        count: The number n.
        vector: Gives the query's vector ``(D,)``.
        is_waiting: Whether it may have to wait for it.
        words: The query's terms of each kind of ``TERM_KINDS``.
    """

    def __init__(
        self,
        store: FeatureStore,
        query: ReportFeatures,
        groups: KnownGroups,
        dense: np.ndarray | None = None,
        vector: Callable[[], np.ndarray] | None = None,
        words: Mapping[str, TermQuery] | None = None,
    ) -> None:
        self.store = store
        self.query = query
        self.groups = groups
        self.count = count = len(groups.group)
        if words is None:
            words = {kind: index.query(query.terms[kind][0], count) for kind, index in store.terms.items()}
        self.words = words
        self.vector = vector or (lambda: query.vectors[0])
        self.is_waiting = vector is not None
        self._dense = dense
        # Zeros, which the system gives without writing them, unlike other values.
        self._cosines = np.zeros(count, dtype=np.float32)
        self._is_known = np.zeros(count, dtype=bool)

    def __call__(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Scores of some reports, ``(R,)``; ``name`` is ``dense`` or a kind of ``TERM_KINDS``."""
        if name != "dense":
            return self.words[name].scores(rows)
        if self._dense is not None:
            return np.asarray(self._dense[rows])
        # A cosine is the same whatever other reports it is computed with: what is computed once is kept.
        fresh = rows[~self._is_known[rows]]
        if len(fresh):
            self._cosines[fresh] = self.store.vectors.cosines(fresh, self.vector())
            self._is_known[fresh] = True
        return np.asarray(self._cosines[rows])

    def nearest(self, depth: int, allowed: np.ndarray | None) -> np.ndarray:
        """The reports with the highest cosines, the highest first; of equal ones the older report comes first."""
        if self._dense is None:
            rows = self.store.vectors.likely(self.vector(), depth, self.count, allowed)
        else:
            rows = np.arange(self.count) if allowed is None else np.flatnonzero(allowed)
            if len(rows) > depth:
                lowest = np.partition(self._dense[rows], -depth)[-depth]
                rows = rows[self._dense[rows] >= lowest]
        return np.asarray(rows[np.argsort(-self("dense", rows), kind="stable")][:depth])


class FirstStage(NamedTuple):
    """The candidates of a query, those with the highest sum first.

    Attributes:
        group: ``(C,)`` groups.
        row: ``(C,)`` the report of each group with the highest sum.
        members: The reports of each group that are candidates, ascending.
        sums: ``(C,)`` these sums, descending, see ``find_candidates``.
        scores: Scores of reports for the query.
    """

    group: np.ndarray
    row: np.ndarray
    members: list[np.ndarray]
    sums: np.ndarray
    scores: QueryScores


def find_candidates(scores: QueryScores, allowed: np.ndarray | None = None, max_groups: int = MAX_GROUPS) -> FirstStage:
    """Finds the groups with the most similar vectors, the most shared words, and the latest of the same component.

    What all kinds of retrieval find is ordered by a sum with the fixed ``WEIGHTS``, each group by its best report.

    Args:
        scores: Scores of the stored reports for the query.
        allowed: ``(n,)`` bool, the candidates; None for all.
        max_groups: Number of groups to find.
    """
    groups = scores.groups
    # In another thread, which waits for the vector while this one compares words.
    nearest = THREADS.submit(scores.nearest, DEPTHS["dense"], allowed) if scores.is_waiting else None
    lists = [scores.words[kind].best(DEPTHS[kind], allowed) for kind in WORDS]
    lists.append(_latest(scores, allowed))
    lists.append(scores.nearest(DEPTHS["dense"], allowed) if nearest is None else nearest.result())
    rows = np.unique(np.concatenate(lists))
    numbers, place = np.unique(groups.group[rows], return_inverse=True)
    if len(numbers) > max_groups:
        # By bounds of BM25's part in it, the sum of some reports cannot be one of the highest of groups.
        bounds = {kind: scores.words[kind].bounds(rows) for kind in SUMMED_WORDS}
        least, most = quick_sums(scores, rows, bounds)
        of_group = np.full(len(numbers), -np.inf)
        np.maximum.at(of_group, place, least)
        rows = rows[most >= np.partition(of_group, -max_groups)[-max_groups]]
    sums = quick_sums(scores, rows)
    order = np.argsort(-sums, kind="stable")
    first = np.sort(np.unique(groups.group[rows[order]], return_index=True)[1])[:max_groups]
    chosen = order[first]
    rows = rows[chosen]
    group = groups.group[rows]
    # Without a known duplicate, a report is a group of its own.
    members = [groups.members.get(*pair) for pair in zip(group.tolist(), rows[:, None], strict=True)]
    if allowed is not None:
        members = [own[allowed[own]] for own in members]
    return FirstStage(group, rows, members, sums[chosen], scores)


def quick_sums(scores: QueryScores, rows: np.ndarray, words: Mapping[str, np.ndarray] | None = None) -> np.ndarray:
    """The sum with the weights ``WEIGHTS`` of some reports, ``(R,) -> (R,)``.

    Args:
        scores: Scores of reports for the query.
        rows: ``(R,)``.
        words: BM25 of these reports by kind of ``SUMMED_WORDS``, ``(R,)``, or several numbers for each, ``(B, R)``,
            for which there are as many sums; None for what it is.
    """
    store, query = scores.store, scores.query
    if words is None:
        words = {kind: scores(kind, rows) for kind in SUMMED_WORDS}
    total = WEIGHTS["dense"] * scores("dense", rows)
    for kind in SUMMED_WORDS:
        total = total + WEIGHTS[kind] * words[kind] / max(scores.words[kind].copy_score, MIN_COPY_SCORE)
    for field in ("component", "product"):
        code = query.columns[field][0]
        total = total + WEIGHTS[field] * ((code >= 0) & (store[field][rows] == code))
    days = np.abs(query.columns["day"][0] - store["day"][rows])
    # Without dates, rows count as days.
    return np.asarray(total - WEIGHTS["recency"] * np.log1p(np.where(np.isnan(days), scores.count - rows, days)))


def _latest(scores: QueryScores, allowed: np.ndarray | None) -> np.ndarray:
    """The latest reports of the query's component, the latest first; of all where it has none, or no other has it."""
    depth = DEPTHS["recent"]
    code = scores.query.columns["component"][0]
    # A component that a stored report introduced later has a code here, but none in an index of the reports before it.
    if code >= 0:
        is_same = scores.store["component"][: scores.count] == code
        rows = np.flatnonzero(is_same if allowed is None else is_same & allowed)
        if len(rows):
            return rows[::-1][:depth]
    rows = np.arange(scores.count) if allowed is None else np.flatnonzero(allowed)
    return rows[::-1][:depth]
