"""The projections of frozen vectors: the published one with a sigmoid, and one that starts as the frozen encoder."""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

HEADS = ("sigmoid", "residual")


class SigmoidHead(nn.Module):
    """``sigmoid(W E + b)``, as published: Hazra et al., 2023 (arXiv 2309.05035).

    Args:
        num_inputs: Size of the frozen vectors.
        dim: Size of the projected ones.
    """

    def __init__(self, num_inputs: int, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_inputs, dim)

    def forward(self, features: Tensor) -> Tensor:
        """``(U, D) -> (U, dim)``, between 0 and 1."""
        return torch.sigmoid(self.linear(features))


class ResidualHead(nn.Module):
    """``t + W E`` of length 1, t the text part of E. W starts at 0: before training, the vectors are the frozen ones.

    Args:
        num_inputs: Size of the frozen vectors.
        num_text: Size of their text part, which comes first.
    """

    def __init__(self, num_inputs: int, num_text: int) -> None:
        super().__init__()
        self.num_text = num_text
        self.linear = nn.Linear(num_inputs, num_text, bias=False)
        nn.init.zeros_(self.linear.weight)

    def forward(self, features: Tensor) -> Tensor:
        """``(U, D) -> (U, num_text)`` unit rows."""
        return normalize(features[:, : self.num_text] + self.linear(features), dim=1)


def check_head(name: str, dim: int) -> None:
    """Raises ValueError if a projection is unknown or its size is not above 0."""
    if name not in HEADS:
        raise ValueError(f"task.head={name} is unknown: choose {', '.join(HEADS)}")
    if dim < 1:
        raise ValueError(f"task.dim={dim} must be 1 or more")


def make_head(name: str, num_inputs: int, num_text: int, dim: int) -> nn.Module:
    """The projection of a name.

    Args:
        name: One of ``HEADS``.
        num_inputs: Size of the frozen vectors.
        num_text: Size of their text part.
        dim: Size of the projected vectors of ``sigmoid``; those of ``residual`` are as large as the text part.

    Raises:
        ValueError: If the name is unknown or the size not above 0.
    """
    check_head(name, dim)
    return SigmoidHead(num_inputs, dim) if name == "sigmoid" else ResidualHead(num_inputs, num_text)


def method_id(head: str, network: bool) -> str:
    """The id of a model in results: ``te``, ``te_network``, ``te_modern``, ``te_network_modern``."""
    return "te" + ("_network" if network else "") + ("_modern" if head == "residual" else "")
