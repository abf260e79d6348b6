"""Chooses the similarity from which two reports are predicted as duplicates."""

import numpy as np

GRID = np.round(np.arange(0, 1.025, 0.05), 2)


def best_threshold(scores: np.ndarray, labels: np.ndarray, grid: np.ndarray = GRID) -> float:
    """The threshold of a grid with the best F1; the lowest one if several are equal.

    Args:
        scores: ``(P,)`` cosines.
        labels: ``(P,)`` 1 for duplicates, 0 for others, with at least one duplicate.
        grid: ``(T,)`` thresholds to try; the paper's is 0, 0.05, ..., 1.
    """
    predicted = scores[None, :] >= grid[:, None].astype(scores.dtype)
    hits = (predicted & (labels == 1)).sum(axis=1)
    f1 = 2 * hits / (predicted.sum(axis=1) + (labels == 1).sum())
    return float(grid[np.argmax(f1)])


def score_grid(scores: np.ndarray, max_thresholds: int = 400) -> np.ndarray:
    """Thresholds to try for scores of any range: quantiles of the scores themselves, ascending."""
    return np.unique(np.quantile(scores, np.linspace(0, 1, max_thresholds), method="higher"))
