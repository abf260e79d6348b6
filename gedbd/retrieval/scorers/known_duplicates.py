"""A score of documents by the duplicates that they already have."""

import numpy as np

from gedbd.retrieval.scorers.scorer import Scorer, ScorerInputs, linked_groups


class KnownDuplicates(Scorer):
    """The logarithm of the number of documents in a document's group: what was asked twice is asked again.

    Groups are those of the training pairs, as far as they exist when the query is made; the query itself and later
    documents do not count. A document without known duplicates scores 0.
    """

    earlier_only = True

    def fit(self, inputs: ScorerInputs) -> None:
        """Finds the groups."""
        inputs.check_one_table("KnownDuplicates")
        self.group_ = linked_groups(inputs.train, len(inputs.documents))

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 or above."""
        scores = np.empty((len(rows), len(self.group_)), dtype=np.float32)
        for place, row in enumerate(rows):
            sizes = np.bincount(self.group_[:row], minlength=len(self.group_))
            scores[place] = np.log(np.maximum(sizes[self.group_], 1))
        return scores
