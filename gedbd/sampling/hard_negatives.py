"""The reports and groups that are nearest to others, to draw hard negatives from."""

import faiss
import numpy as np


def nearest_rows(vectors: np.ndarray, rows: np.ndarray, candidates: np.ndarray, count: int) -> dict[int, np.ndarray]:
    """For each report the candidates most similar to it, nearest first.

    Args:
        vectors: ``(N, D)`` unit rows.
        rows: Reports.
        candidates: Other reports.
        count: Maximum number of candidates for each report.
    """
    count = min(count, len(candidates))
    _, found = faiss.knn(vectors[rows], vectors[candidates], count, metric=faiss.METRIC_INNER_PRODUCT)
    return dict(zip(rows.tolist(), candidates[found], strict=True))


def nearest_groups(vectors: np.ndarray, groups: list[np.ndarray], count: int) -> np.ndarray:
    """For each group the groups most similar to it, by the cosine of their mean vectors; a group is among its own.

    Args:
        vectors: ``(N, D)`` unit rows.
        groups: Rows of each of G groups.
        count: Number of other groups.

    Returns:
        ``(G, count + 1)`` group numbers, nearest first; fewer columns if there are fewer groups.
    """
    means = np.stack([vectors[rows].mean(axis=0) for rows in groups]).astype(np.float32)
    # A group's vectors may cancel out; the bound avoids a division by zero.
    means /= np.linalg.norm(means, axis=1, keepdims=True).clip(1e-12)
    _, found = faiss.knn(means, means, min(count + 1, len(means)), metric=faiss.METRIC_INNER_PRODUCT)
    return np.asarray(found)
