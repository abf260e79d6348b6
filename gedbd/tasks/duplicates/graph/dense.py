"""The paper's dense graph, every report tied to every other, without ever building the N x N matrix.

The similarity of two reports is a cosine in d dimensions, so the kernel ((1 + cos) / 2)^p is a polynomial of T T^T with
T the unit title vectors ``(N, d)``, and equals F F^T with F of C(d + p, p) columns. Propagation costs O(N r D).
The paper ties all reports by their similarity; that its matrix has low rank, and the kernel, which keeps all weights
positive and is sharpened by p, are ours.
"""

from itertools import combinations_with_replacement
from math import factorial, prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop
from torch_geometric.nn import GCNConv

BLOCK = 2048


def kernel(cosine: Tensor, power: int) -> Tensor:
    """Edge weight ((1 + cos) / 2)^p of two reports, elementwise, between 0 and 1."""
    return ((1 + cosine) / 2).clamp(0, 1) ** power


def kernel_factor(vectors: Tensor, power: int) -> Tensor:
    """F with F F^T = kernel(T T^T, p): all monomials of degree p in (1, t), each with its multinomial weight.

    Args:
        vectors: ``(N, d)`` unit rows T.
        power: p, 0 or more; 0 gives every two reports the weight 1, whatever their titles.

    Returns:
        ``(N, C(d + p, p))``.
    """
    if power < 0:
        raise ValueError(f"graph.rule.power={power} must be 0 or more")
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
    send: Tensor
    itself: Tensor
    inside: Tensor

    def __init__(self, vectors: Tensor, inside: Tensor, power: int = 1) -> None:
        super().__init__()
        factor = kernel_factor(vectors.double(), power)
        degree = factor @ factor[inside].sum(dim=0) + (~inside).double()
        scale = degree.rsqrt()
        receive = (factor * scale[:, None]).float()
        self.power = power
        self.register_buffer("vectors", vectors, persistent=False)
        self.register_buffer("receive", receive, persistent=False)
        self.register_buffer("send", receive if inside.all() else receive * inside[:, None], persistent=False)
        self.register_buffer("itself", (scale.square() * ~inside)[:, None].float(), persistent=False)
        self.register_buffer("inside", inside, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Propagates ``(N, D) -> (N, D)``."""
        return (self.receive @ (self.send.T @ x)).addcmul(self.itself, x)

    def convolve(
        self, x: Tensor, n_id: Tensor, z: Tensor, conv1: GCNConv, conv2: GCNConv, dropout: float = 0.0
    ) -> Tensor:
        """Two convolutions, of which only the rows ``n_id`` are wanted: ``(U, D)``.

        What every report sends is summed in the r columns of the factor before any matrix product of D x D, and the
        hidden rows of all reports are never held at once.

        Args:
            x: ``(N, D)`` feature rows.
            n_id: ``(U,)`` distinct rows.
            z: ``(U, D)`` what stands in place of ``x[n_id]``.
            conv1: The first layer; a ReLU follows.
            conv2: The second.
            dropout: Share of the entries dropped before each layer. Then all hidden rows are held at once.
        """
        if dropout:
            return self._convolve_dropped(x.index_put((n_id,), z), n_id, conv1, conv2, dropout)
        bias1, bias2 = layer_bias(conv1), layer_bias(conv2)
        receive, itself = self.receive[n_id], self.itself[n_id]
        sent = self.send.T @ x + self.send[n_id].T @ (z - x[n_id])
        mixed = conv1.lin(sent)
        hidden = (receive @ mixed + itself * conv1.lin(z) + bias1).relu()
        sent = _HiddenSum.apply(self.send, mixed, bias1)  # type: ignore[no-untyped-call]
        out: Tensor = conv2.lin(receive @ sent + itself * hidden) + bias2
        return out

    def _convolve_dropped(self, x: Tensor, n_id: Tensor, conv1: GCNConv, conv2: GCNConv, dropout: float) -> Tensor:
        """``convolve`` of all rows ``(N, D)``, with dropout before each layer."""
        hidden = (conv1.lin(self(drop(x, dropout))) + layer_bias(conv1)).relu()
        hidden = drop(hidden, dropout)
        mixed = self.receive[n_id] @ (self.send.T @ hidden) + self.itself[n_id] * hidden[n_id]
        out: Tensor = conv2.lin(mixed) + layer_bias(conv2)
        return out

    def neighbours(self, rows: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
        """The strongest neighbours of some reports and the edge weights, both ``(R, top_k)``, for looking at."""
        weight = kernel(self.vectors[rows] @ self.vectors.T, self.power)
        weight[:, ~self.inside] = 0
        weight[torch.arange(len(rows)), rows] = 0
        top = weight.topk(min(top_k, weight.shape[1]), dim=1)
        return top.indices, top.values


def layer_bias(conv: GCNConv) -> Tensor:
    """The bias of a layer, zeros if it has none."""
    bias: Tensor | None = conv.bias
    return conv.lin.weight.new_zeros(conv.out_channels) if bias is None else bias


class _HiddenSum(torch.autograd.Function):
    """S^T relu(S A + b), a block of S's rows at a time, computed again for the gradient: ``(N, r), (r, D), (D,)``."""

    @staticmethod
    def forward(ctx: Any, send: Tensor, mixed: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(send, mixed, bias)
        total = torch.zeros_like(mixed)
        for block in torch.split(send, BLOCK):
            total.addmm_(block.T, torch.addmm(bias, block, mixed).relu_())
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, Tensor]:
        send, mixed, bias = ctx.saved_tensors
        into_mixed, into_bias = torch.zeros_like(mixed), torch.zeros_like(bias)
        for block in torch.split(send, BLOCK):
            before_relu = torch.addmm(bias, block, mixed)
            into_hidden = torch.ops.aten.threshold_backward(block @ grads[0], before_relu, 0)
            into_mixed.addmm_(block.T, into_hidden)
            into_bias += into_hidden.sum(0)
        return None, into_mixed, into_bias
