"""Title vectors in few dimensions, from which edges are derived."""

from collections.abc import Sequence

import numpy as np
import torch
from sklearn.decomposition import PCA
from torch import Tensor
from torch.nn.functional import normalize

MAX_FIELD_VALUES = 256
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


def join_fields(
    vectors: Tensor, fields: Sequence[np.ndarray], weight: float, field_vectors: Sequence[np.ndarray] = ()
) -> Tensor:
    """Adds agreement in fields of the tracker's form to the similarity of titles.

    The cosine of two reports becomes (cos + weight * number of fields they agree in) / (1 + weight * number of fields)
    where both have all fields. Empty fields, and values beyond the ``MAX_FIELD_VALUES`` most frequent, agree with none.
    Two reports agree in a field of vectors by their cosine there, between -1 and 1, instead of by 0 or 1.

    Args:
        vectors: ``(N, d)`` unit title vectors.
        fields: Codes of each field, ``(N,)``, -1 where it is empty.
        weight: Weight of a field; the titles have weight 1.
        field_vectors: Vectors of each further field, ``(N, D)``, zero where it is empty.

    Returns:
        ``(N, d + V)`` unit rows, V the number of values and of the further fields' dimensions.

    Raises:
        ValueError: If the weight is not above 0.
    """
    if not weight > 0:
        raise ValueError(f"graph.field_weight={weight} must be above 0; graph.fields=[] leaves the fields out")
    # A one-hot column for each value, scaled by the root of the weight: two reports that agree get an inner product of
    # exactly the weight.
    parts = [vectors]
    for codes in fields:
        values, counts = np.unique(codes[codes >= 0], return_counts=True)
        common = values[np.argsort(-counts, kind="stable")[:MAX_FIELD_VALUES]]
        parts.append(torch.from_numpy((codes[:, None] == common) * np.sqrt(weight)).float())
    parts += [normalize(torch.from_numpy(rows), dim=1) * weight**0.5 for rows in field_vectors]
    return normalize(torch.cat(parts, dim=1), dim=1)
