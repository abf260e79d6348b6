"""BM25 over texts that are added one after the other.

The scores are those of bm25s (method ``lucene``), equal to the last bit. bm25s weighs every word of every text once,
and would have to do so again after each text that is added, because a weight depends on how many texts there are and
how long they are. Here counts are stored and weighed for each query: a text is found the moment it is added, and a
replay of the tracker's history can leave out the texts that did not exist yet.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

K1 = 1.5
B = 0.75
TAIL = 512  # texts in the small part before it is merged into the large one


class InvertedIndex:
    """Counts of terms by text. Texts are numbered 0..N-1 in the order in which they were added.

    Recent texts are kept in a small part, which is merged into the large one when it has ``TAIL`` of them or a
    hundredth of all. While one thread adds, others may ask: they see all of an addition or nothing. Replacing or
    removing a text gives another index, which answers, to the bit, as one that never had the old text.
    """

    def __init__(self) -> None:
        self._state = _State(np.empty(0, dtype=np.float32), _Postings.of({}), _Postings.of({}))
        self._tail: dict[int, np.ndarray] = {}  # the texts of the small part by number

    def __len__(self) -> int:
        return len(self._state.lengths)

    def add(self, texts: Sequence[np.ndarray]) -> None:
        """Adds texts at the end.

        Args:
            texts: The numbers of their terms in order, each ``(L,)`` int32; a term has the same number in all texts.
        """
        lengths = np.concatenate([self._state.lengths, _lengths(texts)])
        self._tail |= dict(enumerate(texts, start=len(self)))
        self._state = self._merged(lengths, self._state.large)

    def replaced(self, rows: Sequence[int], texts: Sequence[np.ndarray]) -> "InvertedIndex":
        """An index with other texts in some rows."""
        lengths = self._state.lengths.copy()
        lengths[rows] = _lengths(texts)
        is_old = np.zeros(len(self), dtype=bool)
        is_old[rows] = True
        other = InvertedIndex()
        other._tail = self._tail | dict(zip(rows, texts, strict=True))
        other._state = other._merged(lengths, self._state.large.without(is_old, np.arange(len(self))))
        return other

    def without(self, removed: np.ndarray) -> "InvertedIndex":
        """An index without some texts, ``removed (N,)`` bool; later ones move up."""
        new_row = np.cumsum(~removed) - 1  # without row 1 of 4, rows 0, 2, 3 become 0, 1, 2
        other = InvertedIndex()
        other._tail = {int(new_row[row]): text for row, text in self._tail.items() if not removed[row]}
        large = self._state.large.without(removed, new_row)
        other._state = other._merged(self._state.lengths[~removed], large)
        return other

    def scores(self, terms: np.ndarray, before: int | None = None) -> np.ndarray:
        """BM25 of texts for a query.

        sum over the query's terms t of log(1 + (n - df + .5) / (df + .5)) * tf / (tf + K1 (1 - B + B l / mean l)).

        Args:
            terms: ``(L,)`` numbers of the query's terms, repeated as in its text; unknown ones score nothing.
            before: Score and count only the first ``before`` texts, as if the others did not exist. None for all.

        Returns:
            ``(before,)`` float32, 0 or above.
        """
        state, before = self._until(before)
        lengths = state.lengths[:before]
        total = np.zeros(len(lengths), dtype=np.float32)
        if not len(lengths) or not len(terms):
            return total
        distinct, places = np.unique(terms, return_inverse=True)
        idf = _idf(state.frequency(distinct, before), len(lengths)).astype(np.float32)
        norm = _norm(lengths, lengths)
        for part in (state.large, state.small):
            rows, counts, sizes = part.of_terms(distinct, places, before)
            weights = np.repeat(idf[places], sizes) * (counts / (norm[rows] + counts))
            # Added one by one in single precision, in the order of the query's words: the sums of bm25s.
            np.add.at(total, rows, weights.astype(np.float32))
        return total

    def self_score(self, terms: np.ndarray, before: int | None = None) -> float:
        """The score of a stored copy of the query, which no text of its length exceeds with the query's words."""
        state, before = self._until(before)
        lengths = state.lengths[:before]
        if not len(lengths) or not len(terms):
            return 0.0
        distinct, times = np.unique(terms, return_counts=True)
        idf = _idf(state.frequency(distinct, before), len(lengths))
        norm = _norm(np.array([len(terms)]), lengths)
        return float((times * idf * times / (times + norm)).sum())

    def frequency(self, terms: np.ndarray, before: int | None = None) -> np.ndarray:
        """How many of the texts contain each of some distinct terms, ``(T,) -> (T,)``."""
        state, before = self._until(before)
        return state.frequency(terms, before)

    def _until(self, before: int | None) -> tuple["_State", int | None]:
        """The state, and the row to cut it at; None, which is faster, where all texts are asked for."""
        state = self._state
        return state, None if before is None or before >= len(state.lengths) else before

    def _merged(self, lengths: np.ndarray, large: "_Postings") -> "_State":
        """The state of a large part and the tail, which is merged into it if it is long."""
        small = _Postings.of(self._tail)
        if len(self._tail) >= max(TAIL, len(lengths) // 100):
            large = large.joined(small)
            small = _Postings.of({})
            self._tail = {}
        return _State(lengths, large, small)


class _Postings:
    """Rows and counts of each term: terms ascending, and the rows of each term ascending."""

    def __init__(self, terms: np.ndarray, starts: np.ndarray, rows: np.ndarray, counts: np.ndarray) -> None:
        self.terms = terms
        self.starts = starts  # the rows of term number i are rows[starts[i] : starts[i + 1]]
        self.rows = rows
        self.counts = counts

    @classmethod
    def of(cls, texts: Mapping[int, np.ndarray]) -> "_Postings":
        """The postings of some texts by their rows."""
        sizes = np.array([len(text) for text in texts.values()], dtype=np.int64)
        flat = np.concatenate([np.empty(0, dtype=np.int32), *texts.values()]).astype(np.int64)
        rows = np.repeat(np.fromiter(texts, dtype=np.int64, count=len(texts)), sizes)
        # A term and a row as one number: with rows below 10, term 3 in row 7 is 37.
        span = int(rows.max(initial=0)) + 1
        pairs, counts = np.unique(flat * span + rows, return_counts=True)
        return cls._sorted(pairs // span, (pairs % span).astype(np.int32), counts.astype(np.float32))

    @classmethod
    def _sorted(cls, flat: np.ndarray, rows: np.ndarray, counts: np.ndarray) -> "_Postings":
        terms, starts = np.unique(flat, return_index=True)
        return cls(terms, np.append(starts, len(flat)), rows, counts)

    def joined(self, others: "_Postings") -> "_Postings":
        """These postings and those of other rows."""
        flat = np.concatenate([np.repeat(part.terms, np.diff(part.starts)) for part in (self, others)])
        rows = np.concatenate([self.rows, others.rows])
        counts = np.concatenate([self.counts, others.counts])
        span = int(rows.max(initial=0)) + 1
        order = np.argsort(flat * span + rows, kind="stable")  # both parts are in order: a stable sort merges them
        return self._sorted(flat[order], rows[order], counts[order])

    def without(self, removed: np.ndarray, new_row: np.ndarray) -> "_Postings":
        """The postings of the rows that stay.

        Args:
            removed: ``(N,)`` bool.
            new_row: ``(N,)`` new number of each row that stays, in the same order.
        """
        dropped = np.flatnonzero(removed[self.rows])
        starts = self.starts - np.searchsorted(dropped, self.starts)  # without place 1, starts 0, 2, 3 become 0, 1, 2
        rows = new_row[np.delete(self.rows, dropped)].astype(np.int32)
        return _Postings(self.terms, starts, rows, np.delete(self.counts, dropped))

    def sizes(self, terms: np.ndarray, before: int | None) -> np.ndarray:
        """How many rows below ``before`` contain each of some terms, ``(T,)``."""
        starts, ends = self._ranges(terms, before)
        return np.asarray(ends - starts)

    def of_terms(
        self, distinct: np.ndarray, places: np.ndarray, before: int | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The postings of a text's terms, in the order of the text.

        Args:
            distinct: ``(T,)`` the terms, ascending.
            places: ``(L,)`` the text, as places in ``distinct``.
            before: See ``InvertedIndex.scores``.

        Returns:
            Rows below ``before`` that contain the first term, those of the second, and so on; the counts there; and
            ``(L,)`` how many rows there are of each term.
        """
        starts, ends = self._ranges(distinct, before)
        runs = [slice(start, end) for start, end in zip(starts[places].tolist(), ends[places].tolist(), strict=True)]
        rows = np.concatenate([self.rows[:0], *(self.rows[run] for run in runs)])
        counts = np.concatenate([self.counts[:0], *(self.counts[run] for run in runs)])
        return rows, counts, (ends - starts)[places]

    def _ranges(self, terms: np.ndarray, before: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Where the rows of each term begin and end; those of an unknown term end where they begin."""
        if not len(self.terms):
            nothing = np.zeros(len(terms), dtype=np.int64)
            return nothing, nothing
        places = np.searchsorted(self.terms, terms).clip(max=len(self.terms) - 1)
        starts = self.starts[places]
        ends = np.where(self.terms[places] == terms, self.starts[places + 1], starts)
        if before is not None:
            ends = self._first_from(before, starts, ends)
        return starts, ends

    def _first_from(self, row: int, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The first place in each range whose row is ``row`` or a later one, or the range's end.

        The same as ``searchsorted`` in each range, by a binary search in all of them at once.
        """
        low, high = starts.copy(), ends.copy()
        while (low < high).any():
            middle = (low + high) // 2
            # An empty range may end where all rows end.
            is_before = (low < high) & (self.rows[middle.clip(max=len(self.rows) - 1)] < row)
            low = np.where(is_before, middle + 1, low)
            high = np.where(is_before, high, np.minimum(middle, high))
        return low


class _State(NamedTuple):
    """Lengths of all texts, and their postings in two parts; it is replaced, never changed."""

    lengths: np.ndarray
    large: _Postings
    small: _Postings

    def frequency(self, terms: np.ndarray, before: int | None) -> np.ndarray:
        return np.asarray(self.large.sizes(terms, before) + self.small.sizes(terms, before))


def _lengths(texts: Sequence[np.ndarray]) -> np.ndarray:
    """How many terms each text has."""
    return np.array([len(text) for text in texts], dtype=np.float32)


def _idf(frequency: np.ndarray, count: int) -> np.ndarray:
    """Inverse document frequency of terms that so many of ``count`` texts contain, as Lucene defines it."""
    return np.asarray(np.log(1 + (count - frequency + 0.5) / (frequency + 0.5)))


def _norm(lengths: np.ndarray, all_lengths: np.ndarray) -> np.ndarray:
    """K1 (1 - B + B l / mean l): the count of a term that scores half its idf in a text of length l."""
    mean = max(float(all_lengths.mean(dtype=np.float64)), 1e-9)
    return np.asarray(K1 * ((1 - B) + B * lengths.astype(np.float64) / mean))
