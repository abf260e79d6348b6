"""Scorers that read no text: they show what the evaluation protocol alone gives away."""

import numpy as np

from gedbd.retrieval.scorers.scorer import Scorer, ScorerInputs, linked_groups


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
        """Follows the chains."""
        inputs.check_one_table("closure")
        self.group_ = linked_groups(inputs.train, len(inputs.documents))

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 1 if connected, else 0."""
        return np.asarray(self.group_[rows, None] == self.group_, dtype=np.float32)
