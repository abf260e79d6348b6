"""Which texts contain each term, and how often."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

MIN_SHARE = 0.1  # of the texts
MAX_TERMS = 128
BLOCK = 65_536  # texts whose sums stay in the processor's cache
K1 = 1.5
B = 0.75


class Run(NamedTuple):
    """The postings of some terms, one term after the other.

    Attributes:
        rows: ``(P,)`` the texts with the first term, those with the second, and so on.
        values: ``(P,)`` what is known of each.
        sizes: ``(T,)`` how many texts contain each term.
    """

    rows: np.ndarray
    values: np.ndarray
    sizes: np.ndarray


class Postings:
    """Rows and counts of each term: terms ascending, and the rows of each term ascending.

    Args:
        terms: ``(T,)``.
        starts: ``(T + 1,)``: the rows of term number i are ``rows[starts[i] : starts[i + 1]]``.
        rows: ``(P,)`` int32.
        counts: ``(P,)``; empty where only the saturation is needed.
        saturation: ``(P,)`` float32, the share of its idf that a term scores in a text, count / (norm + count), where
            the mean length of texts is ``mean``.
        mean: See there.
    """

    def __init__(
        self,
        terms: np.ndarray,
        starts: np.ndarray,
        rows: np.ndarray,
        counts: np.ndarray,
        saturation: np.ndarray,
        mean: float,
    ) -> None:
        self.terms = terms
        self.starts = starts
        self.rows = rows
        self.counts = counts
        self.saturation = saturation
        self.mean = mean

    @classmethod
    def of(cls, texts: Mapping[int, np.ndarray], lengths: np.ndarray, mean: float) -> "Postings":
        """The postings of some texts by their rows; ``lengths (N,)`` are those of all texts."""
        sizes = np.array([len(text) for text in texts.values()], dtype=np.int64)
        flat = np.concatenate([np.empty(0, dtype=np.int32), *texts.values()]).astype(np.int64)
        rows = np.repeat(np.fromiter(texts, dtype=np.int64, count=len(texts)), sizes)
        # A term and a row as one number: with rows below 10, term 3 in row 7 is 37.
        span = int(rows.max(initial=0)) + 1
        pairs, counts = np.unique(flat * span + rows, return_counts=True)
        rows = (pairs % span).astype(np.int32)
        return cls.sorted(pairs // span, rows, counts.astype(np.float32), lengths, mean)

    @classmethod
    def sorted(
        cls, flat: np.ndarray, rows: np.ndarray, counts: np.ndarray, lengths: np.ndarray, mean: float
    ) -> "Postings":
        """The postings of a term, a row and a count each, ``(P,)``, in the order of terms and then rows."""
        terms, starts = np.unique(flat, return_index=True)
        saturation = (counts / (length_norm(lengths[rows], mean) + counts)).astype(np.float32)
        return cls(terms, np.append(starts, len(flat)), rows, counts, saturation, mean)

    def joined(self, others: "Postings", lengths: np.ndarray, mean: float) -> "Postings":
        """These postings and those of other rows."""
        flat = np.concatenate([np.repeat(part.terms, np.diff(part.starts)) for part in (self, others)])
        rows = np.concatenate([self.rows, others.rows])
        counts = np.concatenate([self.counts, others.counts])
        span = int(rows.max(initial=0)) + 1
        order = np.argsort(flat * span + rows, kind="stable")  # both parts are in order: a stable sort merges them
        return Postings.sorted(flat[order], rows[order], counts[order], lengths, mean)

    def sizes(self, terms: np.ndarray, before: int | None) -> np.ndarray:
        """How many rows below ``before`` contain each of some terms, ``(T,)``."""
        starts, ends = self._ranges(terms, before)
        return np.asarray(ends - starts)

    def counts_of(self, terms: np.ndarray, before: int | None) -> Run:
        """The counts of some distinct terms, ascending, in rows below ``before``."""
        return self._run(self.counts, *self._ranges(terms, before))

    def saturation_of(self, terms: np.ndarray, before: int | None) -> Run:
        """Likewise their saturation."""
        return self._run(self.saturation, *self._ranges(terms, before))

    def _run(self, values: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> Run:
        slices = [slice(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True) if start < end]
        rows, found = (np.concatenate([column[:0], *(column[run] for run in slices)]) for column in (self.rows, values))
        return Run(rows, found, ends - starts)

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


def length_norm(lengths: np.ndarray, mean: float) -> np.ndarray:
    """K1 (1 - B + B l / mean l): the count of a term that scores half its idf in a text of length l."""
    return np.asarray(K1 * ((1 - B) + B * lengths.astype(np.float64) / mean))


class CommonTerms:
    """A table of the saturation of each common term in each text, see ``Postings``.

    Args:
        terms: ``(C,)``, ascending.
        saturation: ``(C, N)`` float32.
    """

    def __init__(self, terms: np.ndarray, saturation: np.ndarray) -> None:
        self.terms = terms
        self._saturation = saturation

    @staticmethod
    def chosen(sizes: np.ndarray, num_texts: int) -> np.ndarray:
        """The terms that are common, ascending, from the number of texts ``(T,)`` that contain each."""
        most = np.argsort(-sizes, kind="stable")[:MAX_TERMS]
        return np.sort(most[sizes[most] >= max(MIN_SHARE * num_texts, 1)])

    def add_scores(self, terms: np.ndarray, weights: np.ndarray, total: np.ndarray) -> None:
        """Adds what some of the terms, with weights ``(T,)``, score in each text to ``total (N, ...)`` float32."""
        from scipy.linalg.blas import saxpy

        columns = [self._saturation[place] for place in np.searchsorted(self.terms, terms)]
        for start in range(0, self._saturation.shape[1], BLOCK):
            part = slice(start, min(start + BLOCK, self._saturation.shape[1]))
            for column, weight in zip(columns, weights.tolist(), strict=True):
                saxpy(column[part], total[part], a=weight)  # in place: total += weight * column
