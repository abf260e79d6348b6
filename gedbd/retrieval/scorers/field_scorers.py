"""Scores from a tracker's form: agreement of fields, and closeness in time.

Fields are compared as the export has them, which may be after triage: a component that a triager corrected helps more
than the one the reporter chose. ``priority`` and ``version`` are compared as text.
"""

import numpy as np
import pandas as pd

from gedbd.corpora.fields import check_field, products
from gedbd.retrieval.reports.report_features import CategoryEncoder, days_of
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs


class FieldAgreement(Scorer):
    """1 where query and document have the same value in a field, else 0; an empty field agrees with nothing.

    Args:
        field: product, component, version or priority.
    """

    def __init__(self, field: str) -> None:
        check_field(field)
        self.field = field

    def fit(self, inputs: ScorerInputs) -> None:
        """Numbers the values."""
        encoder = CategoryEncoder()
        self.documents_ = encoder(field_values(inputs.documents, self.field), learn=True)
        self.queries_ = self.documents_
        if not inputs.one_table:
            self.queries_ = encoder(field_values(inputs.queries, self.field), learn=False)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` 0 or 1."""
        return agreement(self.documents_, self.queries_[rows])


class Recency(Scorer):
    """-log(1 + days between query and document): duplicates come in bursts. Without dates, rows count as days."""

    def fit(self, inputs: ScorerInputs) -> None:
        """Reads the dates."""
        created_at = inputs.documents["created_at"]
        # Days since the first document instead of 1970: the smaller a number, the finer its fraction of a day.
        origin = created_at.min()
        self.documents_ = days_of(created_at, origin)
        self.queries_ = days_of(inputs.queries["created_at"], origin)
        self.num_earlier_ = inputs.num_earlier

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 or below."""
        return recency(self.documents_, self.queries_[rows], self.num_earlier_[rows])


def field_values(table: pd.DataFrame, field: str) -> pd.Series:
    """A field as it is compared: where the column ``product`` is empty, component or id may name the product."""
    return products(table) if field == "product" else table[field]


def agreement(documents: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """1 where codes are equal and neither is ``EMPTY`` or ``UNKNOWN``, else 0, ``(N,), (B,) -> (B, N)`` float32."""
    codes = queries[:, None]
    return np.asarray((codes == documents) & (codes >= 0), dtype=np.float32)


def recency(documents: np.ndarray, queries: np.ndarray, num_earlier: np.ndarray) -> np.ndarray:
    """-log(1 + days between), ``(N,), (B,), (B,) -> (B, N)`` float32.

    Args:
        documents: Days of the documents since any origin.
        queries: Days of the queries since the same origin.
        num_earlier: The row that each query has or would have; where a date is missing, rows count as days.
    """
    scores = np.empty((len(queries), len(documents)), dtype=np.float32)
    no_dates = bool(np.isnan(documents).any())
    # One query at a time: of the two distances only one is computed.
    for place, (day, row) in enumerate(zip(queries, num_earlier, strict=True)):
        apart = np.arange(len(documents)) - row if no_dates or np.isnan(day) else documents - day
        scores[place] = -np.log1p(np.abs(apart))
    return scores
