"""Scores from what a tracker's form holds beside the text.

Fields are taken as they stand in the export, which may be after triage: a component that a triager corrected helps more
than the one the reporter chose. ``priority`` and ``version`` are compared as text.
"""

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.fields import check_field, field_codes


class FieldAgreement:
    """1 where a field of both reports is the same and not empty, else 0.

    Args:
        field: product, component, version or priority.
    """

    def __init__(self, field: str) -> None:
        check_field(field)
        self.field = field

    def fit(self, corpus: Corpus, train: pd.DataFrame) -> None:
        """Numbers the values."""
        self.codes_ = field_codes(corpus.reports, self.field)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` 0 or 1."""
        codes = self.codes_[rows, None]
        return np.asarray((codes == self.codes_) & (codes >= 0), dtype=np.float32)


class Recency:
    """-log(1 + days between two reports): duplicates come in bursts. Where dates are missing, rows count as days."""

    def fit(self, corpus: Corpus, train: pd.DataFrame) -> None:
        """Reads the dates."""
        filed = corpus.reports["created_at"]
        days = (filed - filed.min()) / pd.Timedelta(days=1)
        self.days_ = np.arange(len(corpus)) if filed.isna().any() else days.to_numpy()

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 or below."""
        return -np.log1p(np.abs(self.days_[rows, None] - self.days_)).astype(np.float32)
