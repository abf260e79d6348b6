"""Metrics over labelled pairs."""

import numpy as np
import torch
from sklearn.metrics import average_precision_score
from torchmetrics.functional.classification import (
    binary_accuracy,
    binary_f1_score,
    binary_precision,
    binary_recall,
)

GRID = np.round(np.arange(0, 1.025, 0.05), 2)
METRICS = ("precision", "recall", "f1", "accuracy", "average_precision")


def pairwise_metrics(scores: np.ndarray, labels: np.ndarray, threshold: float) -> dict[str, float]:
    """Precision, recall, F1 and accuracy at a threshold, and average precision over all thresholds.

    Args:
        scores: ``(P,)``, higher is more similar.
        labels: ``(P,)`` 1 for duplicates, 0 for others.
        threshold: Score from which a pair is predicted as a duplicate.

    Returns:
        A value between 0 and 1 for each name in ``METRICS``. Precision is 0 if no pair is predicted as a duplicate.
    """
    target = torch.from_numpy(np.array(labels, dtype=np.int64))
    # In the type of the scores: in float64, a float32 score would be below the threshold that was taken from it.
    predicted = torch.from_numpy((scores >= np.asarray(threshold, dtype=scores.dtype)).astype(np.int64))
    values = (
        binary_precision(predicted, target),
        binary_recall(predicted, target),
        binary_f1_score(predicted, target),
        binary_accuracy(predicted, target),
        average_precision_score(labels, scores),
    )
    return dict(zip(METRICS, (float(value) for value in values), strict=True))


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
