"""Semantic flow graphs: a node for every occurrence of a variable and every part of a control instruction."""

from dataclasses import dataclass

import numpy as np

NO_ROLE = -1


@dataclass(frozen=True)
class FlowGraph:
    """A semantic flow graph <N, E, T, R>.

    Nodes are in the order of their places in the source; of two at one place, the one that is evaluated first.

    Attributes:
        names: N names of variables; empty for control nodes.
        spans: ``(N, 2)`` int32, first and last (exclusive) character of each node in the source.
        types: ``(N,)`` int8 ``NodeType`` of each node.
        roles: ``(N,)`` int8 ``Role`` of each variable; ``NO_ROLE`` for control nodes.
        edges: ``(2, E)`` int32 nodes that each edge leads from and to, sorted by both and by kind, each once.
        kinds: ``(E,)`` int8 ``EdgeKind`` of each edge.
        is_approximate: Whether edges are left out because the code is so large that there are too many: those from all
            definitions but the last (see ``data_edges``), from ``throw`` to ``catch``, or between values.
    """

    names: tuple[str, ...]
    spans: np.ndarray
    types: np.ndarray
    roles: np.ndarray
    edges: np.ndarray
    kinds: np.ndarray
    is_approximate: bool = False

    def __len__(self) -> int:
        return len(self.names)
