"""Graphs as whole matrices, entry by entry as they are defined."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from gedbd.duplicates.graph.adjacency import SparseAdjacency


def unit_rows(count: int, dim: int = 4) -> Tensor:
    return normalize(torch.randn(count, dim, generator=torch.Generator().manual_seed(0)), dim=1)


def everyone(count: int) -> Tensor:
    return torch.ones(count, dtype=torch.bool)


def normalised(weight: Tensor) -> Tensor:
    """D^-1/2 K D^-1/2 of K, whose rows are targets."""
    scale = weight.sum(dim=1).rsqrt()
    return scale[:, None] * weight * scale


def dense_matrix(vectors: Tensor, inside: Tensor, power: int) -> Tensor:
    double = vectors.double()
    weight = ((1 + double @ double.T) / 2) ** power
    weight[:, ~inside] = 0
    weight[~inside, ~inside] = 1
    return normalised(weight)


def edges_of(adjacency: SparseAdjacency) -> dict[tuple[int, int], float]:
    """Raw edges as {(source, target): weight}; fails if an edge occurs twice."""
    edges = dict(zip(zip(*adjacency.raw_index.tolist(), strict=True), adjacency.raw_weight.tolist(), strict=True))
    assert len(edges) == adjacency.raw_index.shape[1]
    return edges


def sparse_matrix(adjacency: SparseAdjacency, count: int) -> Tensor:
    weight = torch.eye(count, dtype=torch.float64)
    for (source, target), value in edges_of(adjacency).items():
        weight[target, source] += value
    return normalised(weight)
