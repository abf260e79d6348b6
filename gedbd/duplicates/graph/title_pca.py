"""Title vectors on their first principal components, and what that changes of their cosines."""

import numpy as np
import torch
from sklearn.decomposition import PCA
from torch import Tensor
from torch.nn.functional import normalize

SAMPLED_PAIRS = 20_000


def reduce_titles(vectors: np.ndarray, fit_rows: np.ndarray, pca_dim: int) -> Tensor:
    """Projects title vectors on their first principal components and scales them to unit length.

    The paper reduces bert-base-uncased vectors of the titles to 10 dimensions. It says neither how it pools them
    (``dense_bert``: [CLS]) nor on which reports the components are learnt: here on training rows only.

    Args:
        vectors: ``(N, hidden)`` title vectors from a frozen encoder.
        fit_rows: ``(N,)`` bool, the rows that PCA may learn from.
        pca_dim: Dimensions d that are kept.

    Returns:
        ``(N, d)`` float32 unit rows. A title whose reduced vector is zero stays zero: its kernel with all others is 1/2
        for power 1.

    Raises:
        ValueError: If there are fewer training rows or vector dimensions than ``pca_dim``.
    """
    limit = min(int(fit_rows.sum()), vectors.shape[1])
    if not 0 < pca_dim <= limit:
        raise ValueError(
            f"graph.pca_dim={pca_dim} must lie between 1 and {limit}, the training rows and vector size at hand"
        )
    pca = PCA(n_components=pca_dim, svd_solver="covariance_eigh").fit(vectors[fit_rows])
    return normalize(torch.from_numpy(pca.transform(vectors).astype(np.float32)), dim=1)


def sample_cosines(raw: np.ndarray, reduced: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Cosines of up to 20,000 random pairs of titles, always the same, before and after the reduction.

    The paper (its section 6) reports that cosines of raw vectors often exceed .95, which is why it reduces them.

    Args:
        raw: ``(N, hidden)`` title vectors.
        reduced: ``(N, d)`` unit rows made of them.

    Returns:
        Two ``(P,)`` float32 arrays; a zero vector has cosine 0 with all.
    """
    rng = np.random.default_rng(0)
    first = rng.integers(len(raw), size=SAMPLED_PAIRS)
    second = rng.integers(len(raw), size=SAMPLED_PAIRS)
    apart = first != second
    first = first[apart]
    second = second[apart]
    length = np.linalg.norm(raw, axis=1).clip(1e-12)
    of_raw = (raw[first] * raw[second]).sum(axis=1) / (length[first] * length[second])
    unit = reduced.numpy()
    of_reduced = (unit[first] * unit[second]).sum(axis=1)
    return of_raw.astype(np.float32), of_reduced.astype(np.float32)
