"""Scorers that read no text: they show what the evaluation protocol alone gives away."""

import numpy as np

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
        """Follows the chains."""
        inputs.check_one_table("closure")
        self.group_ = linked_groups(inputs.train, len(inputs.documents))

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 1 if connected, else 0."""
        return np.asarray(self.group_[rows, None] == self.group_, dtype=np.float32)


class KnownDuplicates(Scorer):
    """log of the size of each document's group among the documents before the query, as training pairs show it.

    A question that has been asked ten times before will be asked again. The query is not among those counted, and a
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
        for place, row in enumerate(rows):
            # Groups 0 0 2 0 with row 3 as the query: before it group 0 has 2 members and group 2 has 1.
            sizes = np.bincount(self.group_[:row], minlength=len(self.group_))
            # A group whose first member is the query or later has no member yet: 1, so that the logarithm is 0.
            scores[place] = np.log(sizes[self.group_].clip(1))
        return scores
