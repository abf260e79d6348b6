"""Scores from what a tracker's form holds beside the text.

Fields are taken as they stand in the export, which may be after triage: a component that a triager corrected helps more
than the one the reporter chose. ``priority`` and ``version`` are compared as text.
"""

import numpy as np
import pandas as pd

from gedbd.data.corpus import Corpus

FIELDS = ("product", "component", "version", "priority")


class FieldAgreement:
    """1 where a field of both reports is the same and not empty, else 0.

    Args:
        field: product, component, version or priority.
    """

    def __init__(self, field: str) -> None:
        if field not in FIELDS:
            raise ValueError(f"field={field} is unknown: choose {', '.join(FIELDS)}")
        self.field = field

    def fit(self, corpus: Corpus, train: pd.DataFrame) -> None:
        """Numbers the values."""
        self.codes_ = field_codes(corpus.reports, self.field)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` 0 or 1."""
        codes = self.codes_[rows, None]
        return np.asarray((codes == self.codes_) & (codes >= 0), dtype=np.float32)


class Recency:
    """-log(1 + days between two reports): duplicates come in bursts. Without dates, reports between them count."""

    def fit(self, corpus: Corpus, train: pd.DataFrame) -> None:
        """Reads the dates."""
        filed = corpus.reports["created_at"]
        days = (filed - filed.min()) / pd.Timedelta(days=1)
        self.days_ = np.arange(len(corpus)) if filed.isna().any() else days.to_numpy()

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 or below."""
        return -np.log1p(np.abs(self.days_[rows, None] - self.days_)).astype(np.float32)


def field_codes(reports: pd.DataFrame, field: str) -> np.ndarray:
    """A number for each value of a field, ``(N,)``; -1 where it is empty."""
    values = products(reports) if field == "product" else reports[field].str.strip().str.lower()
    codes, _ = pd.factorize(values.where(values != ""))
    return np.asarray(codes)


def products(reports: pd.DataFrame) -> pd.Series:
    """The product of each report: what its component names before a slash, or the project of an id such as HDFS-12."""
    before_slash = reports["component"].str.extract(r"^\s*([^/]+)/", expand=False)
    project = reports["issue_id"].str.extract(r"^([A-Za-z][A-Za-z0-9_]*)-\d+$", expand=False)
    return before_slash.fillna(project).fillna("").str.strip().str.lower()
