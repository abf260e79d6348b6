"""Fusion of text vectors and graph vectors into unit rows ``(U, D)``."""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize


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
