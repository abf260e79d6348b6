"""What a replay asks an index about the terms of the index's own texts, computed for all texts at once."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from gedbd.retrieval.inverted_index import State
from gedbd.retrieval.postings import length_norm
from gedbd.retrieval.reports.term_index import TermIndex
from gedbd.retrieval.reports.term_query import ROUNDING, IndexedTexts, TermQuery


class ReplayedTerms(NamedTuple):
    """The terms of the N texts of an index, and the texts with each of the V terms.

    How many earlier texts contain a term of a text is where the text comes among those with the term: a query need not
    look for it.

    Attributes:
        texts: The texts.
        state: What the index holds.
        starts: ``(N + 1,)``: the distinct terms of text i, ascending, have the places ``starts[i]`` to
            ``starts[i + 1]``.
        terms: ``(P,)`` int32 the terms.
        counts: ``(P,)`` float32, how often the text contains each.
        earlier: ``(P,)`` int32, how many earlier texts contain each.
        total: ``(N + 1,)`` how many terms the texts before each have in all.
        first: ``(V + 1,)``: the texts with term t have the places ``first[t]`` to ``first[t + 1]``.
        rows: ``(P,)`` int32 the texts with the first term, ascending, those with the second, and so on.
        saturation: ``(P,)`` float32, see ``Postings``.
    """

    texts: IndexedTexts
    state: State
    starts: np.ndarray
    terms: np.ndarray
    counts: np.ndarray
    earlier: np.ndarray
    total: np.ndarray
    first: np.ndarray
    rows: np.ndarray
    saturation: np.ndarray

    @classmethod
    def of(cls, index: TermIndex) -> "ReplayedTerms":
        """Those of an index without replaced and removed texts."""
        state, _ = index.until(None)
        where, sizes = index.lists.find(np.arange(len(index)))
        terms, counts = index.lists.terms(where), index.lists.counts(where)
        order = np.argsort(terms, kind="stable")
        number = np.bincount(terms)
        first = _sums(number)
        earlier = np.empty(len(terms), dtype=np.int32)
        # Two texts with term 3 and three with term 5 are 0 1 and 0 1 2.
        earlier[order] = np.arange(len(terms)) - np.repeat(first[:-1], number)
        rows = np.repeat(np.arange(len(index), dtype=np.int32), sizes)[order]
        norm = length_norm(state.lengths, state.mean)[rows]
        saturation = (counts[order] / (norm + counts[order])).astype(np.float32)
        total = _sums(state.lengths.astype(np.int64))
        texts = IndexedTexts(index.lists, index.rows, index.common)
        return cls(texts, state, _sums(sizes), terms, counts, earlier, total, first, rows, saturation)

    def query(self, row: int, terms: np.ndarray) -> TermQuery:
        """Text ``row``, which has some ``terms (L,)`` in this order, as a query for the texts before it."""
        return _ReplayedQuery(self, row, terms)


class _ReplayedQuery(TermQuery):
    """A text of an index as a query for the texts before it, which finds what another ``TermQuery`` finds."""

    def __init__(self, replayed: ReplayedTerms, row: int, terms: np.ndarray) -> None:
        own = slice(*replayed.starts[row : row + 2].tolist())
        self._replayed = replayed
        self._texts = replayed.texts
        self._state = replayed.state._replace(num_texts=row, num_terms=float(replayed.total[row]))
        self._before = row
        self._length = len(terms)
        self.own = replayed.terms[own]
        self._order = np.searchsorted(self.own, terms)
        self._times = replayed.counts[own].astype(np.int64)
        self.frequency = replayed.earlier[own].astype(np.int64)
        self._begin()

    @property
    def _error(self) -> tuple[float, float]:
        """See ``TermQuery``: the saturation was computed with the mean length of all texts."""
        ratio = self._state.mean / self._replayed.state.mean
        return min(1.0, ratio) * (1 - ROUNDING), max(1.0, ratio) * (1 + ROUNDING)

    @cached_property
    def _rough(self) -> np.ndarray:
        """See ``TermQuery``."""
        starts = self._replayed.first[self.own]
        ends = starts + self.frequency
        runs = [slice(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        rows, saturation = (
            np.concatenate([column[:0], *(column[run] for run in runs)])
            for column in (self._replayed.rows, self._replayed.saturation)
        )
        return np.bincount(rows, saturation * np.repeat(self._weights, self.frequency), self._state.num_texts)


def _sums(values: np.ndarray) -> np.ndarray:
    """The sums of the first 0, 1, ... values, ``(N,) -> (N + 1,)``."""
    return np.concatenate([[0], np.cumsum(values)])
