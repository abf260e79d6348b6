"""BM25 over texts that are added one after the other.

The scores are those of bm25s (method ``lucene``), equal to the last bit. bm25s weighs every word of every text once,
and would have to do so again after each text that is added, because a weight depends on how many texts there are and
how long they are. Here counts are stored and weighed for each query: a text is found the moment it is added, and a
replay of the tracker's history can leave out the texts that did not exist yet.
"""

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from gedbd.retrieval.growing import GrowingArray
from gedbd.retrieval.postings import Postings, length_norm

TAIL = 512  # texts in the small part before it is merged into the large one


class State(NamedTuple):
    """What an index holds at one time; it is replaced, never changed.

    Attributes:
        lengths: ``(N,)`` how many terms each text has.
        num_texts: How many of the texts exist, the removed ones left out.
        num_terms: How many terms these have in all.
        parts: The postings of all texts: read from a file, merged since, and the latest.
        removed: The postings of the removed texts, which are in ``parts`` too.
    """

    lengths: np.ndarray
    num_texts: int
    num_terms: float
    parts: tuple[Postings, Postings, Postings]
    removed: Postings

    @property
    def mean(self) -> float:
        """The mean length of the texts; a little above 0 where all are empty."""
        return max(self.num_terms / max(self.num_texts, 1), 1e-9)

    def frequency(self, terms: np.ndarray, before: int | None) -> np.ndarray:
        """How many of the texts contain each of some terms."""
        stored = sum(part.sizes(terms, before) for part in self.parts)
        return np.asarray(stored - self.removed.sizes(terms, None))

    def until(self, before: int | None) -> tuple["State", int | None]:
        """The state, with count and mean of the first ``before`` texts; and None if these are all."""
        if before is None or before >= len(self.lengths):
            return self, None
        return self._replace(num_texts=before, num_terms=float(self.lengths[:before].sum(dtype=np.float64))), before


class InvertedIndex:
    """Counts of terms by text. Texts are numbered 0..N-1 in the order in which they were added.

    Recent texts are kept in a small part, which is merged into a larger one when it has ``TAIL`` of them or a hundredth
    of those. A first part may come from a file, and stays as it is. While one thread adds, others may ask: they see all
    of an addition or nothing.
    """

    def __init__(self) -> None:
        nothing = Postings.of({}, np.empty(0, dtype=np.float32), 1.0)
        self._lengths = GrowingArray(np.empty(0, dtype=np.float32))
        self._num_fixed = 0  # texts in the first part
        self._state = State(self._lengths.filled, 0, 0.0, (nothing, nothing, nothing), nothing)
        self._tail: dict[int, np.ndarray] = {}  # the texts of the small part by number

    def __len__(self) -> int:
        return len(self._state.lengths)

    def __copy__(self) -> "InvertedIndex":
        """An index to which texts can be added without changing this one."""
        other = self.__class__.__new__(self.__class__)
        other.__dict__.update(self.__dict__)
        other._lengths = copy(self._lengths)
        other._tail = self._tail.copy()
        return other

    def add(self, texts: Sequence[np.ndarray]) -> None:
        """Adds texts at the end.

        Args:
            texts: The numbers of their terms in order, each ``(L,)`` int32; a term has the same number in all texts.
        """
        state = self._state
        fresh = np.array([len(text) for text in texts], dtype=np.float32)
        self._tail |= dict(enumerate(texts, start=len(state.lengths)))
        self._lengths.extend(fresh)
        grown = state._replace(
            lengths=self._lengths.filled,
            num_texts=state.num_texts + len(texts),
            num_terms=state.num_terms + float(fresh.sum(dtype=np.float64)),
        )
        self._state = grown._replace(parts=self._parts_with_tail(grown))

    def _parts_with_tail(self, state: State) -> tuple[Postings, Postings, Postings]:
        """The parts of a state with the tail, which is merged into the second one if it is long."""
        lengths, mean = state.lengths, state.mean
        fixed, large, _ = state.parts
        small = Postings.of(self._tail, lengths, mean)
        if len(self._tail) >= max(TAIL, (len(lengths) - self._num_fixed) // 100):
            large = large.joined(small, lengths, mean)
            small = Postings.of({}, lengths, mean)
            self._tail = {}
        return fixed, large, small

    def scores(self, terms: np.ndarray, before: int | None = None) -> np.ndarray:
        """BM25 of texts for a query.

        sum over the query's terms t of log(1 + (n - df + .5) / (df + .5)) * tf / (tf + K1 (1 - B + B l / mean l)).

        Args:
            terms: ``(L,)`` numbers of the query's terms, repeated as in its text; unknown ones score nothing.
            before: Score and count only the first ``before`` texts, as if the others did not exist. None for all.

        Returns:
            ``(before,)`` float32, 0 or above.
        """
        state, before = self.until(before)
        lengths = state.lengths[:before]
        total = np.zeros(len(lengths), dtype=np.float32)
        if not len(lengths) or not len(terms):
            return total
        distinct, places = np.unique(terms, return_inverse=True)
        idf = idf_of(state.frequency(distinct, before), state.num_texts).astype(np.float32)
        norm = length_norm(lengths, state.mean)
        for part in state.parts:
            found = part.counts_of(distinct, before)
            weights = np.repeat(idf, found.sizes) * (found.values / (norm[found.rows] + found.values))
            ends = np.cumsum(found.sizes)
            runs = [slice(end - size, end) for end, size in zip(ends.tolist(), found.sizes.tolist(), strict=True)]
            for place in places.tolist():
                # Word by word in single precision, in the order of the query's words: the sums of bm25s.
                run = runs[place]
                np.add.at(total, found.rows[run], weights[run].astype(np.float32))
        return total

    def self_score(self, terms: np.ndarray, before: int | None = None) -> float:
        """The score of a stored copy of the query, which no text of its length exceeds with the query's words."""
        state, before = self.until(before)
        if not state.num_texts or not len(terms):
            return 0.0
        distinct, times = np.unique(terms, return_counts=True)
        idf = idf_of(state.frequency(distinct, before), state.num_texts)
        norm = length_norm(np.array([len(terms)]), state.mean)
        return float((times * idf * times / (times + norm)).sum())

    def frequency(self, terms: np.ndarray, before: int | None = None) -> np.ndarray:
        """How many of the texts contain each of some distinct terms, ``(T,) -> (T,)``."""
        state, before = self.until(before)
        return state.frequency(terms, before)

    def until(self, before: int | None) -> tuple[State, int | None]:
        """The state with the first ``before`` texts only, see ``State.until``."""
        return self._state.until(before)


def idf_of(frequency: np.ndarray, count: int) -> np.ndarray:
    """Inverse document frequency of terms that so many of ``count`` texts contain, as Lucene defines it."""
    return np.asarray(np.log(1 + (count - frequency + 0.5) / (frequency + 0.5)))
