"""The variables of methods with their types and roles, and pairs of them with and without a flow of data."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gedbd.code.flow_graph import FlowGraph
from gedbd.code.node_types import EdgeKind, NodeType
from gedbd.code.parse import find_method_graph
from gedbd.io.console import track


class Pairs(NamedTuple):
    """Pairs of variables of one method.

    Attributes:
        ends: ``(2, P)`` rows of the two variables, the one that comes first in the code above.
        label: ``(P,)`` 1 where data flow directly from one to the other, in either direction, else 0.
        same_name: ``(P,)`` bool.
        distance: ``(P,)`` how many variables the second one comes after the first, 1 or more.
        num_unmatched: How many pairs with a flow were left out, see ``draw_pairs``.
    """

    ends: np.ndarray
    label: np.ndarray
    same_name: np.ndarray
    distance: np.ndarray
    num_unmatched: int

    @property
    def surface(self) -> np.ndarray:
        """``(P, 4)`` what one sees without reading the code: same name, log distance, and their interactions."""
        log_distance = np.log2(self.distance)
        return np.stack([self.same_name, log_distance, self.same_name * log_distance, self.distance], axis=1)


class Variables(NamedTuple):
    """V variables of M methods.

    Attributes:
        rows: ``(M,)`` rows of M methods in the corpus.
        codes: The methods.
        method: ``(V,)`` method of each variable, 0..M-1, ascending.
        spans: ``(V, 2)`` first and last (exclusive) character.
        names: V identifiers.
        types: ``(V,)`` ``NodeType``.
        roles: ``(V,)`` ``Role``.
        pairs: Pairs of them.
        num_without_graph: How many texts were left out because they hold no method.
    """

    rows: np.ndarray
    codes: list[str]
    method: np.ndarray
    spans: np.ndarray
    names: list[str]
    types: np.ndarray
    roles: np.ndarray
    pairs: Pairs
    num_without_graph: int

    def __len__(self) -> int:
        return len(self.method)


def read_variables(
    rows: np.ndarray,
    codes: Sequence[str],
    visible: np.ndarray,
    max_variables: int,
    rng: np.random.Generator,
    title: str,
) -> Variables:
    """The variables of the first methods, until there are ``max_variables`` of them; a method is read whole.

    Args:
        rows: ``(N,)`` rows of methods in the corpus, in random order.
        codes: These methods.
        visible: ``(N,)`` characters of each method that every encoder reads; variables that end behind are left out.
        max_variables: See above.
        rng: Draws the pairs.
        title: What the progress bar says.
    """
    kept: list[tuple[int, str, FlowGraph, np.ndarray]] = []
    drawn: list[Pairs] = []
    count = num_without_graph = 0
    for row, code, end in track(list(zip(rows.tolist(), codes, visible, strict=True)), title, transient=True):
        if count >= max_variables:
            break
        graph = find_method_graph(code)
        if graph is None:
            num_without_graph += 1
            continue
        nodes = np.flatnonzero((graph.types <= NodeType.NULL) & (graph.spans[:, 1] <= end))
        if not len(nodes):
            continue
        kept.append((row, code, graph, nodes))
        pairs = draw_pairs(graph, nodes, rng)
        drawn.append(pairs._replace(ends=pairs.ends + count))
        count += len(nodes)
    return _joined(kept, drawn, num_without_graph)


def draw_pairs(graph: FlowGraph, nodes: np.ndarray, rng: np.random.Generator) -> Pairs:
    """Pairs of a method's variables: as many without a flow of data as with one, alike in name and distance.

    Pairs are sorted into classes by whether both have the same name and by their distance (1, 2 to 3, 4 to 7, 8 to 15
    and so on). As many pairs of either kind are drawn from each class as the rarer kind has, so that neither name nor
    distance tells which is which. Pairs with a flow that find no partner are left out and counted.

    Args:
        graph: The method's flow graph.
        nodes: ``(K,)`` variables to draw from, ascending.
        rng: Draws the pairs.

    Returns:
        Pairs; their ends are places in ``nodes``.
    """
    first, second = np.triu_indices(len(nodes), 1)
    names = np.array([graph.names[node] for node in nodes], dtype=object)
    same_name = (names[first] == names[second]).astype(bool)
    distance = second - first
    flows = _flows(graph, nodes)[first, second]
    # Even numbers for other names, odd ones for the same: distance 5 with the same name is class 2 * 2 + 1 = 5.
    classes = 2 * np.floor(np.log2(np.maximum(distance, 1))).astype(np.int64) + same_name
    chosen: list[np.ndarray] = []
    for one in np.unique(classes[flows]):
        positive = np.flatnonzero(flows & (classes == one))
        negative = np.flatnonzero(~flows & (classes == one))
        size = min(len(positive), len(negative))
        chosen += [rng.choice(rows, size, replace=False) for rows in (positive, negative)]
    rows = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *chosen]))
    label = flows[rows].astype(np.int8)
    ends = np.stack([first[rows], second[rows]])
    return Pairs(ends, label, same_name[rows], distance[rows], int(flows.sum() - label.sum()))


def _flows(graph: FlowGraph, nodes: np.ndarray) -> np.ndarray:
    """``(K, K)`` bool: whether data flow directly between two of the variables, in either direction."""
    flows = np.zeros((len(graph), len(graph)), dtype=bool)
    source, target = graph.edges[:, graph.kinds == EdgeKind.DATA]
    flows[source, target] = True
    flows[target, source] = True
    return np.asarray(flows[np.ix_(nodes, nodes)])


def _joined(
    kept: list[tuple[int, str, FlowGraph, np.ndarray]], drawn: list[Pairs], num_without_graph: int
) -> Variables:
    """The variables of several methods; the ends of ``drawn`` are rows of the joined table."""
    counts = [len(nodes) for _, _, _, nodes in kept]
    none = np.empty(0, dtype=np.int64)
    pairs = Pairs(
        np.concatenate([none.reshape(2, 0), *(one.ends for one in drawn)], axis=1),
        np.concatenate([none, *(one.label for one in drawn)]).astype(np.int8),
        np.concatenate([none, *(one.same_name for one in drawn)]).astype(bool),
        np.concatenate([none, *(one.distance for one in drawn)]),
        sum(one.num_unmatched for one in drawn),
    )
    return Variables(
        np.array([row for row, _, _, _ in kept], dtype=np.int64),
        [code for _, code, _, _ in kept],
        np.repeat(np.arange(len(kept)), counts),
        np.concatenate([none.reshape(0, 2), *(graph.spans[nodes] for _, _, graph, nodes in kept)]).astype(np.int64),
        [graph.names[node] for _, _, graph, nodes in kept for node in nodes],
        np.concatenate([none, *(graph.types[nodes] for _, _, graph, nodes in kept)]).astype(np.int64),
        np.concatenate([none, *(graph.roles[nodes] for _, _, graph, nodes in kept)]).astype(np.int64),
        pairs,
        num_without_graph,
    )
