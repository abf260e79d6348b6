"""Non-edges that an edge is told apart from, such that how frequent a type, role or distance is does not answer.

The talk leaves open how non-edges are drawn.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gedbd.localization.code_encoder.code_inputs import ROLE_BLOCK, TYPE_BLOCK, CodeInput
from gedbd.localization.flow_graph.semantic_graph import NodeType, Role

NONE = -1  # no non-edge exists
TRIED_DISTANCES = 8
MAX_DISTANCES = 100_000


class Priors(NamedTuple):
    """What is frequent in the training methods.

    Attributes:
        types: ``(55,)`` share of each type among nodes.
        roles: ``(43,)`` share of each role among variables.
        distances: ``(D,)`` a sample of distances of flow edges in the order of nodes, never 0: an edge from node 2 to
            node 5 has the distance 3.
    """

    types: np.ndarray
    roles: np.ndarray
    distances: np.ndarray


def find_priors(inputs: Iterable[CodeInput]) -> Priors:
    """Counts types, roles and distances of training methods; the sample of distances is the same in every run."""
    types = np.zeros(len(NodeType))
    roles = np.zeros(len(Role))
    distances = [np.array([1])]  # so that there is one
    for method in inputs:
        types += np.bincount(method.edges.node_type[1] - method.blocks[TYPE_BLOCK, 0], minlength=len(types))
        roles += np.bincount(method.edges.node_role[1] - method.blocks[ROLE_BLOCK, 0], minlength=len(roles))
        distances.append(method.edges.node_node[1] - method.edges.node_node[0])
    found = np.concatenate(distances)
    found = found[found != 0]
    if len(found) > MAX_DISTANCES:
        found = np.random.default_rng(0).choice(found, MAX_DISTANCES, replace=False)
    return Priors(_shares(types), _shares(roles), found)


def other_tokens(edges: np.ndarray, chosen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For hidden edges (code token, node), the code token of another hidden edge, which does not belong to this node.

    A token whose edges are visible would tell by its attention that it belongs to another node. All tokens of hidden
    edges are equally likely.

    Args:
        edges: ``(2, E)`` positions of code tokens and nodes: all edges of a method.
        chosen: ``(P,)`` the hidden edges, for each of which a non-edge is drawn.
        rng: Draws.

    Returns:
        ``(P,)`` positions of code tokens; ``NONE`` where the node has all of them.
    """
    tokens, token = np.unique(edges[0], return_inverse=True)
    nodes, node = np.unique(edges[1], return_inverse=True)
    is_edge = np.zeros((len(nodes), len(tokens)), dtype=bool)
    is_edge[node, token] = True
    is_hidden = np.isin(np.arange(len(tokens)), token[chosen])
    return _drawn(tokens, ~is_edge[node[chosen]] & is_hidden, rng)


def others_by_share(true: np.ndarray, shares: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Another type or role than the true one, drawn by the shares of all.

    Args:
        true: ``(P,)`` numbers of types or roles.
        shares: ``(T,)`` how frequent each is.
        rng: Draws.

    Returns:
        ``(P,)`` numbers, none of them the true one.
    """
    # The largest of log(share) + Gumbel noise is a draw by shares; the true one is left out.
    scores = np.log(shares) + rng.gumbel(size=(len(true), len(shares)))
    scores[np.arange(len(true)), true] = -np.inf
    return np.asarray(scores.argmax(axis=1))


def other_nodes(
    kept: np.ndarray, outgoing: np.ndarray, is_edge: np.ndarray, distances: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """For edges between nodes, another end that makes no edge, at a distance drawn from those of true edges.

    Where no such node is found after 8 draws, any other node that makes no edge is taken.

    Args:
        kept: ``(P,)`` the node that stays.
        outgoing: ``(P,)`` bool, whether the edge leads from this node.
        is_edge: ``(N, N)`` bool, symmetric: whether there is an edge between two nodes.
        distances: Distances to draw from, see ``Priors``.
        rng: Draws.

    Returns:
        ``(P,)`` nodes; ``NONE`` where every other node makes an edge.
    """
    count = len(is_edge)
    allowed = ~is_edge[kept]
    allowed[np.arange(len(kept)), kept] = False
    any_other = _drawn(np.arange(count), allowed, rng)
    drawn = rng.choice(distances, (len(kept), TRIED_DISTANCES))
    # At distance 3, the edge from node 2 leads to node 5, and the edge to node 5 comes from node 2.
    tried = kept[:, None] + np.where(outgoing[:, None], drawn, -drawn)
    inside = (tried >= 0) & (tried < count)
    fits = inside & np.take_along_axis(allowed, tried.clip(0, count - 1), axis=1)
    first = tried[np.arange(len(kept)), fits.argmax(axis=1)]
    return np.where(fits.any(axis=1), first, any_other)


def _shares(counts: np.ndarray) -> np.ndarray:
    """Shares of counts; what never occurs keeps a share so small that it is drawn only where nothing else is left."""
    shares: np.ndarray = (counts + 1e-9) / (counts + 1e-9).sum()
    return shares


def _drawn(values: np.ndarray, allowed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For each row of ``allowed (P, V)`` one of the allowed values, ``NONE`` where there is none."""
    if not len(values):
        return np.full(len(allowed), NONE)
    scores = np.where(allowed, rng.random(allowed.shape), -1.0)
    return np.where(allowed.any(axis=1), values[scores.argmax(axis=1)], NONE)
