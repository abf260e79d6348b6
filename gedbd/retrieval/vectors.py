"""Scores of pairs and of queries from the vectors of reports."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gedbd.retrieval.scorers.dense_scorer import VectorScorer

# The loss of U vectors and P pairs of them: ``z (U, D)``, groups ``(U,)``, rows ``(2, P)`` and labels ``(P,)``.
PairLoss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class Embedded(NamedTuple):
    """Distinct reports that were encoded.

    Attributes:
        n_id: ``(U,)`` their rows in the corpus, ascending.
        z: ``(U, D)`` their fused vectors, of length 1.
        z_text: ``(U, D)`` their text vectors, of length 1.
    """

    n_id: Tensor
    z: Tensor
    z_text: Tensor


def score_pairs(
    reports: Embedded, pairs: pd.DataFrame, group: np.ndarray, loss: PairLoss
) -> tuple[pd.DataFrame, Tensor]:
    """Scores pairs of embedded reports.

    Args:
        reports: The reports of the pairs, and others.
        pairs: Pairs with ``earlier``, ``later`` and ``label``.
        group: ``(N,)`` group of every report.
        loss: See ``PairLoss``.

    Returns:
        The pairs with ``score`` and ``score_text`` added, and their loss, as if their reports were one batch.

    Raises:
        ValueError: If a report was not encoded.
    """
    index = places(reports.n_id, pairs[["earlier", "later"]].to_numpy().T)
    label = torch.from_numpy(pairs["label"].to_numpy(dtype=np.int64, copy=True)).to(index.device)
    scored = pairs.assign(score=cosine(reports.z, index), score_text=cosine(reports.z_text, index))
    # The loss wants one batch: only the reports of the pairs, renumbered 0, 1, 2, ...
    rows, batch_index = torch.unique(index, return_inverse=True)
    groups = torch.from_numpy(group[reports.n_id[rows].cpu().numpy()]).to(index.device)
    return scored, loss(reports.z[rows], groups, batch_index, label)


def distinct(n_id: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Sorts rows and keeps the first vector of each, ``(B,), (B, D) -> (U,), (U, D)``."""
    # Padding to equal shares lets several processes encode the same report; its first vector counts.
    order = n_id.argsort(stable=True)
    ordered = n_id[order]
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first], z[order[first]]


def places(n_id: Tensor, rows: np.ndarray) -> Tensor:
    """Positions of rows among sorted ones, of the same shape: rows ``[7, 2]`` among ``[2, 5, 7]`` are ``[2, 0]``.

    Raises:
        ValueError: If one is missing.
    """
    wanted = torch.from_numpy(rows.copy()).to(n_id.device)
    # A row above all others would be at U, which no index reaches: it is clamped, and then differs below.
    index = torch.searchsorted(n_id, wanted).clamp(max=len(n_id) - 1)
    if not torch.equal(n_id[index], wanted):
        raise ValueError("reports were not encoded: leave out trainer.limit_val_batches and limit_test_batches")
    return index


def cosine(z: Tensor, index: Tensor) -> np.ndarray:
    """Cosines of pairs of unit rows, ``(U, D), (2, P) -> (P,)``."""
    return np.asarray((z[index[0]] * z[index[1]]).sum(-1).cpu().numpy())


def spread(n_id: np.ndarray, vectors: np.ndarray, num_reports: int) -> VectorScorer:
    """A scorer by the cosines of some reports' unit vectors; the other reports score 0."""
    all_vectors = np.zeros((num_reports, vectors.shape[1]), dtype=np.float32)
    all_vectors[n_id] = vectors
    return VectorScorer(all_vectors)
