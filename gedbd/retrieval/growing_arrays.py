"""Growing and ragged arrays."""

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np


class GrowingArray:
    """An array that grows at the end in amortised constant time, by doubling its capacity.

    A copy by ``copy.copy`` shares the rows; only one of several copies may grow.
    """

    def __init__(self, filled: np.ndarray) -> None:
        self._allocated = filled
        self._count = len(filled)

    def __len__(self) -> int:
        return self._count

    @property
    def filled(self) -> np.ndarray:
        """All rows, ``(N, ...)``."""
        return self._allocated[: self._count]

    @classmethod
    def copy_of(cls, filled: np.ndarray) -> "GrowingArray":
        """An array with a copy of the rows and twice their capacity."""
        array = cls(filled)
        array.reserve(2 * len(filled))
        return array

    def extend(self, fresh: np.ndarray) -> None:
        """Adds rows."""
        needed = self._count + len(fresh)
        if needed > len(self._allocated):
            self.reserve(max(needed, 2 * len(self._allocated)))
        # Existing rows, which other threads may read, are never overwritten.
        self._allocated[self._count : needed] = fresh
        self._count = needed

    def reserve(self, capacity: int) -> None:
        """Allocates memory for ``capacity`` rows."""
        allocated = np.empty((capacity, *self._allocated.shape[1:]), dtype=self._allocated.dtype)
        allocated[: self._count] = self.filled
        self._allocated = allocated


class GrowingRows:
    """Immutable rows, such as those of a file, followed by added rows."""

    def __init__(self, fixed: np.ndarray) -> None:
        self._fixed = fixed
        self._added = GrowingArray(np.empty((0, *fixed.shape[1:]), dtype=fixed.dtype))

    def __len__(self) -> int:
        return len(self._fixed) + len(self._added)

    def __copy__(self) -> "GrowingRows":
        """A copy that can grow, see ``GrowingArray``."""
        other = GrowingRows(self._fixed)
        other._added = copy(self._added)
        return other

    @property
    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        """The immutable and the added rows."""
        return self._fixed, self._added.filled

    @property
    def filled(self) -> np.ndarray:
        """All rows, ``(N, ...)``; a copy if there are rows of both kinds."""
        used = [part for part in self.parts if len(part)]
        return used[0] if len(used) == 1 else np.concatenate(self.parts)

    def extend(self, fresh: np.ndarray) -> None:
        """Adds rows."""
        if len(self):
            self._added.extend(fresh)
        else:
            self._fixed = fresh

    def take(self, positions: np.ndarray) -> np.ndarray:
        """The rows at positions, ``(R,) -> (R, ...)``."""
        if not len(self._added):
            return np.asarray(self._fixed.take(positions, axis=0))  # faster than indexing with brackets
        is_added = positions >= len(self._fixed)
        rows = np.empty((len(positions), *self._fixed.shape[1:]), dtype=self._fixed.dtype)
        rows[~is_added] = self._fixed[positions[~is_added]]
        rows[is_added] = self._added.filled[positions[is_added] - len(self._fixed)]
        return rows


class RaggedArray(Sequence[np.ndarray]):
    """N lists of different lengths, one after the other: list i is ``values[starts[i] : starts[i + 1]]``."""

    def __init__(self, starts: np.ndarray, values: np.ndarray) -> None:
        self.starts = starts
        self.values = values

    @classmethod
    def of(cls, lists: Sequence[np.ndarray], empty: np.ndarray) -> "RaggedArray":
        """An array of lists; ``empty`` is an empty list of the same type."""
        starts = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        return cls(starts, np.concatenate([empty, *lists]))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: Any) -> Any:
        """One of the lists."""
        start, end = self.starts[row : row + 2].tolist()
        return self.values[start:end]

    @property
    def lengths(self) -> np.ndarray:
        """``(N,)`` lengths of the lists."""
        return np.diff(self.starts)

    def take(self, rows: np.ndarray) -> "RaggedArray":
        """The lists ``rows`` in this order."""
        lengths = self.lengths[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return RaggedArray(starts, self.values[list_positions(self.starts[rows], lengths)])

    def joined(self, other: "RaggedArray") -> "RaggedArray":
        """The lists of this array, then those of ``other``."""
        starts = np.concatenate([self.starts, self.starts[-1] + other.starts[1:]])
        return RaggedArray(starts, np.concatenate([self.values, other.values]))


def list_positions(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Positions of the values of lists, list after list: starts 7, 2 and lengths 2, 3 give 7 8, 2 3 4."""
    return np.asarray(np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum())))


class TermLists:
    """The distinct terms of each of N texts, ascending, and their counts, in growing lists.

    Args:
        starts: ``(F + 1,)``: the terms of text 0 are ``terms[starts[0] : starts[1]]``, and so on.
        terms: ``(T,)`` the terms of all texts.
        counts: ``(T,)`` the count of each term in its text.
    """

    def __init__(self, starts: np.ndarray, terms: np.ndarray, counts: np.ndarray) -> None:
        self.ends = GrowingRows(starts[1:])
        self.terms = GrowingRows(terms)
        self.counts = GrowingRows(counts)

    def __copy__(self) -> "TermLists":
        """A copy that can grow."""
        other = TermLists.__new__(TermLists)
        other.ends, other.terms, other.counts = copy(self.ends), copy(self.terms), copy(self.counts)
        return other

    def add(self, texts: Sequence[np.ndarray]) -> None:
        """Adds texts at the end, each the ``(L,)`` numbers of its terms."""
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        flat = np.concatenate([np.empty(0, dtype=np.int32), *texts]).astype(np.int64)
        span = int(flat.max(initial=0)) + 1
        # A text and a term as one number: with terms below 10, term 7 in text 3 is 37.
        pairs, counts = np.unique(np.repeat(np.arange(len(texts)), lengths) * span + flat, return_counts=True)
        self.terms.extend((pairs % span).astype(np.int32))
        self.counts.extend(counts.astype(np.float32))
        start = int(self.ends.take(np.array([len(self.ends) - 1]))[0]) if len(self.ends) else 0
        self.ends.extend(start + np.cumsum(np.bincount(pairs // span, minlength=len(texts))))

    def find(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Finds the positions of the terms of some texts in ``terms`` and ``counts``.

        Returns:
            ``(P,)`` positions, text after text; and the number of terms of each text, ``(R,)``.
        """
        ends = self.ends.take(places)
        starts = np.where(places > 0, self.ends.take((places - 1).clip(min=0)), 0) if len(places) else ends
        return list_positions(starts, ends - starts), ends - starts


class RowMap:
    """Maps the rows of reports to the places of their features in arrays. At first, places are rows.

    A report that replaces another one keeps its row, and its features get a new place at the end. So the large arrays
    need not be copied when a report is edited or deleted.
    """

    def __init__(self, place: np.ndarray | None = None) -> None:
        self._place = None if place is None else GrowingArray(place)  # of each row

    @property
    def is_identity(self) -> bool:
        """Whether places are rows."""
        return self._place is None

    def places(self, rows: np.ndarray) -> np.ndarray:
        """The places of some reports."""
        return rows if self._place is None else self._place.filled[rows]

    def in_rows(self, values: np.ndarray) -> np.ndarray:
        """The values of all reports, ``(N,)``, from those of all places, ``(P,)``."""
        return values if self._place is None else values[self._place.filled]

    def grown(self, number: int, num_places: int) -> "RowMap":
        """A map with ``number`` more reports at the end, whose features follow the first ``num_places``."""
        if self._place is None:
            return self
        other = RowMap()
        other._place = copy(self._place)
        other._place.extend(np.arange(num_places, num_places + number))
        return other

    def replaced(self, rows: list[int], num_places: int) -> "RowMap":
        """A map with other features of some reports, which follow the first ``num_places``."""
        place = self._copy_places(num_places)
        place[rows] = num_places + np.arange(len(rows))
        return RowMap(place)

    def without(self, removed: np.ndarray, num_places: int) -> "RowMap":
        """A map without some reports, ``removed (N,)`` bool; later ones move up."""
        return RowMap(self._copy_places(num_places)[~removed])

    def _copy_places(self, num_places: int) -> np.ndarray:
        """A copy of the places of all reports."""
        return np.arange(num_places) if self._place is None else self._place.filled.copy()
