"""What a trained model has to beat. Each learns from the training pairs and then scores all reports for a query."""

from typing import Protocol

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus


class Baseline(Protocol):
    """A fitted one is a ``gedbd.retrieval.ranking.Scorer``.

    It may have a ``threshold`` of its own for pairs, ``looks_back = True`` if it scores earlier reports only, and
    ``warnings_`` of the text template, for the user.
    """

    def fit(self, corpus: Corpus, train: pd.DataFrame) -> None:
        """Learns from all reports' texts and from the pairs of the training part, as ``PairSampler`` made them."""
        ...

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Scores of some reports against all, ``(B,) -> (B, N)``; higher is more alike."""
        ...
