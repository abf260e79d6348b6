"""Lists of different lengths, one after the other in one array."""

from collections.abc import Sequence

import numpy as np


class Segments:
    """N lists: list i is ``values[starts[i] : starts[i + 1]]``.

    Args:
        starts: ``(N + 1,)`` int64.
        values: All lists, along the first axis.
    """

    def __init__(self, starts: np.ndarray, values: np.ndarray) -> None:
        self.starts = starts
        self.values = values

    @classmethod
    def of(cls, lists: Sequence[np.ndarray], empty: np.ndarray) -> "Segments":
        """Some lists; ``empty`` is one of the same kind without a value."""
        starts = np.cumsum([0, *(len(values) for values in lists)], dtype=np.int64)
        return cls(starts, np.concatenate([empty, *lists]))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return np.asarray(self.values[self.starts[row] : self.starts[row + 1]])

    @property
    def lengths(self) -> np.ndarray:
        """``(N,)`` lengths of the lists."""
        return np.diff(self.starts)

    def places(self, rows: np.ndarray) -> np.ndarray:
        """Where the values of some lists are, list after list."""
        lengths = self.lengths[rows]
        ends = np.cumsum(lengths)
        # Of lists that begin at 7 and 2 and have 2 and 3 values: 7 8, 2 3 4.
        return np.asarray(np.arange(lengths.sum()) + np.repeat(self.starts[rows] - (ends - lengths), lengths))

    def take(self, rows: np.ndarray) -> "Segments":
        """Some lists in a given order."""
        starts = np.concatenate([[0], np.cumsum(self.lengths[rows])]).astype(np.int64)
        return Segments(starts, self.values[self.places(rows)])

    def joined(self, other: "Segments") -> "Segments":
        """The lists of both."""
        starts = np.concatenate([self.starts, self.starts[-1] + other.starts[1:]])
        return Segments(starts, np.concatenate([self.values, other.values]))
