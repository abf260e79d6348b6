"""The features of all stored reports in memory, which grow as reports are added."""

from collections.abc import Iterable
from copy import copy

import numpy as np

from gedbd.retrieval.inverted_index import InvertedIndex
from gedbd.retrieval.reports.report_features import FIELDS, ReportFeatures

MEAN_STEP = 500
TERM_KINDS = ("text", "title", "identifiers", "errors")


class FeatureStore:
    """The features of all stored reports, to which reports are added at the end: row i is stored report i.

    Args:
        dim: Size D of the vectors.

    Attributes:
        text: Counts of the words of title and description.
        title: Counts of the words of titles.
        identifiers: Which reports have an identifier.
        errors: Which reports have a line about an error.
    """

    def __init__(self, dim: int) -> None:
        self._vectors = _GrowingArray(np.empty((0, dim), dtype=np.float32))
        self._codes = _GrowingArray(np.empty((0, len(FIELDS)), dtype=np.int32))
        self._day = _GrowingArray(np.empty(0, dtype=np.float64))
        self._resolved = _GrowingArray(np.empty(0, dtype=np.float64))
        self._first_resolved: int | None = None
        self.text = InvertedIndex()
        self.title = InvertedIndex()
        self.identifiers = InvertedIndex()
        self.errors = InvertedIndex()
        self._means: dict[int, np.ndarray] = {}
        self._distinct: dict[str, list[np.ndarray]] = {kind: [] for kind in TERM_KINDS}

    def __len__(self) -> int:
        return len(self._day)

    @property
    def vectors(self) -> np.ndarray:
        """``(N, D)`` float32."""
        return self._vectors.filled

    @property
    def codes(self) -> np.ndarray:
        """``(N, 4)`` int32, see ``ReportFeatures``."""
        return self._codes.filled

    @property
    def day(self) -> np.ndarray:
        """``(N,)`` float64."""
        return self._day.filled

    @property
    def resolved(self) -> np.ndarray:
        """``(N,)`` float64, see ``ReportFeatures``."""
        return self._resolved.filled

    def tells_resolution(self, count: int) -> bool:
        """Whether any of the first ``count`` reports has a date of resolution; else the tracker may give none."""
        return self._first_resolved is not None and self._first_resolved < count

    def mean_vector(self, count: int) -> np.ndarray:
        """The mean of the first ``count`` vectors, rounded down to a multiple of ``MEAN_STEP``, ``(D,)``."""
        step = count // MEAN_STEP * MEAN_STEP
        known = self._means.get(step)
        if known is None:
            known = self.vectors[:step].mean(axis=0) if step else np.zeros(self.vectors.shape[1], dtype=np.float32)
            self._means[step] = known
        return known

    def distinct(self, kind: str, rows: Iterable[int]) -> list[np.ndarray]:
        """The distinct terms of some reports, each ``(T,)`` ascending; ``kind`` is one of ``TERM_KINDS``."""
        lists = self._distinct[kind]
        return [lists[row] for row in rows]

    def add(self, fresh: ReportFeatures) -> None:
        """Adds reports at the end."""
        self._vectors.extend(fresh.vectors)
        self._codes.extend(fresh.codes)
        for kind in TERM_KINDS:
            terms = getattr(fresh.terms, kind)
            getattr(self, kind).add(terms)
            self._distinct[kind] += map(np.unique, terms)
        if self._first_resolved is None:
            self._first_resolved = _first_number(fresh.resolved, len(self))
        self._resolved.extend(fresh.resolved)
        self._day.extend(fresh.day)  # last, because len() counts the days

    def replaced(self, rows: list[int], fresh: ReportFeatures) -> "FeatureStore":
        """A store with other reports in some rows; this one stays as it is, for searches that are using it."""
        other = FeatureStore(self.vectors.shape[1])
        other._vectors = self._vectors.replaced(rows, fresh.vectors)
        other._codes = self._codes.replaced(rows, fresh.codes)
        other._day = self._day.replaced(rows, fresh.day)
        other._resolved = self._resolved.replaced(rows, fresh.resolved)
        other._first_resolved = _first_number(other.resolved)
        for kind in TERM_KINDS:
            terms = getattr(fresh.terms, kind)
            setattr(other, kind, getattr(self, kind).replaced(rows, terms))
            lists = self._distinct[kind].copy()
            for row, one in zip(rows, terms, strict=True):
                lists[row] = np.unique(one)
            other._distinct[kind] = lists
        return other

    def with_vectors(self, vectors: np.ndarray) -> "FeatureStore":
        """A store with other vectors, which shares all else with this one."""
        other = copy(self)
        other._vectors = _GrowingArray(vectors)
        other._means = {}
        return other

    def without(self, removed: np.ndarray) -> "FeatureStore":
        """A store without some rows, ``removed (N,)`` bool; later rows move up."""
        other = FeatureStore(self.vectors.shape[1])
        other._vectors = _GrowingArray(self.vectors[~removed])
        other._codes = _GrowingArray(self.codes[~removed])
        other._day = _GrowingArray(self.day[~removed])
        other._resolved = _GrowingArray(self.resolved[~removed])
        other._first_resolved = _first_number(other.resolved)
        for kind in TERM_KINDS:
            setattr(other, kind, getattr(self, kind).without(removed))
            lists = zip(self._distinct[kind], removed, strict=True)
            other._distinct[kind] = [terms for terms, gone in lists if not gone]
        return other


def _first_number(values: np.ndarray, start: int = 0) -> int | None:
    """Row of the first value that is not NaN, counted from ``start``; None if there is none."""
    rows = np.flatnonzero(~np.isnan(values))
    return start + int(rows[0]) if len(rows) else None


class _GrowingArray:
    """An array that grows at the end. Its capacity doubles when it is full, so that adding rows one by one is cheap."""

    def __init__(self, filled: np.ndarray) -> None:
        self._allocated = filled
        self._count = len(filled)

    def __len__(self) -> int:
        return self._count

    @property
    def filled(self) -> np.ndarray:
        return self._allocated[: self._count]

    def extend(self, fresh: np.ndarray) -> None:
        needed = self._count + len(fresh)
        if needed > len(self._allocated):
            shape = max(needed, 2 * len(self._allocated)), *self._allocated.shape[1:]
            allocated = np.empty(shape, dtype=self._allocated.dtype)
            allocated[: self._count] = self.filled
            self._allocated = allocated
        # Rows that others may be reading are never overwritten: new ones go behind them.
        self._allocated[self._count : needed] = fresh
        self._count = needed

    def replaced(self, rows: list[int], fresh: np.ndarray) -> "_GrowingArray":
        # A copy: searches may be reading the old rows.
        filled = self.filled.copy()
        filled[rows] = fresh
        return _GrowingArray(filled)
