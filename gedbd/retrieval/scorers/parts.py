"""Scores of documents from those of their parts: files from hunks, commits from files."""

from typing import Literal

import numpy as np
import pandas as pd

from gedbd.retrieval.scorers.scorer import Scorer, ScorerInputs


class BestPart(Scorer):
    """A document scores as its best part: a file as its best hunk, a commit as its best file.

    For commits by their hunks, nest it: ``BestPart(BestPart(scorer, hunks, "file"), files, "commit")``. A document
    without a part scores 1 below the lowest part of all.

    Args:
        scorer: Scores the parts; it is fitted to them. A part of a relevant document counts as relevant.
        parts: The table of the parts, such as ``ChangeCorpus.hunks.table``.
        parent: Its column with the row of the document that each part belongs to.
    """

    def __init__(self, scorer: Scorer, parts: pd.DataFrame, parent: Literal["file", "commit"]) -> None:
        self.scorer = scorer
        self.parts = parts
        self.parent = parent
        self.earlier_only = scorer.earlier_only

    def fit(self, inputs: ScorerInputs) -> None:
        """Fits the scorer of the parts.

        Raises:
            ValueError: If a part belongs to none of the documents.
        """
        self.parents_ = self.parts[self.parent].to_numpy(dtype=np.int64)
        self.num_documents_ = len(inputs.documents)
        if len(self.parents_) and not 0 <= self.parents_.min() <= self.parents_.max() < self.num_documents_:
            raise ValueError(
                f"BestPart: the column {self.parent!r} names rows beyond the {self.num_documents_:,} documents"
            )
        parents = pd.DataFrame({"document": self.parents_, "part": np.arange(len(self.parents_))})
        pairs = inputs.train.merge(parents, on="document").drop(columns="document")
        train = pairs.rename(columns={"part": "document"})
        self.scorer.fit(ScorerInputs(self.parts, inputs.queries, train))
        self.warnings_ = self.scorer.warnings_

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``."""
        return best_part_scores(self.scorer.scores(rows), self.parents_, self.num_documents_)


def best_part_scores(scores: np.ndarray, parents: np.ndarray, num_documents: int) -> np.ndarray:
    """The maximum over the parts of each document, ``(B, M) -> (B, N)``.

    Args:
        scores: Scores of M parts.
        parents: ``(M,)`` the document of each part.
        num_documents: Number N of documents; one without a part gets the lowest score of its row less 1.
    """
    lowest = scores.min(axis=1, initial=0.0, keepdims=True) - 1
    best = np.repeat(lowest.astype(scores.dtype), num_documents, axis=1)
    order = np.argsort(parents, kind="stable")
    # Parents [0, 0, 2] begin at places 0 and 2 of the sorted parts.
    documents, starts = np.unique(parents[order], return_index=True)
    if len(documents):
        best[:, documents] = np.maximum.reduceat(scores[:, order], starts, axis=1)
    return best
