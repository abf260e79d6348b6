"""Walk-forward evaluation: test on one year, train on what came before it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from gedbd.corpora.documents import Documents
from gedbd.corpora.relevance import Groups
from gedbd.corpora.splits import OUTSIDE, PARTS, TEST, TRAIN, VAL

MAX_VAL_DAYS = 36_500


@dataclass(frozen=True)
class YearSplit:
    """Test on the documents of one calendar year (UTC), validate on the last days before it, train on all before these.

    Later documents belong to no part. A pair belongs to the part of its later document, as with ``TimeSplit``.

    Args:
        year: The year to test.
        val_days: Days of validation before the year, above 0.
    """

    year: int
    val_days: float = 92

    def of_documents(self, documents: Documents, groups: Groups | None = None) -> np.ndarray:
        """Parts by creation date, ``OUTSIDE`` after the year; groups play no role.

        Raises:
            ValueError: If there are no dates, the options are out of range, or a part would be empty.
        """
        if not documents.has_dates:
            raise ValueError(f"split=year needs creation dates, and {documents.name} has none: choose split=group")
        if not 0 < self.val_days <= MAX_VAL_DAYS:
            raise ValueError(f"split.val_days={self.val_days} must be above 0 and at most {MAX_VAL_DAYS}")
        if not pd.Timestamp.min.year < self.year < pd.Timestamp.max.year:
            raise ValueError(f"split.year={self.year} must be a year such as 2014")
        test_from = pd.Timestamp(self.year, 1, 1, tz="UTC")
        bounds = [test_from - pd.Timedelta(days=self.val_days), test_from, pd.Timestamp(self.year + 1, 1, 1, tz="UTC")]
        dates = documents.table["created_at"]
        # Documents of a bound's own moment belong to the part that it begins.
        val, test, end = (int(dates.searchsorted(bound, side="left")) for bound in bounds)
        self._check(documents, {"train": val, "val": test - val, "test": end - test})
        parts = np.full(len(documents), OUTSIDE, dtype=np.int8)
        parts[:val] = TRAIN
        parts[val:test] = VAL
        parts[test:end] = TEST
        return parts

    def of_pairs(self, parts: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """The part of the later document."""
        return np.asarray(parts[np.maximum(earlier, later)])

    def _check(self, documents: Documents, sizes: dict[str, int]) -> None:
        empty = [part for part in PARTS if not sizes[part]]
        if empty:
            dates = documents.table["created_at"]
            raise ValueError(
                f"split.year={self.year} leaves part {empty[0]} of {documents.name} without documents, which are"
                f" created from {dates.min():%Y-%m-%d} to {dates.max():%Y-%m-%d}: choose another year or split.val_days"
            )
