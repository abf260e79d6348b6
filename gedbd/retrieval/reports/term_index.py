"""BM25 of the reports that are worth scoring: the best ones for a query, and chosen ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gedbd.retrieval.inverted_index import InvertedIndex, State, idf_of
from gedbd.retrieval.postings import Postings, length_norm
from gedbd.retrieval.reports.growing import TermLists
from gedbd.retrieval.reports.row_map import RowMap

ROUNDING = 1e-4  # more than what rounding to single precision changes in a rough score, as a share
BLOCK = 4096  # texts whose scores are computed at once


class TermIndex(InvertedIndex):
    """An inverted index that can also score some texts alone, and whose texts can be replaced and removed.

    Texts have rows 0..N-1. An index with replaced or removed texts answers, to the bit, as one that never had them.

    Attributes:
        lists: The distinct terms of each text.
        rows: Where the texts of the rows are.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lists = TermLists.empty()
        self.rows = RowMap()

    def __len__(self) -> int:
        return self._state.count

    def __copy__(self) -> "TermIndex":
        other = super().__copy__()
        assert isinstance(other, TermIndex)
        other.lists = self.lists.__copy__()
        return other

    def add(self, texts: Sequence[np.ndarray]) -> None:
        """Adds texts at the end; see ``InvertedIndex.add``."""
        self.lists.add(texts)
        self.rows = self.rows.grown(len(texts))
        super().add(texts)

    def terms_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The distinct terms of some texts, one text after the other, and how many each has, ``(R,)``."""
        terms, _, sizes = self.lists.take(self.rows.places(rows))
        return terms, sizes

    def replaced(self, rows: list[int], texts: Sequence[np.ndarray]) -> "TermIndex":
        """An index with other texts in some rows."""
        other = self.__copy__()
        other._remove(self.rows.places(np.array(rows, dtype=np.int64)))
        known = len(self._state.lengths)
        InvertedIndex.add(other, texts)
        other.lists.add(texts)
        other.rows = self.rows.replaced(rows, known)
        return other

    def without(self, removed: np.ndarray) -> "TermIndex":
        """An index without some texts, ``removed (N,)`` bool; later ones move up."""
        other = self.__copy__()
        other._remove(self.rows.places(np.flatnonzero(removed)))
        other.rows = self.rows.without(removed, len(self._state.lengths))
        return other

    def scores(self, terms: np.ndarray, before: int | None = None) -> np.ndarray:
        """BM25 of all texts; see ``InvertedIndex.scores``."""
        count = len(self) if before is None else min(before, len(self))
        return self.scores_of(terms, np.arange(count), before)

    def scores_of(self, terms: np.ndarray, rows: np.ndarray, before: int | None = None) -> np.ndarray:
        """BM25 of some texts, ``(R,)`` float32, to the bit that of ``scores`` among the first ``before`` texts."""
        state, before = self._until(before)
        if not len(rows) or not len(terms):
            return np.zeros(len(rows), dtype=np.float32)
        distinct, order = np.unique(terms, return_inverse=True)
        idf = idf_of(state.frequency(distinct, before), state.count).astype(np.float32)
        blocks = [
            self._block(state, distinct, order, idf, rows[start : start + BLOCK])
            for start in range(0, len(rows), BLOCK)
        ]
        return np.concatenate(blocks)

    def best(
        self, terms: np.ndarray, depth: int, before: int | None = None, allowed: np.ndarray | None = None
    ) -> np.ndarray:
        """The rows with the highest scores, the highest first; of equal scores the older text comes first.

        Rough scores of all texts, which are at most so far from the exact ones, choose the texts whose exact scores are
        computed: what is found is what exact scores of all texts would find.

        Args:
            terms: See ``scores``.
            depth: Number of texts to find. Texts that share no term with the query are not found.
            before: Find and count only the first ``before`` texts.
            allowed: ``(N,)`` bool, what may be found; None for all.

        Returns:
            ``(R,)`` with R up to ``depth``.
        """
        state, before = self._until(before)
        rough = self._rough_scores(state, terms, before)
        if allowed is not None:
            rough = np.where(allowed, rough, 0)
        rows = np.flatnonzero(rough)
        if len(rows) > depth:
            ratios = [state.mean / part.mean for part in state.parts if len(part.rows)]
            # Where texts are 3% longer on average than when the saturation was computed, scores are 0 to 3% higher.
            error = max(1.0, *ratios) / min(1.0, *ratios) * (1 + ROUNDING) / (1 - ROUNDING)
            lowest = np.partition(rough, -depth)[-depth] / error
            rows = np.flatnonzero(rough >= lowest)
        scores = self.scores_of(terms, rows, before)
        return np.asarray(rows[np.argsort(-scores, kind="stable")][:depth])

    def _until(self, before: int | None) -> tuple[State, int | None]:
        if self.rows.is_identity:
            return self._state.until(before)
        if before is not None and before < len(self):
            raise ValueError("an index with replaced or removed texts cannot leave out the last ones")
        return self._state, None

    def _rough_scores(self, state: State, terms: np.ndarray, before: int | None) -> np.ndarray:
        """Scores of all texts by the saturation that was computed when their postings were made, ``(N,)``."""
        from scipy.sparse import csc_array

        distinct, times = np.unique(terms, return_counts=True)
        idf = idf_of(state.frequency(distinct, before), state.count)
        runs = [part.of_terms(distinct, before) for part in state.parts]
        runs = [run for run in runs if len(run.rows)]
        # A column for each part and term: the product with the terms' weights sums the scores of all texts.
        ends = np.cumsum(np.concatenate([np.zeros(1, dtype=np.int64), *(run.sizes for run in runs)]))
        values: Any = np.concatenate([np.empty(0, dtype=np.float32), *(run.saturation for run in runs)])
        rows = np.concatenate([np.empty(0, dtype=np.int32), *(run.rows for run in runs)])
        shape = len(state.lengths), len(distinct) * len(runs)
        weights = np.tile((idf * times).astype(np.float32), len(runs))
        rough = csc_array((values, rows, ends), shape=shape) @ weights
        return rough[:before] if self.rows.place is None else rough[self.rows.place]

    def _block(
        self, state: State, distinct: np.ndarray, order: np.ndarray, idf: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """Scores of some texts; ``order`` is the query's text as places in its distinct terms."""
        places = self.rows.places(rows)
        terms, counts, sizes = self.lists.take(places)
        of = np.repeat(np.arange(len(rows)), sizes)
        which = places_among(distinct, terms)
        shared = np.flatnonzero(which >= 0)
        of, which, counts = of[shared], which[shared], counts[shared]
        norm = length_norm(state.lengths[places], state.mean)[of]
        weights = np.zeros((len(distinct), len(rows)), dtype=np.float32)
        weights[which, of] = idf[which] * (counts / (norm + counts))
        total = np.zeros(len(rows), dtype=np.float32)
        # Added one by one in single precision, in the order of the query's words: the sums of bm25s.
        for place in order.tolist():
            total += weights[place]
        return total

    def _remove(self, places: np.ndarray) -> None:
        """Leaves texts out of all counts."""
        state = self._state
        terms, counts, sizes = self.lists.take(places)
        texts = np.split(np.repeat(terms, counts.astype(np.int64)), np.cumsum(state.lengths[places])[:-1].astype(int))
        gone = Postings.of(dict(zip(places.tolist(), texts, strict=True)), state.lengths, state.mean)
        self._state = state._replace(
            count=state.count - len(places),
            num_terms=state.num_terms - float(state.lengths[places].sum(dtype=np.float64)),
            removed=state.removed.joined(gone, state.lengths, state.mean),
        )


def places_among(distinct: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """The place of each term among some distinct ones, -1 where it is not among them.

    It is looked up by the number of the term: a search among the distinct terms would take five times as long. Terms
    below 0 are unknown, and no stored report has them.
    """
    place_of = np.zeros(int(terms.max(initial=0)) + 1, dtype=np.int32)
    known = np.flatnonzero((distinct >= 0) & (distinct < len(place_of)))
    place_of[distinct[known]] = known + 1
    return np.asarray(place_of[terms] - 1)
