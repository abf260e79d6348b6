"""Sparse graphs. Those of nearest neighbours or a threshold are the paper's optional ones; labels add no edges."""

from collections.abc import Callable

import faiss
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop
from torch_geometric.nn import GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import sort_edge_index, to_undirected

from gedbd.duplicates.graph.dense_adjacency import kernel, layer_bias

BLOCK_ROWS = 2048


class SparseAdjacency(nn.Module):
    """Edges with weights, normalised once: D^-1/2 (A + I) D^-1/2.

    The authors' code drops the weights of A and normalises twice.

    Args:
        edge_index: ``(2, E)`` source and target of each edge.
        weight: ``(E,)`` above 0.
        num_nodes: Reports N.
    """

    raw_index: Tensor
    raw_weight: Tensor
    edge_index: Tensor
    edge_weight: Tensor
    ends: Tensor

    def __init__(self, edge_index: Tensor, weight: Tensor, num_nodes: int) -> None:
        super().__init__()
        index, normalised = gcn_norm(edge_index, weight, num_nodes, add_self_loops=True, flow="source_to_target")
        # Edges are sorted by target: those into node i end at ends[i] and begin at ends[i - 1].
        index, normalised = sort_edge_index(index, normalised, num_nodes, sort_by_row=False)
        self.register_buffer("raw_index", edge_index, persistent=False)
        self.register_buffer("raw_weight", weight, persistent=False)
        self.register_buffer("edge_index", index, persistent=False)
        self.register_buffer("edge_weight", normalised, persistent=False)
        self.register_buffer("ends", torch.bincount(index[1], minlength=num_nodes).cumsum(0), persistent=False)

    def convolve(
        self, x: Tensor, n_id: Tensor, z: Tensor, conv1: GCNConv, conv2: GCNConv, dropout: float = 0.0
    ) -> Tensor:
        """The rows ``n_id`` of two convolutions: ``(U, D)``; for the arguments see ``DenseAdjacency.convolve``.

        Exact, on the two-hop neighbourhood of the rows. PyG's ``k_hop_subgraph`` finds the same neighbourhood, but
        reads all E edges for each batch. Its ``GCNConv`` multiplies all rows by the weights before it propagates them,
        which costs more here and rounds differently.
        """
        near, propagate2 = self._hop(n_id)
        far, propagate1 = self._hop(near)
        inputs = drop(x[far].index_put((torch.searchsorted(far, n_id),), z), dropout)
        hidden = drop((conv1.lin(propagate1(inputs)) + layer_bias(conv1)).relu(), dropout)
        out: Tensor = conv2.lin(propagate2(hidden)) + layer_bias(conv2)
        return out

    def _hop(self, rows: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """The sorted sources of the edges into some rows, and a function that propagates along these edges."""
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
        """The strongest neighbours of some reports and the edge weights, ``(R, top_k)``; -1 where there are fewer."""
        index = torch.full((len(rows), top_k), -1)
        weight = torch.zeros(len(rows), top_k)
        for place, row in enumerate(rows):
            mine = (self.raw_index[1] == row).nonzero().squeeze(1)
            top = self.raw_weight[mine].topk(min(top_k, len(mine)))
            index[place, : len(mine)] = self.raw_index[0, mine[top.indices]]
            weight[place, : len(mine)] = top.values
        return index, weight


def knn(vectors: Tensor, inside: Tensor, k: int = 10, power: int = 1) -> SparseAdjacency:
    """Connects every report with its ``k`` most similar ones, which faiss finds exactly.

    Args:
        vectors: ``(N, d)`` unit title vectors.
        inside: ``(N,)`` bool, the reports that send messages; the others only receive (see ``DenseAdjacency``). Edges
            between inside reports go both ways.
        k: Neighbours of a report, fewer than the reports inside.
        power: Kernel power p of the edge weight.
    """
    senders = inside.nonzero().squeeze(1).numpy()
    if not 0 < k < len(senders):
        raise ValueError(
            f"graph.rule.k={k} must lie between 1 and {len(senders) - 1}, one less than the reports in the graph"
        )
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors[inside].numpy())
    # A report is its own nearest neighbour, so one more is searched. Among duplicates of its title it may be missing:
    # then the last one is dropped instead, as it is for outside reports.
    cosine, found = index.search(vectors.numpy(), k + 1)
    source = senders[found]
    target = np.arange(len(vectors))[:, None].repeat(k + 1, axis=1)
    itself = source == target
    itself[~itself.any(axis=1), -1] = True
    edges = torch.from_numpy(np.stack([source[~itself], target[~itself]]))
    return connect(edges, kernel(torch.from_numpy(cosine[~itself]), power), inside)


def threshold(
    vectors: Tensor, inside: Tensor, cosine: float = 0.9, power: int = 1, max_edges: int = 20_000_000
) -> SparseAdjacency:
    """Connects every two reports whose titles have at least this cosine, computed in blocks of rows.

    The ``range_search`` of faiss has no limit on the number of results, and its inner products round differently.

    Args:
        vectors: ``(N, d)`` unit title vectors.
        inside: ``(N,)`` bool, the reports that send messages; the others only receive.
        cosine: Smallest cosine of an edge.
        power: Kernel power p of the edge weight.
        max_edges: Largest number of edges; more could fill the memory.

    Raises:
        ValueError: If more than ``max_edges`` edges reach the threshold.
    """
    found = []
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
        found.append(torch.stack([source, target + start]))
        weights.append(block[target, source])
    return connect(torch.cat(found, dim=1), kernel(torch.cat(weights), power), inside)


def connect(edges: Tensor, weight: Tensor, inside: Tensor) -> SparseAdjacency:
    """Makes edges between inside reports go both ways; edges to outside reports stay one-way.

    Args:
        edges: ``(2, E)`` source, an inside report, and target of each edge.
        weight: ``(E,)``; edges of weight 0 are left out.
        inside: ``(N,)`` bool, the reports that send messages.
    """
    mutual = inside[edges[1]]
    both, both_weight = to_undirected(edges[:, mutual], weight[mutual], num_nodes=len(inside), reduce="max")
    edge_index = torch.cat([both, edges[:, ~mutual]], dim=1)
    edge_weight = torch.cat([both_weight, weight[~mutual]])
    kept = edge_weight > 0
    return SparseAdjacency(edge_index[:, kept], edge_weight[kept], len(inside))
