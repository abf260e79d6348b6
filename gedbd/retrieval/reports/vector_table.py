"""The vectors of reports, and the most similar ones to a query's."""

import threading
from copy import copy

import numpy as np

from gedbd.retrieval.growing import GrowingRows
from gedbd.retrieval.reports.int8 import Int8Vectors
from gedbd.retrieval.reports.row_map import RowMap

MIN_CODED = 10_000  # reading fewer vectors as they are is quick
ROUNDING = 1e-5  # more than what rounding to single precision changes in a cosine


class VectorTable:
    """Unit vectors of reports, which grow at the end.

    Args:
        fixed: ``(F, D)`` float32 vectors to start with, in a file perhaps.
        codes: Their codes; None to compute these when they are needed.

    Attributes:
        rows: Where the vectors of the reports are. A report that is replaced is added and gets another place here.
    """

    def __init__(self, fixed: np.ndarray, codes: Int8Vectors | None = None) -> None:
        self._vectors = GrowingRows(fixed)
        self._codes = Int8Vectors.empty(fixed.shape[1]) if codes is None else codes
        self._turn = threading.Lock()
        self.rows = RowMap()

    def __copy__(self) -> "VectorTable":
        """A table that can grow without changing this one."""
        other = VectorTable.__new__(VectorTable)
        with self._turn:
            other._vectors, other._codes = copy(self._vectors), copy(self._codes)
        other._turn = threading.Lock()
        other.rows = self.rows
        return other

    def __getstate__(self) -> dict[str, object]:
        """What is pickled: all but the lock, of which each process has its own."""
        return {name: value for name, value in self.__dict__.items() if name != "_turn"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._turn = threading.Lock()

    @property
    def dim(self) -> int:
        """Size of the vectors."""
        return self._vectors.dim

    @property
    def num_places(self) -> int:
        """Number of vectors, those of replaced and removed reports included."""
        return len(self._vectors)

    @property
    def filled(self) -> np.ndarray:
        """The vectors of all N reports, ``(N, D)``; a copy if any were added, replaced or removed."""
        return self.rows.in_rows(self._vectors.filled)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """The vectors of some reports, ``(R,) -> (R, D)``."""
        return self._vectors.take(self.rows.places(rows))

    def add(self, fresh: np.ndarray) -> None:
        """Adds vectors at the end."""
        self._vectors.extend(fresh)

    def cosines(self, rows: np.ndarray, query: np.ndarray) -> np.ndarray:
        """Cosines of some reports with a query ``(D,)``, ``(R,)``; each is the same whatever the others are."""
        return np.asarray(np.einsum("rd,d->r", self.take(rows), query))

    def nearest(
        self, query: np.ndarray, depth: int, before: int | None = None, allowed: np.ndarray | None = None
    ) -> np.ndarray:
        """The reports with the highest cosines, the highest first; of equal ones the older report comes first.

        Rough cosines of all reports choose those whose exact cosines are computed: what is found is what exact cosines
        of all reports would find.

        Args:
            query: ``(D,)`` unit vector.
            depth: Number of reports to find.
            before: Only the first ``before`` reports may be found; None for all.
            allowed: Likewise ``(before,)`` bool.

        Returns:
            ``(R,)`` rows.
        """
        rows = self.likely(query, depth, before, allowed)
        return np.asarray(rows[np.argsort(-self.cosines(rows, query), kind="stable")][:depth])

    def likely(
        self, query: np.ndarray, depth: int, before: int | None = None, allowed: np.ndarray | None = None
    ) -> np.ndarray:
        """The reports that ``nearest`` finds among others, ``(R,)`` rows, ascending."""
        rough, error = self._rough_cosines(query)
        rough = self.rows.in_rows(rough)[:before]
        if allowed is not None:
            rough = np.where(allowed, rough, -np.inf)
        rows = np.flatnonzero(rough > -np.inf)
        if len(rows) > depth:
            lowest = np.partition(rough, -depth)[-depth] - 2 * error
            rows = np.flatnonzero(rough >= lowest)
        return rows

    def _rough_cosines(self, query: np.ndarray) -> tuple[np.ndarray, float]:
        if len(self._vectors) < MIN_CODED:
            return self._vectors.filled @ query, ROUNDING
        with self._turn:
            missing = np.arange(len(self._codes.codes), len(self._vectors))
            if len(missing):
                self._codes.add(self._vectors.take(missing))
            codes = copy(self._codes)
        rough, error = codes.rough_cosines(query)
        return rough, error + ROUNDING
