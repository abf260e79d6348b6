"""The paper's dense graph, which connects every two reports, without building the N x N matrix.

The similarity of two reports is a cosine in d dimensions, so the kernel ((1 + cos) / 2)^p is a polynomial of T T^T with
T the unit title vectors ``(N, d)``, and equals F F^T with F of C(d + p, p) columns. Propagation costs O(N r D).
The paper connects all reports by their similarity. The low-rank form is ours, as is the kernel, which keeps all weights
positive; a larger p makes it sharper.
"""

from itertools import combinations_with_replacement
from math import factorial, prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop
from torch_geometric.nn import GCNConv

BLOCK_ROWS = 2048  # memory that stays in the cache of a processor
GPU_BLOCK_ROWS = 65_536  # few launches of kernels


def kernel(cosine: Tensor, power: int) -> Tensor:
    """Edge weight ((1 + cos) / 2)^p of two reports, elementwise, between 0 and 1."""
    return ((1 + cosine) / 2).clamp(0, 1) ** power


def kernel_factor(vectors: Tensor, power: int) -> Tensor:
    """F with F F^T = kernel(T T^T, p): all monomials of degree p in (1, t), each with its multinomial weight.

    Args:
        vectors: ``(N, d)`` unit rows T.
        power: p, 0 or more; 0 gives every two reports the weight 1, regardless of their titles.

    Returns:
        ``(N, C(d + p, p))``.
    """
    columns = torch.cat([torch.ones_like(vectors[:, :1]), vectors], dim=1)
    factors = []
    # Each term is a multiset of columns: for d = 1 and p = 2 they are (0, 0), (0, 1), (1, 1), that is 1, t and t^2
    # with the weights 1, 2, 1 of the square of a sum.
    for term in combinations_with_replacement(range(columns.shape[1]), power):
        repeats = [factorial(term.count(index)) for index in set(term)]
        weight = factorial(power) / prod(repeats)
        factors.append(columns[:, list(term)].prod(dim=1) * (weight / 2**power) ** 0.5)
    return torch.stack(factors, dim=1)


class DenseAdjacency(nn.Module):
    """D^-1/2 K D^-1/2 over all reports, as an operator. The diagonal of K is 1: every report is its own neighbour.

    With ``graph.scope=train``, training reports (inside) form the graph among themselves. A later report (outside)
    receives messages from them and from itself, normalised by its own degree, and sends none.

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
        # Row sums of F F^T without the matrix; an outside report adds its own weight, which is 1.
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
        """The rows ``n_id`` of two convolutions: ``(U, D)``.

        The messages of all reports are summed in the r columns of the factor before any product with a D x D matrix,
        and the hidden rows of all reports are never in memory at once. GCNConv needs a list of edges, here N^2.

        Args:
            x: ``(N, D)`` feature rows.
            n_id: ``(U,)`` distinct rows.
            z: ``(U, D)`` rows that replace ``x[n_id]``.
            conv1: The first layer; a ReLU follows.
            conv2: The second layer.
            dropout: Probability of dropping an entry before each layer. With dropout all hidden rows are in memory.
        """
        if dropout:
            return self._convolve_dropped(x.index_put((n_id,), z), n_id, conv1, conv2, dropout)
        bias1 = layer_bias(conv1)
        bias2 = layer_bias(conv2)
        receive = self.receive[n_id]
        itself = self.itself[n_id]
        # Only U rows of x are replaced, so their difference is added to the sum over all N.
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
        """The strongest neighbours of some reports and the edge weights, both ``(R, top_k)``, for inspection."""
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
    """S^T relu(S A + b) in blocks of rows of S, recomputed for the gradient: ``(N, r), (r, D), (D,) -> (r, D)``."""

    @staticmethod
    def forward(ctx: Any, send: Tensor, mixed: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(send, mixed, bias)
        total = torch.zeros_like(mixed)
        buffer = _block_buffer(send, mixed)
        for block in torch.split(send, _block_rows(send)):
            hidden = torch.addmm(bias, block, mixed, out=buffer[: len(block)]).relu_()
            total.addmm_(block.T, hidden)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, Tensor]:
        send, mixed, bias = ctx.saved_tensors
        grad_mixed = torch.zeros_like(mixed)
        grad_bias = torch.zeros_like(bias)
        buffer = _block_buffer(send, mixed)
        grad_buffer = _block_buffer(send, mixed)
        for block in torch.split(send, _block_rows(send)):
            before_relu = torch.addmm(bias, block, mixed, out=buffer[: len(block)])
            grad_hidden = torch.mm(block, grads[0], out=grad_buffer[: len(block)])
            # The gradient of relu, in place: the incoming gradient where its input is above 0.
            torch.ops.aten.threshold_backward(grad_hidden, before_relu, 0, grad_input=grad_hidden)
            grad_mixed.addmm_(block.T, grad_hidden)
            grad_bias += grad_hidden.sum(0)
        return None, grad_mixed, grad_bias


def _block_rows(send: Tensor) -> int:
    """How many rows of a factor to process at a time."""
    return BLOCK_ROWS if send.device.type == "cpu" else GPU_BLOCK_ROWS


def _block_buffer(send: Tensor, mixed: Tensor) -> Tensor:
    """A buffer for the rows of a block, ``(rows, D)``."""
    return mixed.new_empty(min(_block_rows(send), len(send)), mixed.shape[1])
