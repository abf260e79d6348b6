"""Scorers that read no text: constants, known duplicates, agreement of fields, and closeness in time.

Fields are compared as the export has them, which may be after triage: a component that a triager corrected helps more
than the one the reporter chose. ``priority`` and ``version`` are compared as text.
"""

import numpy as np
import pandas as pd

from gedbd.corpora.fields import check_field, products
from gedbd.retrieval.report_ranking.feature_store import CategoryEncoder, days_of
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs, linked_groups


class Constant(Scorer):
    """The same score for all: every pair is a duplicate, and the oldest documents come first."""

    threshold = 1.0

    def fit(self, inputs: ScorerInputs) -> None:
        """Counts the documents."""
        self.num_documents_ = len(inputs.documents)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` ones."""
        return np.ones((len(rows), self.num_documents_), dtype=np.float32)


class Closure(Scorer):
    """Transitive closure: two reports are duplicates if a chain of positive *training* pairs connects them.

    It finds a duplicate only where the split lets training pairs reach both reports of a test pair.
    """

    threshold = 1.0

    def fit(self, inputs: ScorerInputs) -> None:
        """Finds the groups that the training pairs connect."""
        inputs.check_one_table("closure")
        self.group_ = linked_groups(inputs.train, len(inputs.documents))

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 1 if connected, else 0."""
        return np.asarray(self.group_[rows, None] == self.group_, dtype=np.float32)


class KnownDuplicates(Scorer):
    """log of the size of each document's group among the documents before the query, as training pairs show it.

    A question that has been asked ten times before will be asked again. The query itself is not counted, and a
    document that no training pair links has a group of its own, so that its score is 0.
    """

    earlier_only = True

    def fit(self, inputs: ScorerInputs) -> None:
        """Finds the groups that the training pairs link."""
        inputs.check_one_table("known_duplicates")
        self.group_ = linked_groups(inputs.train, len(inputs.documents))

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 or above."""
        scores = np.empty((len(rows), len(self.group_)), dtype=np.float32)
        for position, row in enumerate(rows):
            # Groups 0 0 2 0 with row 3 as the query: before it group 0 has 2 members and group 2 has 1.
            sizes = np.bincount(self.group_[:row], minlength=len(self.group_))
            # A group whose first member is the query or later has no member yet: 1, so that the logarithm is 0.
            scores[position] = np.log(sizes[self.group_].clip(1))
        return scores


class FieldAgreement(Scorer):
    """1 where query and document have the same value in a field, else 0; an empty field agrees with nothing.

    Args:
        field: product, component, version or priority.
    """

    def __init__(self, field: str) -> None:
        check_field(field)
        self.field = field

    def fit(self, inputs: ScorerInputs) -> None:
        """Encodes the values of the field."""
        encoder = CategoryEncoder()
        self.documents_ = encoder(field_values(inputs.documents, self.field), learn=True)
        self.queries_ = self.documents_
        if not inputs.one_table:
            self.queries_ = encoder(field_values(inputs.queries, self.field), learn=False)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` 0 or 1."""
        codes = self.queries_[rows, None]
        # Codes below 0 are ``EMPTY`` and ``UNKNOWN``, which agree with nothing.
        return np.asarray((codes == self.documents_) & (codes >= 0), dtype=np.float32)


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
        scores = np.empty((len(rows), len(self.documents_)), dtype=np.float32)
        no_dates = bool(np.isnan(self.documents_).any())
        # One query at a time, so that only one of the two distances is computed.
        for position, (day, row) in enumerate(zip(self.queries_[rows], self.num_earlier_[rows], strict=True)):
            in_rows = no_dates or np.isnan(day)
            distance = np.arange(len(self.documents_)) - row if in_rows else self.documents_ - day
            scores[position] = -np.log1p(np.abs(distance))
        return scores


def field_values(table: pd.DataFrame, field: str) -> pd.Series:
    """A field as it is compared: where the column ``product`` is empty, component or id may name the product."""
    return products(table) if field == "product" else table[field]
