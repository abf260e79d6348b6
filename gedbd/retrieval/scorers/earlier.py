"""Scorers that look only at the documents that exist when the query is made."""

from abc import abstractmethod

import numpy as np

from gedbd.retrieval.scorers.scorer import Scorer, ScorerInputs


class EarlierScorer(Scorer):
    """Scores the documents before a query one query at a time. Later documents get the lowest score of the earlier.

    What a scorer counts, such as how many documents have a word, it counts in the earlier documents alone.

    Attributes:
        num_earlier_: ``(Q,)`` number of documents before each query.
        num_documents_: Number N of documents.
    """

    earlier_only = True

    def fit(self, inputs: ScorerInputs) -> None:
        """Reads documents and queries."""
        self.num_earlier_ = inputs.num_earlier
        self.num_documents_ = len(inputs.documents)
        self.read(inputs)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` float32."""
        scores = np.empty((len(rows), self.num_documents_), dtype=np.float32)
        for place, row in enumerate(rows):
            before = int(self.num_earlier_[row])
            earlier = self.earlier_scores(int(row), before)
            scores[place, :before] = earlier
            scores[place, before:] = earlier.min(initial=np.inf) if before else 0.0
        return scores

    @abstractmethod
    def read(self, inputs: ScorerInputs) -> None:
        """Reads documents and queries."""

    @abstractmethod
    def earlier_scores(self, row: int, before: int) -> np.ndarray:
        """Scores of a query against the first ``before`` documents, ``(before,)``."""
