"""Sparse and dense graphs with normalised weights, and two graph convolutions on them."""

from collections.abc import Callable
from itertools import combinations_with_replacement
from math import factorial, prod
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop

if TYPE_CHECKING:
    from torch_geometric.nn import GCNConv

BLOCK_ROWS = 2048  # fits into the cache of a CPU
GPU_BLOCK_ROWS = 65_536  # few kernel launches


class SparseAdjacency(nn.Module):
    """A sparse graph D^-1/2 (A + I) D^-1/2. The authors' code drops the weights of A and normalises twice.

    Args:
        edge_index: ``(2, E)`` source and target of each edge.
        weight: ``(E,)`` above 0.
        num_nodes: Number of reports N.
    """

    raw_index: Tensor
    raw_weight: Tensor
    edge_index: Tensor
    edge_weight: Tensor
    ends: Tensor

    def __init__(self, edge_index: Tensor, weight: Tensor, num_nodes: int) -> None:
        from torch_geometric.nn.conv.gcn_conv import gcn_norm
        from torch_geometric.utils import sort_edge_index

        super().__init__()
        index, normalised = gcn_norm(edge_index, weight, num_nodes, add_self_loops=True, flow="source_to_target")
        # Edges are sorted by target: those into node i are ends[i - 1] to ends[i].
        index, normalised = sort_edge_index(index, normalised, num_nodes, sort_by_row=False)
        self.register_buffer("raw_index", edge_index, persistent=False)
        self.register_buffer("raw_weight", weight, persistent=False)
        self.register_buffer("edge_index", index, persistent=False)
        self.register_buffer("edge_weight", normalised, persistent=False)
        self.register_buffer("ends", torch.bincount(index[1], minlength=num_nodes).cumsum(0), persistent=False)

    def convolve(
        self, x: Tensor, n_id: Tensor, z: Tensor, conv1: "GCNConv", conv2: "GCNConv", dropout: float = 0.0
    ) -> Tensor:
        """The rows ``n_id`` of two convolutions: ``(U, D)``; for the arguments see ``DenseAdjacency.convolve``.

        Exact, on the two-hop neighbourhood of the rows. PyG's ``k_hop_subgraph`` reads all E edges for each batch, and
        ``GCNConv`` applies the linear layer before it propagates, which is slower here and rounds differently.
        """
        one_hop, propagate2 = self._hop(n_id)
        two_hop, propagate1 = self._hop(one_hop)
        inputs = drop(x[two_hop].index_put((torch.searchsorted(two_hop, n_id),), z), dropout)
        hidden = drop((conv1.lin(propagate1(inputs)) + layer_bias(conv1)).relu(), dropout)
        out: Tensor = conv2.lin(propagate2(hidden)) + layer_bias(conv2)
        return out

    def edges(self, top_k: int) -> tuple[Tensor, Tensor]:
        """All edges with their normalised weights, ``(2, E), (E,)``; ``top_k`` is not needed."""
        return self.edge_index, self.edge_weight

    def _hop(self, rows: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """The sorted sources of the edges into ``rows``, and a function that propagates along these edges."""
        ends = self.ends[rows]
        count = ends - torch.where(rows > 0, self.ends[rows - 1], 0)
        # Of two rows with 2 and 3 edges that end at 7 and 20: target is 0, 0, 1, 1, 1 and edge is 5, 6, 17, 18, 19.
        target = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), count)
        edge = torch.arange(len(target), device=rows.device) + (ends - count.cumsum(0))[target]
        sources, source = torch.unique(self.edge_index[0, edge], return_inverse=True)
        weight = self.edge_weight[edge, None]

        def propagate(x: Tensor) -> Tensor:
            return x.new_zeros(len(rows), x.shape[1]).index_add(0, target, weight * x[source])

        return sources, propagate

    def neighbours(self, rows: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
        """The nearest neighbours of reports and their edge weights, both ``(R, top_k)``, padded with -1 and 0."""
        index = torch.full((len(rows), top_k), -1)
        weight = torch.zeros(len(rows), top_k)
        for position, row in enumerate(rows):
            edges = (self.raw_index[1] == row).nonzero().squeeze(1)
            top = self.raw_weight[edges].topk(min(top_k, len(edges)))
            index[position, : len(edges)] = self.raw_index[0, edges[top.indices]]
            weight[position, : len(edges)] = top.values
        return index, weight


def knn(vectors: Tensor, inside: Tensor, k: int = 10, power: int = 1) -> SparseAdjacency:
    """Connects each report with its ``k`` exact nearest neighbours.

    Args:
        vectors: ``(N, d)`` unit title vectors.
        inside: ``(N,)`` bool, the reports that send messages; others only receive. Edges between inside reports are
            undirected.
        k: Number of neighbours, less than the number of inside reports.
        power: Kernel power p of the edge weight.
    """
    senders = inside.nonzero().squeeze(1).numpy()
    if not 0 < k < len(senders):
        raise ValueError(
            f"graph.rule.k={k} must lie between 1 and {len(senders) - 1}, one less than the reports in the graph"
        )
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors[inside].numpy())
    # A report is its own nearest neighbour, so search k + 1. If it is not found, among equal titles or because it is
    # outside, drop the last one instead.
    cosine, neighbours = index.search(vectors.numpy(), k + 1)
    source = senders[neighbours]
    target = np.arange(len(vectors))[:, None].repeat(k + 1, axis=1)
    is_self = source == target
    is_self[~is_self.any(axis=1), -1] = True
    edges = torch.from_numpy(np.stack([source[~is_self], target[~is_self]]))
    return connect(edges, kernel(torch.from_numpy(cosine[~is_self]), power), inside)


def threshold(
    vectors: Tensor, inside: Tensor, cosine: float = 0.9, power: int = 1, max_edges: int = 20_000_000
) -> SparseAdjacency:
    """Connects reports whose titles have at least this cosine, computed in blocks of rows.

    ``range_search`` of faiss cannot limit the number of results, and rounds differently.

    Args:
        vectors: ``(N, d)`` unit title vectors.
        inside: ``(N,)`` bool, the reports that send messages; others only receive.
        cosine: Minimum cosine of an edge.
        power: Kernel power p of the edge weight.
        max_edges: Maximum number of edges, which bounds memory.

    Raises:
        ValueError: If more than ``max_edges`` edges reach the threshold.
    """
    pairs = []
    weights = []
    total = 0
    for start in range(0, len(vectors), BLOCK_ROWS):
        block = vectors[start : start + BLOCK_ROWS] @ vectors.T
        block[:, ~inside] = -2  # below any cosine: no edge
        block[torch.arange(len(block)), torch.arange(start, start + len(block))] = -2
        target, source = (block >= cosine).nonzero(as_tuple=True)
        total += len(source)
        if total > max_edges:
            raise ValueError(
                f"graph.rule.cosine={cosine} gives more than {max_edges:,} edges: raise it, or graph.pca_dim"
            )
        pairs.append(torch.stack([source, target + start]))
        weights.append(block[target, source])
    return connect(torch.cat(pairs, dim=1), kernel(torch.cat(weights), power), inside)


def connect(edges: Tensor, weight: Tensor, inside: Tensor) -> SparseAdjacency:
    """Makes edges between inside reports undirected; edges to outside reports stay directed.

    Args:
        edges: ``(2, E)`` source, an inside report, and target of each edge.
        weight: ``(E,)``; edges of weight 0 are dropped.
        inside: ``(N,)`` bool, the reports that send messages.
    """
    from torch_geometric.utils import to_undirected

    is_inner = inside[edges[1]]
    inner, inner_weight = to_undirected(edges[:, is_inner], weight[is_inner], num_nodes=len(inside), reduce="max")
    edge_index = torch.cat([inner, edges[:, ~is_inner]], dim=1)
    edge_weight = torch.cat([inner_weight, weight[~is_inner]])
    kept = edge_weight > 0
    return SparseAdjacency(edge_index[:, kept], edge_weight[kept], len(inside))


def kernel(cosine: Tensor, power: int) -> Tensor:
    """Edge weight ((1 + cos) / 2)^p, elementwise, from 0 to 1."""
    return ((1 + cosine) / 2).clamp(0, 1) ** power


def kernel_factor(vectors: Tensor, power: int) -> Tensor:
    """F with F F^T = kernel(T T^T, p): all monomials of degree p in (1, t), each with its multinomial weight.

    Args:
        vectors: ``(N, d)`` unit rows T.
        power: p, 0 or more; 0 gives every pair the weight 1.

    Returns:
        ``(N, C(d + p, p))``.
    """
    columns = torch.cat([torch.ones_like(vectors[:, :1]), vectors], dim=1)
    factors = []
    # Each term is a multiset of columns: for d = 1 and p = 2, these are (0, 0), (0, 1), (1, 1), that is 1, t and t^2
    # with the binomial weights 1, 2, 1.
    for term in combinations_with_replacement(range(columns.shape[1]), power):
        repeats = [factorial(term.count(index)) for index in set(term)]
        weight = factorial(power) / prod(repeats)
        factors.append(columns[:, list(term)].prod(dim=1) * (weight / 2**power) ** 0.5)
    return torch.stack(factors, dim=1)


class DenseAdjacency(nn.Module):
    """The complete graph D^-1/2 K D^-1/2 as an operator. The diagonal of K is 1.

    With ``graph.scope=train``, training reports (inside) form the graph. A later report (outside) receives messages
    from them and from itself, normalised by its degree, and sends none.

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
        # Row sums of F F^T without the matrix; an outside report adds its self-loop of weight 1.
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
        self, x: Tensor, n_id: Tensor, z: Tensor, conv1: "GCNConv", conv2: "GCNConv", dropout: float = 0.0
    ) -> Tensor:
        """The rows ``n_id`` of two convolutions: ``(U, D)``.

        Messages are summed in the r columns of the factor before any product with a D x D matrix, and the hidden rows
        of all reports are never in memory at once. GCNConv would need N^2 edges.

        Args:
            x: ``(N, D)`` feature rows.
            n_id: ``(U,)`` distinct rows.
            z: ``(U, D)`` rows that replace ``x[n_id]``.
            conv1: The first layer; a ReLU follows.
            conv2: The second layer.
            dropout: Dropout probability before each layer; above 0, all hidden rows are in memory.
        """
        bias1 = layer_bias(conv1)
        bias2 = layer_bias(conv2)
        receive = self.receive[n_id]
        itself = self.itself[n_id]
        out: Tensor
        if dropout:
            x = drop(x.index_put((n_id,), z), dropout)
            hidden = drop((conv1.lin(self(x)) + bias1).relu(), dropout)
            out = conv2.lin(receive @ (self.send.T @ hidden) + itself * hidden[n_id]) + bias2
            return out
        # Only U rows of x are replaced, so their difference is added to the sum over all N.
        sent = self.send.T @ x + self.send[n_id].T @ (z - x[n_id])
        mixed = conv1.lin(sent)
        hidden = (receive @ mixed + itself * conv1.lin(z) + bias1).relu()
        sent = _HiddenSum.apply(self.send, mixed, bias1)  # type: ignore[no-untyped-call]
        out = conv2.lin(receive @ sent + itself * hidden) + bias2
        return out

    def edges(self, top_k: int) -> tuple[Tensor, Tensor]:
        """The ``top_k`` strongest edges into each report with their normalised weights, ``(2, E), (E,)``."""
        sources = []
        weights = []
        for rows in torch.split(torch.arange(len(self.vectors)), BLOCK_ROWS):
            index, raw_weight = self.neighbours(rows, top_k)
            weight = (self.receive[rows, None] * self.send[index]).sum(-1)
            sources.append(index.flatten())
            weights.append(torch.where(raw_weight > 0, weight, 0).flatten())
        source = torch.cat(sources)
        weight = torch.cat(weights)
        target = torch.arange(len(self.vectors)).repeat_interleave(len(source) // len(self.vectors))
        return torch.stack([source, target])[:, weight > 0], weight[weight > 0]

    def neighbours(self, rows: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
        """The nearest neighbours of reports and their edge weights, both ``(R, top_k)``."""
        weight = kernel(self.vectors[rows] @ self.vectors.T, self.power)
        weight[:, ~self.inside] = 0
        weight[torch.arange(len(rows)), rows] = 0
        top = weight.topk(min(top_k, weight.shape[1]), dim=1)
        return top.indices, top.values


def layer_bias(conv: "GCNConv") -> Tensor:
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
            # The gradient of relu, in place.
            torch.ops.aten.threshold_backward(grad_hidden, before_relu, 0, grad_input=grad_hidden)
            grad_mixed.addmm_(block.T, grad_hidden)
            grad_bias += grad_hidden.sum(0)
        return None, grad_mixed, grad_bias


def _block_rows(send: Tensor) -> int:
    """The number of rows of a factor to process at a time."""
    return BLOCK_ROWS if send.device.type == "cpu" else GPU_BLOCK_ROWS


def _block_buffer(send: Tensor, mixed: Tensor) -> Tensor:
    """A buffer for the rows of a block, ``(rows, D)``."""
    return mixed.new_empty(min(_block_rows(send), len(send)), mixed.shape[1])
