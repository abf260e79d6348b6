"""BM25 over texts that come one after the other.

The scores are those of bm25s (method ``lucene``), which weighs every word of every text once and for all and would have
to do so again after each report that comes in. Here counts are kept and weighed when a query asks, so that a report is
found the moment it is added, and a replay of the tracker's history can leave out what was not there yet.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

WORD = re.compile(r"(?u)\b\w\w+\b")
K1, B = 1.5, 0.75
TAIL = 512


def words(texts: Sequence[str]) -> list[list[str]]:
    """The words of each text in order, lower case, without English stop words, as ``bm25s.tokenize`` finds them.

    That one draws a progress bar for each text, with a lock that all processes share: one that is killed with it in
    hand stops the others.
    """
    from bm25s.stopwords import STOPWORDS_EN

    stop = frozenset(STOPWORDS_EN)
    return [[word for word in WORD.findall(text.lower()) if word not in stop] for text in texts]


class Lexicon:
    """Counts of terms by text. Texts are numbered 0..N-1 in the order in which they were added.

    Recent texts lie in a small part of their own, which is joined to the large one when it has ``TAIL`` of them or a
    hundredth of all. While one thread adds, others may ask: they see all of an addition or nothing. A text that is
    replaced or removed gives another lexicon, which answers, to the bit, as one that has never had the old text.
    """

    def __init__(self) -> None:
        self._state = _State(np.empty(0, dtype=np.float32), _Postings.of({}), _Postings.of({}))
        self._tail: dict[int, np.ndarray] = {}  # the texts of the small part by number

    def __len__(self) -> int:
        return len(self._state.lengths)

    def add(self, texts: Sequence[np.ndarray]) -> None:
        """Adds texts at the end.

        Args:
            texts: The numbers of their terms in order, each ``(L,)`` int32; the same term has the same number always.
        """
        lengths = np.concatenate([self._state.lengths, _lengths(texts)])
        self._tail |= dict(enumerate(texts, start=len(self)))
        self._state = self._joined(lengths, self._state.large)

    def replaced(self, rows: Sequence[int], texts: Sequence[np.ndarray]) -> "Lexicon":
        """A lexicon with other texts in some places."""
        lengths = self._state.lengths.copy()
        lengths[rows] = _lengths(texts)
        old = np.zeros(len(self), dtype=bool)
        old[rows] = True
        other = Lexicon()
        other._tail = self._tail | dict(zip(rows, texts, strict=True))
        other._state = other._joined(lengths, self._state.large.without(old, np.arange(len(self))))
        return other

    def without(self, gone: np.ndarray) -> "Lexicon":
        """A lexicon without some texts, ``gone (N,)`` bool; later ones move up."""
        places = np.cumsum(~gone) - 1
        other = Lexicon()
        other._tail = {int(places[row]): text for row, text in self._tail.items() if not gone[row]}
        large = self._state.large.without(gone, places)
        other._state = other._joined(self._state.lengths[~gone], large)
        return other

    def _joined(self, lengths: np.ndarray, large: "_Postings") -> "_State":
        """The state of a large part and the tail, which becomes part of it if it is long."""
        small = _Postings.of(self._tail)
        if len(self._tail) >= max(TAIL, len(lengths) // 100):
            large, small, self._tail = large.joined(small), _Postings.of({}), {}
        return _State(lengths, large, small)

    def scores(self, terms: np.ndarray, before: int | None = None) -> np.ndarray:
        """BM25 of texts for a query.

        sum over the query's terms t of log(1 + (n - df + .5) / (df + .5)) * tf / (tf + K1 (1 - B + B l / mean l)).

        Args:
            terms: ``(L,)`` numbers of the query's terms, repeated as in its text; unknown ones score nothing.
            before: Only the first so many texts exist: for scores and for what is counted. By default all do.

        Returns:
            ``(before,)`` float32, 0 or above.
        """
        state, before = self._until(before)
        lengths = state.lengths[:before]
        count = len(lengths)
        if not count or not len(terms):
            return np.zeros(count, dtype=np.float32)
        asked, times = np.unique(terms, return_counts=True)
        found = [part.of_terms(asked, before) for part in (state.large, state.small)]
        frequency = sum(sizes for _, _, sizes in found)
        weight = times * np.log1p((count - frequency + 0.5) / (frequency + 0.5))
        norm = _norm(lengths)
        total = np.zeros(count)
        for rows, counts, sizes in found:
            total += np.bincount(rows, np.repeat(weight, sizes) * counts / (counts + norm[rows]), minlength=count)
        return total.astype(np.float32)

    def self_score(self, terms: np.ndarray, before: int | None = None) -> float:
        """What a stored copy of the query itself would score: no text of its length scores more for its words."""
        state, before = self._until(before)
        lengths = state.lengths[:before]
        count = len(lengths)
        if not count or not len(terms):
            return 0.0
        asked, times = np.unique(terms, return_counts=True)
        frequency = state.frequency(asked, before)
        norm = K1 * (1 - B + B * len(terms) / max(float(lengths.mean()), 1e-9))
        return float((times * np.log1p((count - frequency + 0.5) / (frequency + 0.5)) * times / (times + norm)).sum())

    def frequency(self, terms: np.ndarray, before: int | None = None) -> np.ndarray:
        """How many of the texts hold each of some distinct terms, ``(T,) -> (T,)``."""
        state, before = self._until(before)
        return state.frequency(terms, before)

    def _until(self, before: int | None) -> tuple["_State", int | None]:
        """The state, and where to cut it: nowhere, which is quicker, if all texts are asked for."""
        state = self._state
        return state, None if before is None or before >= len(state.lengths) else before


class _Postings:
    """Rows and counts of each term, terms in ascending order, rows ascending in each."""

    def __init__(self, terms: np.ndarray, starts: np.ndarray, rows: np.ndarray, counts: np.ndarray) -> None:
        self.terms, self.starts, self.rows, self.counts = terms, starts, rows, counts

    @classmethod
    def of(cls, texts: Mapping[int, np.ndarray]) -> "_Postings":
        """Those of some texts by their rows."""
        sizes = np.array([len(text) for text in texts.values()], dtype=np.int64)
        flat = np.concatenate([np.empty(0, dtype=np.int32), *texts.values()]).astype(np.int64)
        rows = np.repeat(np.fromiter(texts, dtype=np.int64, count=len(texts)), sizes)
        span = int(rows.max(initial=0)) + 1
        pairs, counts = np.unique(flat * span + rows, return_counts=True)
        return cls._sorted(pairs // span, (pairs % span).astype(np.int32), counts.astype(np.float32))

    @classmethod
    def _sorted(cls, flat: np.ndarray, rows: np.ndarray, counts: np.ndarray) -> "_Postings":
        terms, starts = np.unique(flat, return_index=True)
        return cls(terms, np.append(starts, len(flat)), rows, counts)

    def joined(self, others: "_Postings") -> "_Postings":
        """These and those of other rows."""
        flat = np.concatenate([np.repeat(part.terms, np.diff(part.starts)) for part in (self, others)])
        rows, counts = np.concatenate([self.rows, others.rows]), np.concatenate([self.counts, others.counts])
        span = int(rows.max(initial=0)) + 1
        order = np.argsort(flat * span + rows, kind="stable")  # both parts are in order: a stable sort merges them
        return self._sorted(flat[order], rows[order], counts[order])

    def without(self, gone: np.ndarray, places: np.ndarray) -> "_Postings":
        """Those of the rows that stay.

        Args:
            gone: ``(N,)`` bool, the rows that do not.
            places: ``(N,)`` new number of each row that stays, in the same order.
        """
        dropped = np.flatnonzero(gone[self.rows])
        starts = self.starts - np.searchsorted(dropped, self.starts)  # without place 1, starts 0, 2, 3 become 0, 1, 2
        rows = places[np.delete(self.rows, dropped)].astype(np.int32)
        return _Postings(self.terms, starts, rows, np.delete(self.counts, dropped))

    def sizes(self, asked: np.ndarray, before: int | None) -> np.ndarray:
        """How many rows below ``before`` hold each of some terms, ``(T,)``."""
        starts, ends = self._runs(asked, before)
        return np.asarray(ends - starts)

    def of_terms(self, asked: np.ndarray, before: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows below ``before`` that hold some terms, their counts, and how many there are of each term."""
        starts, ends = self._runs(asked, before)
        runs = [slice(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        rows = np.concatenate([self.rows[:0], *(self.rows[run] for run in runs)])
        return rows, np.concatenate([self.counts[:0], *(self.counts[run] for run in runs)]), ends - starts

    def _runs(self, asked: np.ndarray, before: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Where the rows of each term begin and end; an unknown term's end where they begin."""
        if not len(self.terms):
            return np.zeros(len(asked), dtype=np.int64), np.zeros(len(asked), dtype=np.int64)
        places = np.searchsorted(self.terms, asked).clip(max=len(self.terms) - 1)
        starts, ends = self.starts[places], self.starts[places + 1]
        ends = np.where(self.terms[places] == asked, ends, starts)
        if before is not None:
            cut = [
                start + np.searchsorted(self.rows[start:end], before) for start, end in zip(starts, ends, strict=True)
            ]
            ends = np.array(cut, dtype=np.int64)
        return starts, ends


class _State(NamedTuple):
    """Lengths of all texts, and where their terms are, in two parts; it is replaced, never changed."""

    lengths: np.ndarray
    large: _Postings
    small: _Postings

    def frequency(self, terms: np.ndarray, before: int | None) -> np.ndarray:
        return np.asarray(self.large.sizes(terms, before) + self.small.sizes(terms, before))


def _lengths(texts: Sequence[np.ndarray]) -> np.ndarray:
    """How many terms each has."""
    return np.array([len(text) for text in texts], dtype=np.float32)


def _norm(lengths: np.ndarray) -> np.ndarray:
    """What a count is held against, by the length of its text."""
    return np.asarray(K1 * (1 - B + B * lengths / max(float(lengths.mean()), 1e-9)), dtype=np.float32)
