"""The first stage of a search, which finds the candidates: known duplicate groups."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from gedbd.retrieval.report_ranking.feature_store import TERM_KINDS, FeatureStore, ReportFeatures
from gedbd.retrieval.report_ranking.term_index import SharedTerms, TermQuery
from gedbd.retrieval.report_ranking.vector_table import RoughScores, Shortlist

MAX_GROUPS = 300
# How many reports each kind of retrieval finds.
DEPTHS = {"dense": 1000, "text": 500, "title": 300, "identifiers": 100, "recent": 1000}
# Weights of the sum that orders candidates: cosine, BM25 by that of a copy of the query, equal fields, -log(1 + days).
WEIGHTS = {"dense": 10.0, "text": 4.0, "title": 3.0, "component": 0.7, "product": 0.3, "recency": 0.35}
CHOOSING_RECENCY = 0.7  # in the sum that chooses candidates: far down, cosines and words tell less, and dates more
WORDS = ("text", "title", "identifiers")  # kinds of terms
SUMMED_WORDS = ("text", "title")
THREADS = ThreadPoolExecutor(32, thread_name_prefix="nearest")  # one for each search at a time
MIN_COPY_SCORE = 1e-6  # avoids division by zero for a query without words
ROUNDING = 1e-4  # bounds the error of a sum by rounding to single precision


class KnownGroups(NamedTuple):
    """Duplicate groups among the first n reports."""

    group: np.ndarray  # ``(n,)`` group of each report; a report without a known duplicate is a group of its own
    members: Mapping[int, np.ndarray]  # the rows of each group of two or more, ascending
    size: np.ndarray  # ``(n,)`` number of reports of each group

    @classmethod
    def of(cls, group: np.ndarray) -> "KnownGroups":
        """The groups of an array of group numbers, which are their lowest rows."""
        order = np.argsort(group, kind="stable")
        numbers, starts, sizes = np.unique(group[order], return_index=True, return_counts=True)
        several = sizes > 1
        ranges = zip(numbers[several].tolist(), starts[several].tolist(), sizes[several].tolist(), strict=True)
        members = {number: order[start : start + size] for number, start, size in ranges}
        return cls(group, members, np.bincount(group, minlength=len(group)))

    def members_of(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of some groups, ``(C,)``.

        Returns:
            ``(M,)`` those of the first group, ascending, those of the second, and so on; and how many each has,
            ``(C,)``.
        """
        sizes = self.size[numbers]
        rows = numbers.repeat(sizes)
        several = sizes > 1
        if several.any():
            rows[several.repeat(sizes)] = np.concatenate([self.members[number] for number in numbers[several].tolist()])
        return rows, sizes

    def without(self, removed: np.ndarray) -> "KnownGroups":
        """The groups of the other reports, ``removed (n,)`` bool; the later ones move up."""
        _, first, which = np.unique(self.group[~removed], return_index=True, return_inverse=True)
        return KnownGroups.of(first[which])

    def grown(self, number: int) -> "KnownGroups":
        """The groups with ``number`` more reports, each a group of its own."""
        first = len(self.group)
        size = np.append(self.size, np.ones(number, dtype=self.size.dtype))
        return self._replace(group=np.append(self.group, np.arange(first, first + number)), size=size)


class GrowingGroups:
    """The groups that links form, as the reports come in one after the other.

    A link counts as known as soon as both of its reports exist: exports seldom say when it was made. So groups that
    only a later report connects are still separate, but a link that a triager made weeks later counts too early.
    """

    def __init__(self, links: np.ndarray, num_reports: int) -> None:
        later = links.max(axis=0, initial=-1)
        order = np.argsort(later, kind="stable")
        self._links = links[:, order].T.tolist()
        self._later = later[order]
        self._num_reports = num_reports
        self._used = 0
        self._forget()

    def before(self, row: int) -> KnownGroups:
        """The groups among the reports before a row; valid until the next call, and fast if rows ascend."""
        num_known = int(np.searchsorted(self._later, row))
        if num_known < self._used:
            self._forget()
        for first, second in self._links[self._used : num_known]:
            self._join(int(self._group[first]), int(self._group[second]))
        self._used = num_known
        return KnownGroups(self._group[:row], self._members, self._size[:row])

    def _forget(self) -> None:
        self._group = np.arange(self._num_reports)
        self._size = np.ones(self._num_reports, dtype=np.int64)
        self._members: dict[int, np.ndarray] = {}
        self._used = 0

    def _join(self, first: int, second: int) -> None:
        if first == second:
            return
        master, joined = min(first, second), max(first, second)
        moved = self._members.pop(joined, np.array([joined]))
        self._group[moved] = master
        self._size[master] += len(moved)
        self._size[joined] = 0
        self._members[master] = np.union1d(self._members.get(master, [master]), moved)


class QueryScores:
    """Scores of the first n reports of a store for one query: cosine, and BM25 of each kind of terms.

    Only an index without replaced or removed reports can leave out those after the first n.

    Args:
        store: The stored reports.
        query: One report.
        groups: The groups among the first n reports. Other reports are neither searched nor counted in word statistics.
        rough: Approximate cosines of the n reports, if they are known already.
        vector: Waits for the query's vector ``(D,)``, if it is still being computed; called in another thread too.
            None takes that of ``query``.
        words: The query's terms of each kind of ``TERM_KINDS``, if they are known already; an attribute, too.

    Attributes:
        count: The number n.
        vector: Returns the query's vector ``(D,)``.
        is_waiting: Whether ``vector`` may have to wait.
    """

    def __init__(
        self,
        store: FeatureStore,
        query: ReportFeatures,
        groups: KnownGroups,
        rough: RoughScores | None = None,
        vector: Callable[[], np.ndarray] | None = None,
        words: Mapping[str, TermQuery] | None = None,
    ) -> None:
        self.store = store
        self.query = query
        self.groups = groups
        self.count = count = len(groups.group)
        self.words = words or {kind: index.query(query.terms[kind][0], count) for kind, index in store.terms.items()}
        self.vector = vector or (lambda: query.vectors[0])
        self.is_waiting = vector is not None
        self._rough = rough

    def __call__(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Scores of some reports, ``(R,)``; ``name`` is ``dense`` or a kind of ``TERM_KINDS``."""
        if name == "dense":
            return self.store.vectors.cosines(rows, self.vector())
        return self.words[name].scores(rows)

    def rough(self, name: str) -> RoughScores:
        """Approximate scores of all reports; ``name`` is ``dense`` or a kind of ``TERM_KINDS``."""
        if name != "dense":
            return self.words[name].rough
        if self._rough is None:
            self._rough = self.store.vectors.rough_cosines(self.vector(), self.count)
        return self._rough

    def highest(self, name: str, allowed: np.ndarray | None) -> Shortlist:
        """The ``DEPTHS`` reports with the highest scores; by words, only those that share one with the query."""
        return self.rough(name).highest(DEPTHS[name], allowed, above=-np.inf if name == "dense" else 0.0)

    @cached_property
    def hub(self) -> float:
        """The cosine of the query with the mean of all vectors."""
        return float((self.vector()[None] @ self.store.mean_vector(self.count))[0])

    @cached_property
    def of_component(self) -> np.ndarray:
        """The reports of the query's component, ascending; none where it has none."""
        code = self.query.columns["component"][0]
        # A component that a stored report introduced later has a code here, but none in an index of the reports before.
        if code < 0:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self.store["component"][: self.count] == code)


class Compared(NamedTuple):
    """Exact scores of some reports."""

    rows: np.ndarray  # ``(R,)`` the reports, ascending
    dense: np.ndarray  # ``(R,)`` their cosines
    hub: np.ndarray  # ``(R,)`` their cosines with the mean of all vectors
    terms: Mapping[str, SharedTerms]  # what they share with the query, by kind of ``TERM_KINDS``


class FirstStage(NamedTuple):
    """The candidates of a query, those with the highest sum first."""

    group: np.ndarray  # ``(C,)`` groups
    row: np.ndarray  # ``(C,)`` the report of each group with the highest sum
    # ``(M,)`` the reports of the first group that are candidates, ascending, those of the second, and so on
    member: np.ndarray
    sizes: np.ndarray  # ``(C,)`` number of reports of each group in ``member``
    sums: np.ndarray  # ``(C,)`` the highest sums, descending, see ``find_candidates``
    compared: Compared  # exact scores of these reports and others
    scores: QueryScores  # scores of reports for the query

    @property
    def members(self) -> list[np.ndarray]:
        """The reports of each group that are candidates, ascending, C arrays."""
        return np.split(self.member, np.cumsum(self.sizes)[:-1]) if len(self.sizes) else []


def find_candidates(scores: QueryScores, allowed: np.ndarray | None = None, max_groups: int = MAX_GROUPS) -> FirstStage:
    """Finds the groups with the most similar vectors, the most shared words, and the latest of the same component.

    Those with the highest sums are chosen, where dates weigh more than in the sum that orders them; a group has the
    sums of its best reports. ``allowed (n,)`` bool limits the candidates; None for all.
    """
    # In another thread, which waits for the vector while this one compares words.
    nearest = THREADS.submit(scores.highest, "dense", allowed) if scores.is_waiting else None
    shortlists = {kind: scores.highest(kind, allowed) for kind in WORDS}
    is_found = np.zeros(scores.count, dtype=bool)
    # The latest reports of the query's component, or of all if no report has its component.
    latest = scores.of_component if allowed is None else scores.of_component[allowed[scores.of_component]]
    if not len(latest):
        latest = np.arange(scores.count) if allowed is None else np.flatnonzero(allowed)
    is_found[latest[max(len(latest) - DEPTHS["recent"], 0) :]] = True
    shortlists["dense"] = scores.highest("dense", allowed) if nearest is None else nearest.result()
    is_found[np.concatenate([shortlist.certain for shortlist in shortlists.values()])] = True
    is_likely = is_found.copy()
    is_likely[np.concatenate([shortlist.possible for shortlist in shortlists.values()])] = True
    rows = _drop_low_sums(scores, np.flatnonzero(is_likely), is_found, max_groups)
    # Some have a high sum, but their exact scores decide whether any kind of retrieval finds them.
    is_likely[:] = False
    is_likely[rows] = ~is_found[rows]
    for name, shortlist in shortlists.items():
        if is_likely[shortlist.possible].any():
            is_found[shortlist.rows(partial(scores, name))] = True
    return _best_groups(scores, rows[is_found[rows]], allowed, max_groups)


def _drop_low_sums(scores: QueryScores, rows: np.ndarray, is_found: np.ndarray, max_groups: int) -> np.ndarray:
    """Drops the groups that, by the bounds of their reports' sums, cannot be among the ``max_groups`` that are chosen.

    ``rows (R,)`` are the reports, ascending; ``is_found (n,)`` bool says which reports are certainly candidates.
    """
    group = scores.groups.group[rows]
    is_likely = np.zeros(scores.count, dtype=bool)
    is_likely[group] = True
    numbers = np.flatnonzero(is_likely)
    if len(numbers) <= max_groups:
        return rows
    rough = {name: scores.rough(name) for name in ("dense", *SUMMED_WORDS)}
    _, sums = quick_sums(scores, rows, {name: one.values[rows] for name, one in rough.items()})
    error = np.full(len(rows), WEIGHTS["dense"] * rough["dense"].error + ROUNDING)
    for kind in SUMMED_WORDS:
        share = max(rough[kind].most - 1, 1 - rough[kind].least)
        error += WEIGHTS[kind] * share / max(scores.words[kind].copy_score, MIN_COPY_SCORE) * rough[kind].values[rows]
    lowest = np.full(scores.count, -np.inf)
    np.maximum.at(lowest, group, np.where(is_found[rows], sums - error, -np.inf))
    is_likely[:] = False
    is_likely[group[sums + error >= np.partition(lowest[numbers], -max_groups)[-max_groups]]] = True
    return np.asarray(rows[is_likely[group]])


def _best_groups(scores: QueryScores, rows: np.ndarray, allowed: np.ndarray | None, max_groups: int) -> FirstStage:
    """Chooses and orders groups of some reports, ``rows`` ascending, which are all that are found of these groups."""
    groups, count = scores.groups, scores.count
    is_compared = np.zeros(count, dtype=bool)
    is_compared[groups.group[rows]] = True
    member, _ = groups.members_of(np.flatnonzero(is_compared))
    is_compared[:] = False
    is_compared[member if allowed is None else member[allowed[member]]] = True
    compared = compare(scores, np.flatnonzero(is_compared))
    position = np.searchsorted(compared.rows, rows)
    values = {kind: compared.terms[kind].scores[position] for kind in SUMMED_WORDS}
    sums, choosing = quick_sums(scores, rows, values | {"dense": compared.dense[position]})
    order = np.argsort(-sums, kind="stable")
    numbers, first, position = np.unique(groups.group[rows[order]], return_index=True, return_inverse=True)
    highest = np.full(len(numbers), -np.inf)
    np.maximum.at(highest, position, choosing[order])
    chosen = order[np.sort(first[np.argsort(-highest, kind="stable")[:max_groups]])]
    group = groups.group[rows[chosen]]
    member, sizes = groups.members_of(group)
    if allowed is not None:
        is_allowed = allowed[member]
        sizes = np.bincount(np.repeat(np.arange(len(sizes)), sizes)[is_allowed], minlength=len(sizes))
        member = member[is_allowed]
    return FirstStage(group, rows[chosen], member, sizes, sums[chosen], compared, scores)


def compare(scores: QueryScores, rows: np.ndarray) -> Compared:
    """Compares the query with some reports, ``(R,)``, ascending."""
    dense, hub = scores.store.vectors.cosines(rows, scores.vector(), scores.store.mean_vector(scores.count))
    terms = {kind: scores.words[kind].compare(rows) for kind in TERM_KINDS}
    return Compared(rows, dense, hub, terms)


def quick_sums(scores: QueryScores, rows: np.ndarray, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """The sums that order some reports, and those that choose them, ``(R,) -> (2, R)``.

    ``values`` are their cosines, ``dense``, and BM25 by kind of ``SUMMED_WORDS``, each ``(R,)`` float32.
    """
    store, query = scores.store, scores.query
    total = WEIGHTS["dense"] * values["dense"]
    for kind in SUMMED_WORDS:
        total = total + WEIGHTS[kind] * values[kind] / max(scores.words[kind].copy_score, MIN_COPY_SCORE)
    for field in ("component", "product"):
        code = query.columns[field][0]
        total = total + WEIGHTS[field] * ((code >= 0) & (store[field][rows] == code))
    days = np.abs(query.columns["day"][0] - store["day"][rows])
    # Without dates, rows count as days.
    distance = np.log1p(np.where(np.isnan(days), store.num_since(rows, scores.count), days))
    return np.asarray(total - np.outer([WEIGHTS["recency"], CHOOSING_RECENCY], distance))
