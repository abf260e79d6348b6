"""An inverted index of reports, which can be edited and deleted."""

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gedbd.retrieval.growing_arrays import GrowingArray, RowMap, TermLists
from gedbd.retrieval.inverted_index import CommonTerms, IndexState, InvertedIndex, Postings, idf_of, length_norm

ROUNDING = 1e-4  # more than what rounding to single precision changes in a rough score, as a share
BLOCK = 4096  # texts whose scores are computed at once
NUM_ENDINGS = 1 << 13  # of terms, as numbers in binary


class TermQuery:
    """BM25 of the texts of an index for one query. What is computed once is kept.

    Args:
        index: The index; what is added to it later is not found.
        state: What it holds, see ``IndexState.until``.
        before: Find and count only the first ``before`` texts; None for all.
        order: ``(L,)`` places in ``own`` of the query's terms, in the order of its text.
        own: See below; unknown terms score nothing.
        times: ``(T,)`` how often the query has each.
        frequency: See below.
        means: The mean lengths with which the saturation of the texts was computed.

    Attributes:
        own: ``(T,)`` the distinct terms, ascending.
        frequency: ``(T,)`` how many of the texts contain each.
        idf: ``(T,)``, see ``idf_of``.
    """

    def __init__(
        self,
        index: "TermIndex",
        state: IndexState,
        before: int | None,
        order: np.ndarray,
        own: np.ndarray,
        times: np.ndarray,
        frequency: np.ndarray,
        means: Sequence[float],
    ) -> None:
        self._lists, self._rows, self._common = index.lists, index.rows, index.common
        self._state, self._before = state, before
        self._order, self.own, self._times, self.frequency = order, own, times, frequency
        self.idf = idf_of(frequency, state.num_texts)
        # The score of a text is the sum of the weights times the saturation of the terms.
        self._weights = (self.idf * times).astype(np.float32)
        # The smallest and the largest ratio of a score to a rough one: where texts are 3% longer on average than when
        # the saturation was computed, scores are 0 to 3% higher.
        ratios = [1.0, *(state.mean / mean for mean in means)]
        self._error = min(ratios) * (1 - ROUNDING), max(ratios) * (1 + ROUNDING)
        # Zeros, which the system gives without writing them, unlike other values.
        self._scores = np.zeros(state.num_texts, dtype=np.float32)
        self._is_scored = np.zeros(state.num_texts, dtype=bool)

    @property
    def copy_score(self) -> float:
        """The score of a stored copy of the query, which no text of its length exceeds with the query's words."""
        if not self._state.num_texts or not len(self._order):
            return 0.0
        norm = length_norm(np.array([len(self._order)]), self._state.mean)
        return float((self._times * self.idf * self._times / (self._times + norm)).sum())

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """BM25 of some texts, ``(R,)`` float32, to the bit that of ``InvertedIndex.scores``."""
        fresh = rows[~self._is_scored[rows]]
        for start in range(0, len(fresh), BLOCK):
            block = fresh[start : start + BLOCK]
            self._scores[block] = self._exact(block)
        self._is_scored[fresh] = True
        return np.asarray(self._scores[rows])

    def best(self, depth: int, allowed: np.ndarray | None = None) -> np.ndarray:
        """The texts with the highest scores; of equal scores the older text is taken first.

        Rough scores of all texts, whose error has a bound, choose the texts whose exact scores are computed: what is
        found is what exact scores of all texts would find. Only those near the lowest score need exact ones.

        Args:
            depth: Number of texts to find. Texts that share no term with the query are not found.
            allowed: ``(N,)`` bool, what may be found; None for all.

        Returns:
            ``(R,)`` rows in any order, R up to ``depth``.
        """
        nothing = np.empty(0, dtype=np.int64)
        if not len(self.own) or not depth:
            return nothing
        rough = self._rough if allowed is None else np.where(allowed, self._rough, 0)
        positive = rough[rough > 0]  # most texts share no rare term: equal numbers take long to partition
        if len(positive) <= depth:
            return np.flatnonzero(rough)
        least, most = self._error
        lowest = np.partition(positive, -depth)[-depth]
        rows = np.flatnonzero(rough >= lowest * (least / most))
        # Its exact score is above that of every text whose rough score is ``lowest`` or less, and fewer than ``depth``
        # texts have a higher one.
        is_certain = rough[rows] > lowest * (most / least)
        certain, possible = rows[is_certain], rows[~is_certain]
        num_left = depth - len(certain)
        if len(possible) > num_left:
            possible = possible[np.argsort(-self.scores(possible), kind="stable")][:num_left]
        return np.concatenate([certain, possible])

    def bounds(self, rows: np.ndarray) -> np.ndarray:
        """What the scores of some texts are at least and at most, ``(2, R)``; takes less time than ``scores``."""
        return np.outer(self._error, self._rough[rows])

    @cached_property
    def _rough(self) -> np.ndarray:
        """Scores of all texts by the saturation that was computed when their postings were made, ``(N,)``."""
        from scipy.sparse import csc_array

        nothing = np.zeros(len(self.own), dtype=bool)
        is_common = nothing if self._common is None else np.isin(self.own, self._common.terms)
        runs, weights = [], []
        for part, left_out in zip(self._state.parts, (is_common, nothing, nothing), strict=True):
            runs.append(part.runs_of(part.saturation, self.own[~left_out], self._before))
            weights.append(self._weights[~left_out])
        rows, values, sizes = zip(*runs, strict=True)
        # A column for each part and term: the product with the terms' weights sums the scores of all texts.
        ends = np.cumsum(np.concatenate([np.zeros(1, dtype=np.int64), *sizes])).astype(np.int32)
        entries: Any = np.concatenate(values)
        shape = (len(self._state.lengths), len(ends) - 1)
        columns = csc_array((entries, np.concatenate(rows), ends), shape=shape)
        rough = np.asarray(columns @ np.concatenate(weights))
        if self._common is not None:
            self._common.add_scores(self.own[is_common], self._weights[is_common], rough)
        return self._rows.in_rows(rough)[: self._before]

    def _exact(self, rows: np.ndarray) -> np.ndarray:
        places = self._rows.places(rows)
        where, sizes = self._lists.find(places)
        hits, which = find_shared(self.own, self._lists.terms.take(where))
        of = np.searchsorted(np.cumsum(sizes), hits, side="right")
        counts = self._lists.counts.take(where[hits])
        norm = length_norm(self._state.lengths[places], self._state.mean)[of]
        idf = self.idf.astype(np.float32)
        weights = np.zeros((len(self.own), len(rows)), dtype=np.float32)
        weights[which, of] = idf[which] * (counts / (norm + counts))
        total = np.zeros(len(rows), dtype=np.float32)
        # Added one by one in single precision, in the order of the query's words: the sums of bm25s.
        for place in self._order.tolist():
            total += weights[place]
        return total


def find_shared(own: np.ndarray, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the terms of texts are those of a query.

    Args:
        own: ``(T,)`` the query's distinct terms, ascending. Those below 0 are unknown, and no text has them.
        terms: ``(P,)`` terms of texts.

    Returns:
        ``(H,)`` places in ``terms``, ascending, and ``(H,)`` places in ``own`` of the same terms.
    """
    # Few terms end in the same bits as one of the query, and only these are looked for: to search ``own`` for all of
    # them would take five times as long.
    is_own = np.zeros(NUM_ENDINGS, dtype=bool)
    is_own[own & (NUM_ENDINGS - 1)] = True
    likely = np.flatnonzero(is_own.take(terms & (NUM_ENDINGS - 1)))
    places = own.searchsorted(terms[likely])
    is_shared = own.take(places, mode="clip") == terms[likely] if len(own) else np.empty(0, dtype=bool)
    return likely[is_shared], places[is_shared]


SHARED = ("shared", "rarest shared", "share of query", "share of report")


class TermIndex(InvertedIndex):
    """An inverted index that can also score some texts alone, and whose texts can be replaced and removed.

    Texts have rows 0..N-1. An index with replaced or removed texts answers, to the bit, as one that never had them.

    Attributes:
        common: The common terms of the first texts, if these are in files.
        lists: The distinct terms of each text.
        rows: Where the texts of the rows are. A text that is replaced is removed, added and gets another place here.
    """

    def __init__(self) -> None:
        super().__init__()
        nothing = np.zeros(1, dtype=np.int64)
        self.lists = TermLists(nothing, np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32))
        self.rows = RowMap()
        self.common: CommonTerms | None = None

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray], mean: float) -> "TermIndex":
        """An index of texts that are in arrays, which may be files.

        Args:
            arrays: ``lengths (N,)``; ``list starts``, ``list terms`` and ``list counts`` of ``TermLists``; ``terms``,
                ``starts``, ``rows`` and ``saturation`` of ``Postings``; ``common terms`` and ``common saturation`` of
                ``CommonTerms``.
            mean: The mean length with which the saturation was computed.
        """
        index = cls()
        lengths = arrays["lengths"]
        index._lengths = GrowingArray.copy_of(lengths)
        index._num_fixed = len(lengths)
        index.lists = TermLists(arrays["list starts"], arrays["list terms"], arrays["list counts"])
        if len(arrays["common terms"]):
            index.common = CommonTerms(arrays["common terms"], arrays["common saturation"])
        counts = np.empty(0, dtype=np.float32)  # those of the lists are enough
        fixed = Postings(arrays["terms"], arrays["starts"], arrays["rows"], counts, arrays["saturation"], mean)
        num_terms = float(lengths.sum(dtype=np.float64))
        _, large, small = index._state.parts
        index._state = index._state._replace(
            lengths=lengths, num_texts=len(lengths), num_terms=num_terms, parts=(fixed, large, small)
        )
        return index

    def __len__(self) -> int:
        return self._state.num_texts

    def __copy__(self) -> "TermIndex":
        other = super().__copy__()
        assert isinstance(other, TermIndex)
        other.lists = copy(self.lists)
        return other

    def add(self, texts: Sequence[np.ndarray]) -> None:
        """Adds texts at the end; see ``InvertedIndex.add``."""
        self.lists.add(texts)
        super().add(texts)

    def terms_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The distinct terms of some texts, one text after the other, and how many each has, ``(R,)``."""
        where, sizes = self.lists.find(self.rows.places(rows))
        return self.lists.terms.take(where), sizes

    def remove(self, places: np.ndarray) -> None:
        """Leaves the texts in some places out of all counts."""
        state = self._state
        where, _ = self.lists.find(places)
        terms, counts = self.lists.terms.take(where), self.lists.counts.take(where)
        texts = np.split(np.repeat(terms, counts.astype(np.int64)), np.cumsum(state.lengths[places])[:-1].astype(int))
        gone = Postings.of(dict(zip(places.tolist(), texts, strict=True)), state.lengths, state.mean)
        self._state = state._replace(
            num_texts=state.num_texts - len(places),
            num_terms=state.num_terms - float(state.lengths[places].sum(dtype=np.float64)),
            removed=state.removed.joined(gone, state.lengths, state.mean),
        )

    def scores(self, terms: np.ndarray, before: int | None = None) -> np.ndarray:
        """BM25 of all texts; see ``InvertedIndex.scores``."""
        count = len(self) if before is None else min(before, len(self))
        return self.query(terms, before).scores(np.arange(count))

    def query(self, terms: np.ndarray, before: int | None = None) -> TermQuery:
        """A query of some terms, ``(L,)``, for the first ``before`` texts; None for all."""
        state, before = self.until(before)
        own, order, times = np.unique(terms, return_inverse=True, return_counts=True)
        means = [part.mean for part in state.parts if len(part.rows)]
        return TermQuery(self, state, before, order, own, times, state.frequency(own, before), means)

    def until(self, before: int | None) -> tuple[IndexState, int | None]:
        """See ``InvertedIndex.until``."""
        if self.rows.is_identity:
            return self._state.until(before)
        if before is not None and before < len(self):
            raise ValueError("an index with replaced or removed texts cannot leave out the last ones")
        return self._state, None


class SharedTerms(NamedTuple):
    """The terms of one kind that a query shares with each of C reports.

    Attributes:
        query: The query.
        sizes: ``(C,)`` how many distinct terms each report has.
        number: ``(C,)`` how many of them the query has.
        places: Places in ``query.own`` of the shared terms, report by report.
    """

    query: TermQuery
    sizes: np.ndarray
    number: np.ndarray
    places: np.ndarray

    @classmethod
    def of(cls, index: TermIndex, query: TermQuery, rows: np.ndarray) -> "SharedTerms":
        """Compares a query with the texts of an index in some rows."""
        flat, sizes = index.terms_of(rows)
        hits, places = find_shared(query.own, flat)
        # How many hits there are up to each report's last term, less those up to the last one of the report before.
        number = np.diff(np.searchsorted(hits, np.cumsum(sizes)), prepend=0)
        return cls(query, sizes, number, places)

    def by_report(self) -> list[np.ndarray]:
        """Places in ``query.own`` of the terms that each report shares, ascending, C arrays."""
        return np.split(self.places, np.cumsum(self.number)[:-1]) if len(self.number) else []

    def columns(self, kind: str) -> dict[str, np.ndarray]:
        """Features of ``SHARED``: the sum of the shared terms' idf, the rarest one's idf, and shares of either side."""
        idf = self.query.idf
        weight = idf[self.places]
        shares = self.number > 0
        shared = np.bincount(np.repeat(np.arange(len(self.sizes)), self.number), weight, len(self.sizes))
        rarest = np.zeros(len(self.sizes))
        if shares.any():
            rarest[shares] = np.maximum.reduceat(weight, (np.cumsum(self.number) - self.number)[shares])
        nothing = np.full(len(self.sizes), np.nan)
        of_report = np.divide(self.number, self.sizes, out=nothing.copy(), where=self.sizes > 0)
        return {
            f"{kind} shared": shared,
            f"{kind} rarest shared": rarest,
            f"{kind} share of query": shared / idf.sum() if len(self.query.own) else nothing,
            f"{kind} share of report": of_report,
        }
