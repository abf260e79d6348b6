"""DupPredictor's search for the weights of its similarities."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gedbd.io.progress import track

RECALL_AT = (5, 10, 20)


class CandidateLists(NamedTuple):
    """The candidates of Q training queries.

    Attributes:
        scores: ``(F, Q, C)`` similarities; NaN where a query has fewer than C candidates.
        relevant: ``(Q, C)`` bool.
    """

    scores: np.ndarray
    relevant: np.ndarray

    @classmethod
    def padded(cls, scores: list[np.ndarray], relevant: list[np.ndarray]) -> "CandidateLists":
        """Joins lists of different lengths: Q of ``(F, n)`` similarities and of ``(n,)`` bool."""
        longest = max(len(one) for one in relevant)
        all_scores = np.full((len(scores[0]), len(scores), longest), np.nan, dtype=np.float32)
        all_relevant = np.zeros((len(scores), longest), dtype=bool)
        for place, (some, right) in enumerate(zip(scores, relevant, strict=True)):
            all_scores[:, place, : len(right)] = some
            all_relevant[place, : len(right)] = right
        return cls(all_scores, all_relevant)


@dataclass(frozen=True)
class WeightSearch:
    """Searches one weight after the other.

    As in DupPredictor: from random weights, each weight in turn takes the value of 0, 0.01, ..., 1 with which the
    recall rates at 5, 10 and 20 of the training queries have the highest sum, the others unchanged; the best of several
    starts wins. Decided here, as the public description leaves it open: of equal sums the first counts, and the
    candidates of a query are the documents that rank highest by one of the similarities alone.

    Args:
        starts: Number of random starts.
        steps: Number of steps between 0 and 1.
        seed: Seed of the starts.
    """

    starts: int = 10
    steps: int = 100
    seed: int = 0

    def __call__(self, lists: CandidateLists) -> np.ndarray:
        """The weights ``(F,)`` of the similarities, in [0, 1]."""
        rng = np.random.default_rng(self.seed)
        best = np.ones(len(lists.scores))
        best_recall = -1.0
        for _ in track(range(self.starts), "learn weights", transient=True):
            weights, recall = self._climb(lists, rng.random(len(lists.scores)))
            if recall > best_recall:
                best = weights
                best_recall = recall
        return best

    def _climb(self, lists: CandidateLists, weights: np.ndarray) -> tuple[np.ndarray, float]:
        """Improves each weight once; returns them and their recall."""
        weights = weights.copy()
        best = recall_sum(weighted(lists.scores, weights), lists.relevant)
        for feature in range(len(weights)):
            others = weights.copy()
            others[feature] = 0
            base = weighted(lists.scores, others)
            for value in np.linspace(0, 1, self.steps + 1):
                recall = recall_sum(base + value * lists.scores[feature], lists.relevant)
                if recall > best:
                    best = recall
                    weights[feature] = value
        return weights, best


def weighted(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted sum of similarities, ``(F, ...), (F,) -> (...)``."""
    return np.asarray(np.tensordot(weights, scores, axes=1))


def recall_sum(scores: np.ndarray, relevant: np.ndarray) -> float:
    """Sum of the recall rates at 5, 10 and 20.

    Args:
        scores: ``(Q, C)``; NaN is no candidate.
        relevant: ``(Q, C)`` bool.
    """
    highest = np.where(relevant, scores, -np.inf).max(axis=1, keepdims=True)
    # An irrelevant candidate with the same score may come first: it counts as if it did.
    ahead = ((scores >= highest) & ~relevant).sum(axis=1)
    return float(sum((ahead < k).mean() for k in RECALL_AT))
