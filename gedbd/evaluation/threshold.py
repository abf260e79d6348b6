"""Choosing the similarity from which two reports are called duplicates."""

import numpy as np

GRID = np.round(np.arange(0, 1.025, 0.05), 2)


def best_threshold(scores: np.ndarray, labels: np.ndarray, grid: np.ndarray = GRID) -> float:
    """The threshold of a grid with the best F1; the lowest of several equals.

    Args:
        scores: ``(P,)`` cosines.
        labels: ``(P,)`` 1 duplicate, 0 not, with at least one duplicate.
        grid: ``(T,)`` thresholds to try; the paper's is 0, 0.05, ..., 1.
    """
    predicted = scores[None, :] >= grid[:, None].astype(scores.dtype)
    hits = (predicted & (labels == 1)).sum(axis=1)
    f1 = 2 * hits / (predicted.sum(axis=1) + (labels == 1).sum())
    return float(grid[np.argmax(f1)])


def score_grid(scores: np.ndarray, most: int = 400) -> np.ndarray:
    """Thresholds to try for scores of any range: at most so many quantiles of the scores themselves, ascending."""
    return np.unique(np.quantile(scores, np.linspace(0, 1, most), method="higher"))
