"""Title vectors in few dimensions, from which the edges are made."""

from collections.abc import Sequence

import numpy as np
import torch
from sklearn.decomposition import PCA
from torch import Tensor
from torch.nn.functional import normalize

COMMONEST = 256
SAMPLED_PAIRS = 20_000


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
    pca = PCA(n_components=pca_dim, svd_solver="covariance_eigh").fit(vectors[fit_rows])
    return normalize(torch.from_numpy(pca.transform(vectors).astype(np.float32)), dim=1)


def sample_cosines(raw: np.ndarray, reduced: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Cosines of up to 20,000 pairs of titles drawn at random, always the same ones, before and after the reduction.

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
    first, second = first[apart], second[apart]
    length = np.linalg.norm(raw, axis=1).clip(1e-12)
    of_raw = (raw[first] * raw[second]).sum(axis=1) / (length[first] * length[second])
    unit = reduced.numpy()
    of_reduced = (unit[first] * unit[second]).sum(axis=1)
    return of_raw.astype(np.float32), of_reduced.astype(np.float32)


def join_fields(vectors: Tensor, fields: Sequence[np.ndarray], weight: float) -> Tensor:
    """Draws reports together that agree in a field of the tracker's form: edges that tell more than titles do.

    The cosine of two reports becomes (cos + weight * number of fields they agree in) / (1 + weight * number of fields)
    where both have all fields. An empty field, or a value that is not one of the commonest, agrees with nothing.

    Args:
        vectors: ``(N, d)`` unit title vectors.
        fields: Codes of each field, ``(N,)``, -1 where it is empty.
        weight: Weight of a field beside the titles'.

    Returns:
        ``(N, d + one column a value)`` unit rows.

    Raises:
        ValueError: If the weight is not above 0.
    """
    if not weight > 0:
        raise ValueError(f"graph.field_weight={weight} must be above 0; graph.fields=[] leaves the fields out")
    parts = [vectors]
    for codes in fields:
        values, counts = np.unique(codes[codes >= 0], return_counts=True)
        common = values[np.argsort(-counts, kind="stable")[:COMMONEST]]
        parts.append(torch.from_numpy((codes[:, None] == common) * np.sqrt(weight)).float())
    return normalize(torch.cat(parts, dim=1), dim=1)
