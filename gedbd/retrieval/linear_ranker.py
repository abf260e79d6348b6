"""A learnt sum of scores: dense, lexical, fields, recency.

Every score is standardised over the candidates of its query. The weights maximise the softmax probability of the right
group among the candidates that rank highest: a *listwise* loss. A pairwise loss over sampled negatives learns to tell
duplicates from reports nobody would confuse them with, and fails at the top of the list.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from gedbd.corpora.documents import Corpus
from gedbd.retrieval.ranking import BLOCK
from gedbd.retrieval.scorers import Baseline
from gedbd.retrieval.scorers.textless import linked_groups

SHORTLIST = 200


class LearntFusion:
    """A weighted sum of per-query z-scores; learnt on queries of the training part.

    Args:
        features: Baselines to sum, by name.
        l2: Weight of the penalty on squared weights.
        rounds: Times the shortlist is drawn anew by the weights learnt so far; it starts with equal ones.

    Attributes:
        weights_: Learnt weight of each feature, by name.
    """

    looks_back = True

    def __init__(self, features: Mapping[str, Baseline], l2: float = 0.001, rounds: int = 2) -> None:
        self.features, self.l2, self.rounds = dict(features), l2, rounds

    def fit(self, corpus: Corpus, train: pd.DataFrame) -> None:
        """Fits the features, then learns their weights."""
        if not self.features or not (train["label"] == 1).any():
            raise ValueError(
                "fusion needs at least one feature, and a duplicate pair in the training part to learn from"
            )
        for feature in self.features.values():
            feature.fit(corpus, train)
        group = linked_groups(train, len(corpus))
        rows = np.unique(train.loc[train["label"] == 1, "later"].to_numpy())
        weights = np.ones(len(self.features))
        for _ in range(self.rounds):
            lists, relevant = self._shortlists(rows, group, weights)
            weights = learn_weights(lists, relevant, self.l2)
        self.weights_ = dict(zip(self.features, weights.tolist(), strict=True))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``."""
        weights = np.array(list(self.weights_.values()), dtype=np.float32)
        return np.asarray(np.einsum("f,fbn->bn", weights, self._standard_scores(rows)))

    def _standard_scores(self, rows: np.ndarray) -> np.ndarray:
        """Scores of all features over the earlier reports, mean 0 and deviation 1 for each query, ``(F, B, N)``."""
        stacked = np.stack([feature(rows) for feature in self.features.values()]).astype(np.float32)
        for place, row in enumerate(rows):
            for scores in stacked[:, place]:
                scores[:] = standardise(scores, row)
        return stacked

    def _shortlists(self, rows: np.ndarray, group: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The highest candidates of each query: features ``(Q, S, F)``, and which are relevant, ``(Q, S)``.

        Relevant ones are always among them, of very large groups the newest. Shorter lists are filled up with places of
        no probability (``nan``).
        """
        lists, relevant = [], []
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            scores = self._standard_scores(block)
            for place, row in enumerate(block):
                mine = scores[:, place, :row]
                right = np.flatnonzero(group[:row] == group[row])
                order = np.argsort(-(weights @ mine), kind="stable")
                wrong = order[group[order] != group[row]]
                chosen = np.concatenate([right[-SHORTLIST // 2 :], wrong])[:SHORTLIST]
                padded = np.full((SHORTLIST, len(weights)), np.nan, dtype=np.float32)
                padded[: len(chosen)] = mine[:, chosen].T
                lists.append(padded)
                relevant.append(np.isin(np.arange(SHORTLIST), np.arange(min(len(right), SHORTLIST // 2))))
        return np.stack(lists), np.stack(relevant)


def standardise(scores: np.ndarray, row: int) -> np.ndarray:
    """Scores of a query in a row with mean 0 and deviation 1 over the earlier reports; all 0 if those are alike."""
    earlier = scores[:row].astype(np.float64)
    if not row or earlier.min() == earlier.max():
        return np.zeros_like(scores)
    return np.asarray((scores - earlier.mean()) / earlier.std(), dtype=np.float32)


def learn_weights(lists: np.ndarray, relevant: np.ndarray, l2: float) -> np.ndarray:
    """Weights that minimise -log P(relevant), P the softmax over each list, ``(Q, S, F), (Q, S) -> (F,)``."""
    from scipy.optimize import minimize
    from scipy.special import log_softmax, logsumexp

    absent = np.isnan(lists[:, :, 0])
    features = np.nan_to_num(lists).astype(np.float64)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        logits = np.where(absent, -np.inf, features @ weights)
        log_all = log_softmax(logits, axis=1)
        log_right = np.where(relevant, log_all, -np.inf)
        total = logsumexp(log_right, axis=1)
        pull = np.exp(log_right - total[:, None]) - np.exp(log_all)
        gradient = -np.einsum("qs,qsf->f", pull, features) / len(features) + 2 * l2 * weights
        return float(-total.mean() + l2 * weights @ weights), gradient

    return np.asarray(minimize(loss, np.zeros(features.shape[2]), jac=True, method="L-BFGS-B").x)
