"""Hard negatives: what the vectors of the last epoch take for most alike."""

import faiss
import numpy as np


def nearest_rows(vectors: np.ndarray, rows: np.ndarray, candidates: np.ndarray, count: int) -> dict[int, np.ndarray]:
    """For each of some reports the candidates most like it, nearest first.

    Args:
        vectors: ``(N, D)`` unit rows.
        rows: Reports.
        candidates: Other reports; at most ``count`` of them are given.
        count: How many.
    """
    count = min(count, len(candidates))
    _, found = faiss.knn(vectors[rows], vectors[candidates], count, metric=faiss.METRIC_INNER_PRODUCT)
    return dict(zip(rows.tolist(), candidates[found], strict=True))


def nearest_groups(vectors: np.ndarray, groups: list[np.ndarray], count: int) -> np.ndarray:
    """The numbers of the groups most like each, by the direction of their mean; itself is among them.

    Args:
        vectors: ``(N, D)`` unit rows.
        groups: Rows of each of G groups.
        count: How many others.

    Returns:
        ``(G, count + 1)``, nearest first; fewer columns if there are fewer groups.
    """
    means = np.stack([vectors[rows].mean(axis=0) for rows in groups]).astype(np.float32)
    means /= np.linalg.norm(means, axis=1, keepdims=True).clip(1e-12)
    _, found = faiss.knn(means, means, min(count + 1, len(means)), metric=faiss.METRIC_INNER_PRODUCT)
    return np.asarray(found)
