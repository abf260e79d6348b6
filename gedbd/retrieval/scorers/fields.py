"""Scores from a tracker's form: agreement of fields, and closeness in time.

Fields are compared as the export has them, which may be after triage: a component that a triager corrected helps more
than the one the reporter chose. ``priority`` and ``version`` are compared as text.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from gedbd.corpora.fields import check_field, products
from gedbd.retrieval.scorers.scorer import Scorer, ScorerInputs

EMPTY, UNKNOWN = -1, -2

EPOCH = pd.Timestamp(0, tz="UTC")


class CategoryEncoder:
    """A number for each value of a field; upper and lower case are the same.

    Args:
        values: The values with the numbers 0, 1, 2, ...
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._codes = {name: code for code, name in enumerate(values)}

    @property
    def values(self) -> list[str]:
        """All values, in the order of their numbers."""
        return list(self._codes)

    def __call__(self, values: Iterable[str], learn: bool) -> np.ndarray:
        """``(B,)`` int32 codes: ``EMPTY`` for no value, ``UNKNOWN`` for a new one unless it is learned."""
        names = [value.strip().lower() for value in values]
        if learn:
            for name in filter(None, names):
                self._codes.setdefault(name, len(self._codes))
        # Two codes below 0, because an empty value and an unknown one agree with nothing, each other included.
        codes = [self._codes.get(name, UNKNOWN) if name else EMPTY for name in names]
        return np.array(codes, dtype=np.int32)


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


def days_of(dates: pd.Series, origin: pd.Timestamp = EPOCH) -> np.ndarray:
    """Days since an origin, ``(B,)`` float64; NaN where there is no date."""
    # On the array inside: a series takes twice as long for a single date.
    return np.asarray((dates.array - origin) / pd.Timedelta(days=1), dtype=np.float64)


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
