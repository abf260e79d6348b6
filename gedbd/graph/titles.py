"""Title vectors in few dimensions, from which the edges are made."""

import numpy as np
import torch
from sklearn.decomposition import PCA
from torch import Tensor
from torch.nn.functional import normalize


def reduce_titles(vectors: np.ndarray, fit_rows: np.ndarray, pca_dim: int) -> Tensor:
    """Projects title vectors on their first principal components and scales them to unit length.

    The paper reduces bert-base-uncased [CLS] vectors of the titles of *all* reports to 10 dimensions; here the
    components are learnt on training rows only.

    Args:
        vectors: ``(N, hidden)`` title vectors from a frozen encoder.
        fit_rows: ``(N,)`` bool, the rows that PCA may learn from.
        pca_dim: Dimensions d that are kept.

    Returns:
        ``(N, d)`` float32 unit rows; a title whose reduced vector is zero stays zero, half-similar to all.

    Raises:
        ValueError: If there are fewer training rows or vector dimensions than ``pca_dim``.
    """
    most = min(int(fit_rows.sum()), vectors.shape[1])
    if not 0 < pca_dim <= most:
        raise ValueError(
            f"graph.pca_dim={pca_dim} must lie between 1 and {most}, the training rows and vector size at hand"
        )
    pca = PCA(n_components=pca_dim, svd_solver="full").fit(vectors[fit_rows])
    return normalize(torch.from_numpy(pca.transform(vectors).astype(np.float32)), dim=1)
