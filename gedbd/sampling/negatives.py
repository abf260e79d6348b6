"""Random negatives: pairs of reports of two groups, drawn inside one part of a split."""

import faiss
import numpy as np
import pandas as pd

from gedbd.corpora.splits import Split

MAX_DRAW_ROUNDS = 200


class NegativeSampler:
    """Draws negatives inside one part by rejection sampling, each at most once.

    A pair of rows i < j of N is coded as one number, i * N + j: with N = 10, (2, 7) is 27.

    Args:
        group: ``(N,)`` groups; a negative joins two of them.
        parts: ``(N,)`` part of each report.
        split: Determines the part of a pair.
        rng: Random numbers.
        rejected: Pairs ``earlier``, ``later`` that are not drawn.
    """

    def __init__(
        self,
        group: np.ndarray,
        parts: np.ndarray,
        split: Split,
        rng: np.random.Generator,
        rejected: pd.DataFrame | None = None,
    ) -> None:
        self.group = group
        self.parts = parts
        self.split = split
        self.rng = rng
        self.seen = np.empty(0, dtype=np.int64)
        # Rejected pairs are added to the training part later, with the other feedback.
        if rejected is not None:
            self.seen = rejected["earlier"].to_numpy() * len(group) + rejected["later"].to_numpy()

    def __call__(self, count: int, part: int, positives: pd.DataFrame | None = None) -> pd.DataFrame:
        """Draws ``count`` negatives of a part; with ``positives``, each contains a report of one of them in turn."""
        drawn = np.empty(0, dtype=np.int64)
        wanted = np.resize(np.arange(count if positives is None else len(positives)), count)
        for _ in range(MAX_DRAW_ROUNDS):
            if not len(wanted):
                break
            code = self._candidates(wanted, positives)
            good = self._acceptable(code, part)
            # A pair drawn twice in one round counts once: all but its first occurrence are drawn again.
            first = np.unique(code, return_index=True)[1]
            good[np.setdiff1d(np.arange(len(code)), first)] = False
            self.seen = np.concatenate([self.seen, code[good]])
            drawn = np.concatenate([drawn, code[good]])
            wanted = wanted[~good]
        earlier, later = np.divmod(drawn, len(self.group))
        return pd.DataFrame({"earlier": earlier, "later": later, "part": np.int8(part), "label": 0})

    def _candidates(self, wanted: np.ndarray, positives: pd.DataFrame | None) -> np.ndarray:
        """Codes of random pairs, one for each number of a positive in ``wanted``."""
        partner = self.rng.integers(len(self.group), size=len(wanted))
        if positives is None:
            anchor = self.rng.integers(len(self.group), size=len(wanted))
        else:
            side = self.rng.integers(2, size=len(wanted))
            anchor = positives[["earlier", "later"]].to_numpy()[wanted, side]
        return np.minimum(anchor, partner) * len(self.group) + np.maximum(anchor, partner)

    def _acceptable(self, code: np.ndarray, part: int) -> np.ndarray:
        """Whether pairs join two groups, belong to the part and are new."""
        earlier, later = np.divmod(code, len(self.group))
        other_group = self.group[earlier] != self.group[later]
        inside = self.split.of_pairs(self.parts, earlier, later) == part
        return np.asarray(other_group & inside & ~np.isin(code, self.seen))


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
