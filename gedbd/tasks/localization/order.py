"""The order of changes with equal scores, and orders that read no content."""

import numpy as np

from gedbd.corpora.relevance import Links
from gedbd.retrieval.scorers.fields import Recency
from gedbd.retrieval.scorers.scorer import Scorer, ScorerInputs

EARLIER_BUGS = "earlier_bugs"


class Age(Recency):
    """log(1 + days between change and report): the oldest change first, which is often the import of a project."""

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 or above."""
        return -super().scores(rows)


class EarlierBugs(Scorer):
    """How many earlier bugs a change is known to have induced when the report is made; reads no content.

    Args:
        links: Inducing changes of reports; a link is known from ``made_at`` on, one without a date never.
        inputs: The reports and changes that the links are of.
    """

    def __init__(self, links: Links, inputs: ScorerInputs) -> None:
        known = links.table[links.table["made_at"].notna()]
        self.made_at = known["made_at"].to_numpy(dtype="datetime64[ns]")
        self.documents = known["document"].to_numpy(dtype=np.int64)
        self.queries = known["query"].to_numpy(dtype=np.int64)
        self.created_at = inputs.queries["created_at"].to_numpy(dtype="datetime64[ns]")
        self.num_documents = len(inputs.documents)

    def fit(self, inputs: ScorerInputs) -> None:
        """Does nothing."""

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` counts."""
        return np.stack([self._counts(int(row)) for row in rows])

    def _counts(self, row: int) -> np.ndarray:
        is_known = (self.made_at < self.created_at[row]) & (self.queries != row)
        return np.bincount(self.documents[is_known], minlength=self.num_documents).astype(np.float32)


class NewestFirst(Scorer):
    """The places of documents by a fitted scorer: of equal scores, the newer document comes first.

    Many reports name no file and have no stack trace, so that a scorer of these gives all changes the same score. With
    the oldest first, such a scorer would be as good as the age of a change, which finds the import of a project.

    Args:
        scorer: A fitted scorer.
    """

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer

    def fit(self, inputs: ScorerInputs) -> None:
        """Does nothing."""

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` places from 0, the highest for the highest score: scores 5 5 1 give 1 2 0."""
        scores = np.asarray(self.scorer.scores(rows), dtype=np.float32)
        order = np.argsort(scores, axis=1, kind="stable")
        places = np.empty_like(scores)
        np.put_along_axis(places, order, np.arange(scores.shape[1], dtype=np.float32)[None], axis=1)
        # NaN is sorted to the end: it would be the best score.
        return np.where(np.isnan(scores), np.nan, places)
