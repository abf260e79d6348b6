"""The part of a flow graph that fits into an input."""

from typing import NamedTuple

import numpy as np

from gedbd.code.flow_graph import FlowGraph
from gedbd.code.node_types import EdgeKind, NodeType


class KeptGraph(NamedTuple):
    """Nodes and edges that were kept, renumbered.

    Attributes:
        spans: ``(N, 2)`` first and last (exclusive) character of each node in the code.
        types: ``(N,)`` type of each node.
        roles: ``(N,)`` role of each node, below 0 for those without one.
        edges: ``(2, E)`` nodes that each edge leads from and to, each pair once.
        num_cut: How many nodes were cut off.
    """

    spans: np.ndarray
    types: np.ndarray
    roles: np.ndarray
    edges: np.ndarray
    num_cut: int


NOTHING = KeptGraph(
    spans=np.zeros((0, 2), dtype=np.int32),
    types=np.zeros(0, dtype=np.int8),
    roles=np.zeros(0, dtype=np.int8),
    edges=np.zeros((2, 0), dtype=np.int32),
    num_cut=0,
)


def keep_graph(graph: FlowGraph, code_end: int, max_nodes: int, edges: str) -> KeptGraph:
    """Cuts a graph.

    Args:
        graph: A flow graph.
        code_end: First character that is not part of the input; nodes that begin there or later are cut off.
        max_nodes: Largest number of nodes; the first ones are kept.
        edges: ``flow`` for all nodes and edges, ``data`` for variables and the flow of data between them.
    """
    chosen = np.ones(len(graph), dtype=bool)
    wanted = np.ones(graph.edges.shape[1], dtype=bool)
    if edges == "data":
        chosen = graph.types <= NodeType.NULL
        wanted = graph.kinds == EdgeKind.DATA
    inside = chosen & (graph.spans[:, 0] < code_end)
    # The running count of nodes inside is 1 for the first of them, 2 for the second.
    kept = inside & (np.cumsum(inside) <= max_nodes)
    # Nodes 1 and 3 of four are kept: their new numbers are 0 and 1, in -1 0 0 1; the others are never looked up.
    number = np.cumsum(kept) - 1
    wanted &= kept[graph.edges].all(0)
    between = np.unique(number[graph.edges[:, wanted]], axis=1)
    return KeptGraph(
        graph.spans[kept], graph.types[kept], graph.roles[kept], between, int(chosen.sum()) - int(kept.sum())
    )


def tokens_of_nodes(offsets: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """The tokens that overlap with each node.

    Args:
        offsets: ``(S, 2)`` first and last (exclusive) character of each token, ascending.
        spans: ``(N, 2)`` the same of each node.

    Returns:
        ``(2, E)`` tokens and nodes, by node.
    """
    first = np.searchsorted(offsets[:, 1], spans[:, 0], side="right")
    last = np.searchsorted(offsets[:, 0], spans[:, 1], side="left")
    counts = np.maximum(last - first, 0)
    nodes = np.repeat(np.arange(len(spans)), counts)
    # Node 0 has the tokens 4 and 5, node 1 token 9: counts 2 1, begins 0 2, places 0 1 0, tokens 4 5 9.
    begins = np.cumsum(counts) - counts
    places = np.arange(counts.sum()) - begins[nodes]
    return np.stack([first[nodes] + places, nodes])
