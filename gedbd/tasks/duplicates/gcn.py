"""The graph branch: a two-layer graph convolutional network over all reports."""

from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from gedbd.tasks.duplicates.node_features import NodeFeatures


class Adjacency(Protocol):
    """A graph with normalised weights, sparse or dense."""

    def convolve(
        self, x: Tensor, n_id: Tensor, z: Tensor, conv1: GCNConv, conv2: GCNConv, dropout: float = 0.0
    ) -> Tensor:
        """The rows ``n_id`` of two graph convolutions of all rows ``x``, in which ``z`` replaces the rows ``n_id``."""
        ...


class GraphBranch(nn.Module):
    """z_graph = rows of GCN(GCN(X)); X are the node features with the batch's text vectors in their rows.

    Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional Networks" (ICLR 2017), as in the paper;
    the layers are PyG's. The adjacency is normalised already, so the layers do not normalise.

    Args:
        adjacency: The graph over N reports.
        num_nodes: Reports N.
        dim: Size D of text vectors, hidden layer and output.
        features: See ``NodeFeatures``.
        dropout: Probability with which training drops an entry before each layer (the authors' code: 0.1).
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
        self.node_features = NodeFeatures(num_nodes, dim, features)
        self.conv1 = GCNConv(dim, dim, normalize=False, bias=bias)
        self.conv2 = GCNConv(dim, dim, normalize=False, bias=bias)

    def forward(self, n_id: Tensor, z_text: Tensor) -> Tensor:
        """``(U,), (U, D) -> (U, D)`` in float32, for distinct rows ``n_id``."""
        adjacency = cast(Adjacency, self.adjacency)
        dropout = self.dropout if self.training else 0.0
        with torch.autocast(z_text.device.type, enabled=False):
            z = self.node_features.place(n_id, z_text.float())
            return adjacency.convolve(self.node_features.x, n_id, z, self.conv1, self.conv2, dropout)
