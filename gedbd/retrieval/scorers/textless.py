"""Baselines that read no text. What they score is what the protocol gives away."""

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.relevance import find_groups


class Constant:
    """Every two reports are equally alike: pairs are always duplicates, the oldest reports come first."""

    threshold = 1.0

    def fit(self, corpus: Corpus, train: pd.DataFrame) -> None:
        """Needs no more than the number of reports."""
        self.size_ = len(corpus)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` ones."""
        return np.ones((len(rows), self.size_), dtype=np.float32)


class Closure:
    """Two reports are duplicates if a chain of positive *training* pairs ties them: transitive closure.

    It finds something only where the split lets training pairs reach both reports of a test pair.
    """

    threshold = 1.0

    def fit(self, corpus: Corpus, train: pd.DataFrame) -> None:
        """Follows the chains."""
        self.group_ = linked_groups(train, len(corpus))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 1 if tied, else 0."""
        return np.asarray(self.group_[rows, None] == self.group_, dtype=np.float32)


def linked_groups(train: pd.DataFrame, num_reports: int) -> np.ndarray:
    """The groups that the positive ones of some pairs make, ``(N,)``; a report in none of them is its own group."""
    links = train.loc[train["label"] == 1, ["later", "earlier"]].to_numpy(dtype=np.int64).T
    return find_groups(links, num_reports)
