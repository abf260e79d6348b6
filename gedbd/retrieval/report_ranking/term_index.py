"""An inverted index of reports, which can be edited and deleted."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gedbd.retrieval.growing_arrays import GrowingArray, RowMap, TermLists
from gedbd.retrieval.inverted_index import CommonTerms, IndexState, InvertedIndex, Postings, idf_of, length_norm
from gedbd.retrieval.report_ranking.vector_table import RoughScores

ROUNDING = 1e-4  # bounds the relative error of a rough score by rounding to single precision
BLOCK = 4096  # texts whose scores are computed at once
MIN_TABLE_SIZE = 1 << 13  # minimum size of the hash table of a query's terms, a power of 2


class TermQuery:
    """BM25 of the texts of an index for one query. Results are cached.

    Args:
        index: The index; texts that are added later are not found.
        state: Its content, see ``IndexState.until``.
        before: Find and count only the first ``before`` texts; None for all.
        terms: ``(T,)`` the distinct terms, ascending, ``(L,)`` the place there of each term of the text, and ``(T,)``
            how often each occurs: 7 3 7 are 3 and 7, at 1 0 1, once and twice. Unknown terms score nothing.
        frequency: ``(T,)`` how many of the texts contain each.
        ranges: Where the rows of each begin and end in each of ``IndexState.parts``, see ``Postings.ranges``.

    Attributes:
        own: ``(T,)`` the distinct terms, and ``order (L,)``, see ``terms``.
        frequency: ``(T,)``, see above.
        idf: ``(T,)``, see ``idf_of``.
    """

    def __init__(
        self,
        index: "TermIndex",
        state: IndexState,
        before: int | None,
        terms: tuple[np.ndarray, np.ndarray, np.ndarray],
        frequency: np.ndarray,
        ranges: Sequence[tuple[np.ndarray, np.ndarray]] = (),
    ) -> None:
        self._lists, self._rows, self._common = index.lists, index.rows, index.common
        self._state, self._before = state, before
        self.own, self.order, self._times = terms
        self.frequency = frequency
        self._ranges = ranges
        self.idf = idf_of(self.frequency, state.num_texts)
        # The score of a text is the sum of the weights times the saturation of the terms.
        self._weights = (self.idf * self._times).astype(np.float32)

    @cached_property
    def copy_score(self) -> float:
        """The score of a stored copy of the query, which no text of its length exceeds with the query's words."""
        if not self._state.num_texts or not len(self.order):
            return 0.0
        norm = length_norm(np.array([len(self.order)]), self._state.mean)
        return float((self._times * self.idf * self._times / (self._times + norm)).sum())

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """BM25 of some texts, ``(R,)`` float32, to the bit that of ``InvertedIndex.scores``."""
        blocks = [rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK)]
        return np.concatenate([np.empty(0, dtype=np.float32), *(self.compare(block).scores for block in blocks)])

    def compare(self, rows: np.ndarray) -> "SharedTerms":
        """What the query shares with some texts, ``(R,)``."""
        places = self._rows.places(rows)
        where, sizes = self._lists.find(places)
        hits, own = self._find_shared(self._lists.terms.take(where))
        # How many hits there are up to each text's last term, less those up to the last one of the text before.
        number = np.diff(np.searchsorted(hits, np.cumsum(sizes)), prepend=0)
        counts = self._lists.counts.take(where[hits])
        norm = length_norm(self._state.lengths[places], self._state.mean)
        return SharedTerms(self, sizes, number, own, counts, norm)

    @cached_property
    def rough(self) -> RoughScores:
        """Scores of all texts by the saturation that was computed when their postings were made."""
        rough = self._sum_terms()
        if self._common is not None:
            is_common = self._common.contain(self.own)
            self._common.add_scores(self.own[is_common], self._weights[is_common], rough)
        # The smallest and the largest ratio of a score to a rough one: where texts are 3% longer on average than when
        # the saturation was computed, scores are 0 to 3% higher.
        ratios = [1.0, *(self._state.mean / part.mean for part in self._state.parts if len(part.rows))]
        return RoughScores(
            self._rows.in_rows(rough)[: self._before], min(ratios) * (1 - ROUNDING), max(ratios) * (1 + ROUNDING)
        )

    def _sum_terms(self) -> np.ndarray:
        """Scores of each text by the query's terms, except common ones, ``(N,)`` float32."""
        all_terms = np.ones(len(self.own), dtype=bool)
        is_rare = all_terms if self._common is None else ~self._common.contain(self.own)
        total = np.zeros(len(self._state.lengths), dtype=np.float32)
        chosen = (is_rare, all_terms, all_terms)
        for part, (starts, ends), used in zip(self._state.parts, self._ranges, chosen, strict=True):
            rows, values = part.runs(part.saturation, starts[used], ends[used])
            if len(rows):
                weights = self._weights[used].repeat((ends - starts)[used])
                total += np.bincount(rows, values * weights, len(total))
        return total

    def _find_shared(self, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Finds which of the terms of texts, ``(P,)``, are in the query.

        Returns:
            ``(H,)`` places in ``terms``, ascending, and ``(H,)`` places in ``own`` of the same terms. No text has the
            query's unknown terms, which are below 0.
        """
        if not len(self.own):
            nothing = np.empty(0, dtype=np.int64)
            return nothing, nothing
        # At most one of the query's terms has the last bits of a text's term: only this one need be compared.
        likely = self._hash_table.take(terms & np.int32(len(self._hash_table) - 1))
        hits = np.flatnonzero(self.own.take(likely) == terms)
        return hits, likely[hits]

    @cached_property
    def _hash_table(self) -> np.ndarray:
        """A hash table by the last bits of a term: its place in ``own``, or any place, 0, if there is none."""
        size = MIN_TABLE_SIZE
        while len(set((self.own & (size - 1)).tolist())) < len(self.own):
            size *= 2
        table = np.zeros(size, dtype=np.int64)
        table[self.own & (size - 1)] = np.arange(len(self.own))
        return table


class TermIndex(InvertedIndex):
    """An inverted index that can also score some texts alone, and whose texts can be replaced and removed.

    Texts have rows 0..N-1. Removed and replaced texts do not affect any score, to the bit.

    Attributes:
        common: The common terms of the first texts, if these are in files.
        lists: The distinct terms of each text.
        rows: Maps rows to the places of their texts. A replaced text is removed, and the new one gets another place.
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

    def as_arrays(self) -> tuple[dict[str, np.ndarray], float]:
        """The arguments of ``of_arrays``, for an index to which texts were only added."""
        state = self._state
        _, large, small = state.parts
        postings = large.joined(small, state.lengths, state.mean)
        sizes = np.diff(postings.starts)
        common = CommonTerms.chosen(sizes, len(state.lengths))  # places in ``postings.terms``
        saturation = np.zeros((len(common), len(state.lengths)), dtype=np.float32)
        for row, place in enumerate(common.tolist()):
            run = slice(postings.starts[place], postings.starts[place + 1])
            saturation[row, postings.rows[run]] = postings.saturation[run]
        starts = np.concatenate([np.zeros(1, dtype=np.int64), self.lists.ends.filled])
        arrays = {
            "lengths": state.lengths,
            "list starts": starts,
            "list terms": self.lists.terms.filled,
            "list counts": self.lists.counts.filled,
            "terms": postings.terms,
            "starts": postings.starts,
            "rows": postings.rows,
            "saturation": postings.saturation,
            "common terms": postings.terms[common],
            "common saturation": saturation,
        }
        return arrays, state.mean

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

    def remove(self, places: np.ndarray) -> None:
        """Excludes the texts in some places from all counts."""
        state = self._state
        where, _ = self.lists.find(places)
        terms, counts = self.lists.terms.take(where), self.lists.counts.take(where)
        texts = np.split(np.repeat(terms, counts.astype(np.int64)), np.cumsum(state.lengths[places])[:-1].astype(int))
        removed_postings = Postings.of(dict(zip(places.tolist(), texts, strict=True)), state.lengths, state.mean)
        self._state = state._replace(
            num_texts=state.num_texts - len(places),
            num_terms=state.num_terms - float(state.lengths[places].sum(dtype=np.float64)),
            removed=state.removed.joined(removed_postings, state.lengths, state.mean),
        )

    def query(self, terms: np.ndarray, before: int | None = None) -> TermQuery:
        """A query of some terms, ``(L,)``, for the first ``before`` texts; None for all."""
        state, before = self.until(before)
        own, order, times = np.unique(terms, return_inverse=True, return_counts=True)
        ranges = [part.ranges(own, before) for part in state.parts]
        return TermQuery(self, state, before, (own, order, times), state.frequency(own, ranges), ranges)

    def until(self, before: int | None) -> tuple[IndexState, int | None]:
        """The state with the first texts only; ValueError if texts were replaced or removed."""
        if self.rows.is_identity:
            return self._state.until(before)
        if before is not None and before < len(self):
            raise ValueError("an index with replaced or removed texts cannot leave out the last ones")
        return self._state, None


class OwnQuery(TermQuery):
    """A text of an index as a query, see ``OwnQueries``."""

    def _sum_terms(self) -> np.ndarray:
        from scipy.sparse import csc_array

        ((starts, ends),) = self._ranges
        (part,) = self._state.parts
        rows, values = part.runs(part.saturation, starts, ends)
        columns = np.zeros(len(starts) + 1, dtype=np.int32)
        np.cumsum(ends - starts, out=columns[1:])
        shape = (len(self._state.lengths), len(starts))
        return np.asarray(csc_array((values, rows, columns), shape=shape) @ self._weights)


class OwnQueries:
    """The texts of an index as queries of the texts before each; all were added at once, and none was replaced."""

    def __init__(self, index: TermIndex) -> None:
        self._index = index
        state, _ = index.until(None)
        postings = max(state.parts, key=lambda part: len(part.rows))
        self._state = state._replace(parts=(postings,))
        self._bounds = np.append(0, index.lists.ends.filled)
        self._num_terms = np.append(0, np.cumsum(state.lengths, dtype=np.float64))
        # Postings are sorted by term and then by row, the lists of texts by row and then by term. The rows before a
        # text end where its own posting is.
        self._ends = np.argsort(postings.rows, kind="stable").astype(np.int32)
        starts = postings.starts[:-1].astype(np.int32)
        self._starts = starts.repeat(np.diff(postings.starts))[self._ends]

    def __call__(self, row: int, terms: np.ndarray) -> TermQuery:
        """The text in a row, whose terms in order are ``(L,)``: the same as ``TermIndex.query(terms, row)``."""
        lists = self._index.lists
        run = slice(*self._bounds[row : row + 2].tolist())
        own = lists.terms.filled[run]
        distinct = (own, own.searchsorted(terms), lists.counts.filled[run])
        starts, ends = self._starts[run], self._ends[run]
        state = self._state._replace(num_texts=row, num_terms=float(self._num_terms[row]))
        return OwnQuery(self._index, state, row, distinct, ends - starts, [(starts, ends)])


@dataclass(eq=False)
class SharedTerms:
    """The terms of one kind that a query shares with each of R reports."""

    query: TermQuery
    sizes: np.ndarray  # ``(R,)`` how many distinct terms each report has
    number: np.ndarray  # ``(R,)`` how many of them the query has
    places: np.ndarray  # ``(H,)`` places in ``query.own`` of the shared terms, report by report
    counts: np.ndarray  # ``(H,)`` how often the report has each
    norm: np.ndarray  # ``(R,)``, see ``length_norm``

    @cached_property
    def _report_of_term(self) -> np.ndarray:
        """``(H,)`` the number of the report that shares each term."""
        return np.repeat(np.arange(len(self.number)), self.number)

    @cached_property
    def scores(self) -> np.ndarray:
        """BM25 of the reports, ``(R,)`` float32, to the bit that of ``InvertedIndex.scores``."""
        idf = self.query.idf.astype(np.float32)
        # One more column, which stays 0: NumPy would sum a single column in another order.
        weights = np.zeros((len(idf), len(self.number) + 1), dtype=np.float32)
        weights[self.places, self._report_of_term] = idf[self.places] * (
            self.counts / (self.norm[self._report_of_term] + self.counts)
        )
        # Row by row in single precision, in the order of the query's words, as in bm25s.
        return np.asarray(weights[self.query.order].sum(axis=0)[:-1])

    @cached_property
    def weight(self) -> np.ndarray:
        """The sum of the shared terms' idf, ``(R,)``."""
        return np.bincount(self._report_of_term, self.query.idf[self.places], len(self.number))

    @cached_property
    def rarest(self) -> np.ndarray:
        """The highest idf of the shared terms, ``(R,)``; 0 where there is none."""
        rarest = np.zeros(len(self.number))
        np.maximum.at(rarest, self._report_of_term, self.query.idf[self.places])
        return rarest

    def by_report(self) -> list[np.ndarray]:
        """Places in ``query.own`` of the terms that each report shares, ascending, R arrays."""
        return np.split(self.places, np.cumsum(self.number)[:-1]) if len(self.number) else []
