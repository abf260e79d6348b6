"""The graph branch, two graph convolutions over all reports, and the fusion of its vectors with those of texts."""

from typing import TYPE_CHECKING, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

if TYPE_CHECKING:
    from torch_geometric.nn import GCNConv

FEATURES = ("text", "learnable", "written", "written_detached")


class Adjacency(Protocol):
    """A graph with normalised weights, sparse or dense."""

    def convolve(
        self, x: Tensor, n_id: Tensor, z: Tensor, conv1: "GCNConv", conv2: "GCNConv", dropout: float = 0.0
    ) -> Tensor:
        """The rows ``n_id`` of two graph convolutions of all rows ``x``, in which ``z`` replaces the rows ``n_id``."""
        ...


class GraphBranch(nn.Module):
    """z_graph = rows of GCN(GCN(X)); X are the node features, in which text vectors replace the batch's rows.

    Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional Networks" (ICLR 2017), as in the paper;
    the layers are PyG's. The adjacency is normalised already, so the layers do not normalise.

    Args:
        adjacency: The graph over N reports; None until the data is known, for a loaded model.
        num_nodes: Number N of reports.
        dim: Size D of text vectors, hidden layer and output.
        features: See ``NodeFeatures``.
        dropout: Probability with which training drops an entry before each layer (the authors' code: 0.1).
        bias: Whether each layer adds a bias.
    """

    def __init__(
        self,
        adjacency: nn.Module | None,
        num_nodes: int,
        dim: int,
        features: str,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        from torch_geometric.nn import GCNConv  # large, and a model without a graph does not need it

        super().__init__()
        self.adjacency = adjacency
        self.dropout = dropout
        self.node_features = NodeFeatures(num_nodes, dim, features)
        self.conv1 = GCNConv(dim, dim, normalize=False, bias=bias)
        self.conv2 = GCNConv(dim, dim, normalize=False, bias=bias)

    def forward(self, n_id: Tensor, z_text: Tensor) -> Tensor:
        """``(U,), (U, D) -> (U, D)`` in float32, for distinct rows ``n_id``."""
        adjacency = cast(Adjacency, self.adjacency)
        dropout = self.dropout if self.training else 0.0
        # In bfloat16 the sums over thousands of neighbours would lose small weights.
        with torch.autocast(z_text.device.type, enabled=False):
            z = self.node_features.place(n_id, z_text.float())
            return adjacency.convolve(self.node_features.x, n_id, z, self.conv1, self.conv2, dropout)


class NodeFeatures(nn.Module):
    """One feature row for every report; the rows of the batch's reports are replaced by their text vectors.

    ======================  ================================  ==============================  =======================
    features                a row is                          after a training step           encoder gets gradient
    ======================  ================================  ==============================  =======================
    ``text`` (ours)         a buffer, filled before training  the text vector stays           yes
    ``learnable``           a parameter                       the parameter is restored       yes
    ``written``             a parameter                       the text vector stays           yes
    ``written_detached``    a parameter                       the text vector stays           no
    ======================  ================================  ==============================  =======================

    A parameter for each row equals the paper's one-hot features times the first weight matrix. ``written`` follows the
    paper's text: projected [CLS] vectors are assigned to their nodes, and the loss updates encoder and GNN together.
    ``written_detached`` follows the authors' code: the vectors are written without their gradient, which the rows
    receive instead. Evaluation writes nothing here; in the authors' code it does.

    Args:
        num_nodes: Number N of reports.
        dim: Size D of a row.
        features: A name from the table.
    """

    def __init__(self, num_nodes: int, dim: int, features: str) -> None:
        super().__init__()
        if features not in FEATURES:
            raise ValueError(
                f"graph.features={features} is unknown: choose {', '.join(FEATURES[:-1])} or {FEATURES[-1]}"
            )
        self.features = features
        self.learnable = features != "text"
        if self.learnable:
            # The authors' code uses PyTorch's nn.Embedding, whose rows are drawn with standard deviation 1.
            scale = 1.0 if features == "written_detached" else dim**-0.5
            self.x = nn.Parameter(torch.randn(num_nodes, dim) * scale)
        else:
            self.register_buffer("x", torch.zeros(num_nodes, dim))

    def place(self, n_id: Tensor, z_text: Tensor) -> Tensor:
        """The vectors that replace the rows ``n_id`` in this batch, ``(U, D)``."""
        if self.features != "written_detached":
            return z_text
        if not self.training:
            return z_text.detach()
        self.write(n_id, z_text)
        return self.x[n_id]

    @torch.no_grad()
    def write(self, n_id: Tensor, z_text: Tensor) -> None:
        """Stores text vectors as the reports' rows. ``learnable`` rows are changed by the optimizer alone."""
        if self.features != "learnable":
            self.x[n_id] = z_text.detach().to(self.x.dtype)


class WeightedSum(nn.Module):
    """z = lambda_text z_text + (1 - lambda_text) z_graph, the paper's choice.

    Args:
        lambda_text: Weight of the text branch, 0 to 1.
    """

    uses_graph = True

    def __init__(self, lambda_text: float) -> None:
        super().__init__()
        self.lambda_text = lambda_text

    def forward(self, z_text: Tensor, z_graph: Tensor) -> Tensor:
        """``(U, D), (U, D) -> (U, D)``."""
        return normalize(self.lambda_text * z_text + (1 - self.lambda_text) * z_graph, dim=-1)


class TrainingOnly(WeightedSum):
    """``WeightedSum`` in training, z_text in evaluation: the graph only shapes how the encoder is trained."""

    def forward(self, z_text: Tensor, z_graph: Tensor) -> Tensor:
        """``(U, D), (U, D) -> (U, D)``."""
        return super().forward(z_text, z_graph) if self.training else normalize(z_text, dim=-1)


class Concat(nn.Module):
    """z = W [z_text; z_graph] + b, the paper's alternative. W is initialised as the mean of both (ours).

    Args:
        dim: Size D of each vector and of the result.
    """

    uses_graph = True

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(2 * dim, dim)
        with torch.no_grad():
            self.linear.weight.copy_(torch.cat([torch.eye(dim), torch.eye(dim)], dim=1) / 2)
            self.linear.bias.zero_()

    def forward(self, z_text: Tensor, z_graph: Tensor) -> Tensor:
        """``(U, D), (U, D) -> (U, D)``."""
        fused: Tensor = self.linear(torch.cat([z_text, z_graph], dim=-1))
        return normalize(fused, dim=-1)


class TextOnly(nn.Module):
    """z = z_text: the paper's baselines, trained without a graph."""

    uses_graph = False

    def forward(self, z_text: Tensor, z_graph: Tensor | None = None) -> Tensor:
        """``(U, D) -> (U, D)``."""
        return normalize(z_text, dim=-1)
