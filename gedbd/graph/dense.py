"""The paper's dense graph, every report tied to every other, without ever building the N x N matrix.

The similarity of two reports is a cosine in d dimensions, so the kernel ((1 + cos) / 2)^p is a polynomial of T T^T with
T the unit title vectors ``(N, d)``, and equals F F^T with F of C(d + p, p) columns. Propagation costs O(N r D).
The paper ties all reports by their similarity; that its matrix has low rank, and the kernel, which keeps all weights
positive and is sharpened by p, are ours.
"""

from itertools import combinations_with_replacement
from math import factorial, prod

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv


def kernel(cosine: Tensor, power: int) -> Tensor:
    """Edge weight ((1 + cos) / 2)^p of two reports, elementwise, between 0 and 1."""
    return ((1 + cosine) / 2).clamp(0, 1) ** power


def kernel_factor(vectors: Tensor, power: int) -> Tensor:
    """F with F F^T = kernel(T T^T, p): all monomials of degree p in (1, t), each with its multinomial weight.

    Args:
        vectors: ``(N, d)`` unit rows T.
        power: p, 1 or more.

    Returns:
        ``(N, C(d + p, p))``.
    """
    if power < 1:
        raise ValueError(f"graph.rule.power={power} must be 1 or more")
    columns = torch.cat([torch.ones_like(vectors[:, :1]), vectors], dim=1)
    factors = []
    for term in combinations_with_replacement(range(columns.shape[1]), power):
        weight = factorial(power) / prod(factorial(term.count(index)) for index in set(term))
        factors.append(columns[:, list(term)].prod(dim=1) * (weight / 2**power) ** 0.5)
    return torch.stack(factors, dim=1)


class DenseAdjacency(nn.Module):
    """D^-1/2 K D^-1/2 over all reports, as an operator. The diagonal of K is 1: every report is its own neighbour.

    With some reports outside (``graph.scope=train``), the inside ones form the graph among themselves; an outside one
    receives from the inside ones and itself, by its own degree, and sends nothing.

    Args:
        vectors: ``(N, d)`` unit title vectors.
        inside: ``(N,)`` bool, the reports that send messages.
        power: Kernel power p.
    """

    vectors: Tensor
    receive: Tensor
    itself: Tensor
    inside: Tensor

    def __init__(self, vectors: Tensor, inside: Tensor, power: int = 1) -> None:
        super().__init__()
        factor = kernel_factor(vectors.double(), power)
        degree = factor @ factor[inside].sum(dim=0) + (~inside).double()
        scale = degree.rsqrt()
        self.power = power
        self.register_buffer("vectors", vectors, persistent=False)
        self.register_buffer("receive", (factor * scale[:, None]).float(), persistent=False)
        self.register_buffer("itself", (scale.square() * ~inside)[:, None].float(), persistent=False)
        self.register_buffer("inside", inside, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Propagates ``(N, D) -> (N, D)``."""
        everyone = bool(self.inside.all())
        sent = self.receive.T @ x if everyone else self.receive[self.inside].T @ x[self.inside]
        received = self.receive @ sent
        return received if everyone else received + self.itself * x

    def convolve(self, conv: GCNConv, x: Tensor) -> Tensor:
        """``conv(x, edge_index, edge_weight)`` of PyG, with this operator in place of the edge list."""
        out: Tensor = self(conv.lin(x)) + conv.bias
        return out

    def neighbours(self, rows: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
        """The strongest neighbours of some reports and the edge weights, both ``(R, top_k)``, for looking at."""
        weight = kernel(self.vectors[rows] @ self.vectors.T, self.power)
        weight[:, ~self.inside] = 0
        weight[torch.arange(len(rows)), rows] = 0
        top = weight.topk(min(top_k, weight.shape[1]), dim=1)
        return top.indices, top.values
