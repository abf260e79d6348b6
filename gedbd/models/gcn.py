"""The graph branch: a two-layer graph convolutional network over all reports."""

from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from gedbd.models.node_memory import NodeMemory


class Adjacency(Protocol):
    """A graph whose weights are normalised already, sparse or dense."""

    def convolve(self, x: Tensor, n_id: Tensor, z: Tensor, conv1: GCNConv, conv2: GCNConv) -> Tensor:
        """Two graph convolutions of all rows ``x``, those of ``n_id`` being ``z``: the rows ``n_id`` of the result."""
        ...


class GraphBranch(nn.Module):
    """z_graph = rows of GCN(GCN(X)), X the node memory with the batch's text vectors in place.

    Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional Networks" (ICLR 2017), as in the paper;
    the layers are PyG's. The adjacency comes normalised, so the layers do not normalise again.

    Args:
        adjacency: The graph over N reports.
        num_nodes: Reports N.
        dim: Size D of text vectors, hidden layer and output.
        features: See ``NodeMemory``.
    """

    def __init__(self, adjacency: nn.Module, num_nodes: int, dim: int, features: str) -> None:
        super().__init__()
        self.adjacency = adjacency
        self.memory = NodeMemory(num_nodes, dim, features)
        self.conv1 = GCNConv(dim, dim, normalize=False)
        self.conv2 = GCNConv(dim, dim, normalize=False)

    def forward(self, n_id: Tensor, z_text: Tensor) -> Tensor:
        """``(U,), (U, D) -> (U, D)`` in float32, for distinct rows ``n_id``."""
        adjacency = cast(Adjacency, self.adjacency)
        with torch.autocast(z_text.device.type, enabled=False):
            return adjacency.convolve(self.memory.x, n_id, z_text.float(), self.conv1, self.conv2)
