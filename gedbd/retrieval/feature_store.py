"""The features of all stored reports in memory, which grow as reports are added."""

import numpy as np

from gedbd.retrieval.inverted_index import InvertedIndex
from gedbd.retrieval.report_features import ReportFeatures


class FeatureStore:
    """The features of all stored reports, to which reports are added at the end: row i is stored report i.

    Args:
        dim: Size D of the vectors.
    """

    def __init__(self, dim: int) -> None:
        self._vectors = _GrowingArray(np.empty((0, dim), dtype=np.float32))
        self._product = _GrowingArray(np.empty(0, dtype=np.int32))
        self._component = _GrowingArray(np.empty(0, dtype=np.int32))
        self._day = _GrowingArray(np.empty(0, dtype=np.float64))
        self.text = InvertedIndex()
        self.title = InvertedIndex()

    def __len__(self) -> int:
        return len(self._day)

    @property
    def vectors(self) -> np.ndarray:
        """``(N, D)`` float32."""
        return self._vectors.filled

    @property
    def product(self) -> np.ndarray:
        """``(N,)`` int32."""
        return self._product.filled

    @property
    def component(self) -> np.ndarray:
        """``(N,)`` int32."""
        return self._component.filled

    @property
    def day(self) -> np.ndarray:
        """``(N,)`` float64."""
        return self._day.filled

    def add(self, fresh: ReportFeatures) -> None:
        """Adds reports at the end."""
        self._vectors.extend(fresh.vectors)
        self._product.extend(fresh.product)
        self._component.extend(fresh.component)
        self.text.add(fresh.text)
        self.title.add(fresh.title)
        self._day.extend(fresh.day)  # last, because len() counts the days

    def replaced(self, rows: list[int], fresh: ReportFeatures) -> "FeatureStore":
        """A store with other reports in some rows; this one stays as it is, for searches that are using it."""
        other = FeatureStore(self.vectors.shape[1])
        other._vectors = self._vectors.replaced(rows, fresh.vectors)
        other._product = self._product.replaced(rows, fresh.product)
        other._component = self._component.replaced(rows, fresh.component)
        other._day = self._day.replaced(rows, fresh.day)
        other.text = self.text.replaced(rows, fresh.text)
        other.title = self.title.replaced(rows, fresh.title)
        return other

    def without(self, removed: np.ndarray) -> "FeatureStore":
        """A store without some rows, ``removed (N,)`` bool; later rows move up."""
        other = FeatureStore(self.vectors.shape[1])
        other._vectors = _GrowingArray(self.vectors[~removed])
        other._product = _GrowingArray(self.product[~removed])
        other._component = _GrowingArray(self.component[~removed])
        other._day = _GrowingArray(self.day[~removed])
        other.text = self.text.without(removed)
        other.title = self.title.without(removed)
        return other


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
