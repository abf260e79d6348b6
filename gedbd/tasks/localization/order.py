"""The order of changes with equal scores, and an order that reads no content."""

import numpy as np

from gedbd.retrieval.scorers.fields import Recency
from gedbd.retrieval.scorers.scorer import Scorer, ScorerInputs


class Age(Recency):
    """log(1 + days between change and report): the oldest change first, which is often the import of a project."""

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 or above."""
        return -super().scores(rows)


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
