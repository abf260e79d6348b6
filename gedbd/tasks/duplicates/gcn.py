"""The graph branch: a two-layer graph convolutional network over all reports."""

from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from gedbd.tasks.duplicates.node_features import NodeMemory


class Adjacency(Protocol):
    """A graph whose weights are normalised already, sparse or dense."""

    def convolve(
        self, x: Tensor, n_id: Tensor, z: Tensor, conv1: GCNConv, conv2: GCNConv, dropout: float = 0.0
    ) -> Tensor:
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
        dropout: Share of the entries that training drops from the rows before each layer (the authors' code: 0.1).
        bias: Whether each layer adds a bias.
    """

    def __init__(
        self,
        adjacency: nn.Module,
        num_nodes: int,
        dim: int,
        features: str,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"graph.dropout={dropout} must be 0 or more and below 1")
        self.adjacency = adjacency
        self.dropout = dropout
        self.memory = NodeMemory(num_nodes, dim, features)
        self.conv1 = GCNConv(dim, dim, normalize=False, bias=bias)
        self.conv2 = GCNConv(dim, dim, normalize=False, bias=bias)

    def forward(self, n_id: Tensor, z_text: Tensor) -> Tensor:
        """``(U,), (U, D) -> (U, D)`` in float32, for distinct rows ``n_id``."""
        adjacency = cast(Adjacency, self.adjacency)
        dropout = self.dropout if self.training else 0.0
        with torch.autocast(z_text.device.type, enabled=False):
            z = self.memory.place(n_id, z_text.float())
            return adjacency.convolve(self.memory.x, n_id, z, self.conv1, self.conv2, dropout)
