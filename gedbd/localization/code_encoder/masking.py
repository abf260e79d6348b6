"""Masking of tokens and of flow graph edges for pre-training, with non-edges as negatives.

Non-edges are sampled with the types, roles and distances of edges, so that frequency alone does not distinguish them.
The talk does not specify how.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gedbd.localization.code_encoder.code_inputs import (
    CODE_BLOCK,
    COMMENT_BLOCK,
    NODE_BLOCK,
    ROLE_BLOCK,
    TYPE_BLOCK,
    CodeEdges,
    CodeInput,
    InputParts,
)
from gedbd.localization.flow_graph.node_types import NodeType, Role

NONE = -1  # no non-edge exists
TRIED_DISTANCES = 8
MAX_DISTANCES = 100_000
MLM = "mlm"
ALIGNMENT = "alignment"
EDGE = "edge"
TYPE = "type"
ROLE = "role"
# The field of ``CodeEdges`` that an objective predicts: E1 to E4 of the talk.
EDGES_OF = {ALIGNMENT: "code_node", EDGE: "node_node", TYPE: "node_type", ROLE: "node_role"}
OBJECTIVES = (MLM, *EDGES_OF)
MASKED = 0.8  # fraction of the tokens to predict that [MASK] replaces
RANDOM = 0.1  # fraction that random tokens replace; the rest is unchanged


class Priors(NamedTuple):
    """Frequencies in the training methods."""

    types: np.ndarray  # ``(55,)`` fraction of each type among nodes
    roles: np.ndarray  # ``(43,)`` fraction of each role among variables
    # ``(D,)`` a sample of nonzero distances of flow edges: an edge from node 2 to node 5 has the distance 3
    distances: np.ndarray


def find_priors(inputs: Iterable[CodeInput]) -> Priors:
    """Counts types, roles and distances of training methods; the sample of distances is deterministic."""
    types = np.zeros(len(NodeType))
    roles = np.zeros(len(Role))
    distances = [np.array([1])]  # never empty
    for method in inputs:
        types += np.bincount(method.edges.node_type[1] - method.blocks[TYPE_BLOCK, 0], minlength=len(types))
        roles += np.bincount(method.edges.node_role[1] - method.blocks[ROLE_BLOCK, 0], minlength=len(roles))
        distances.append(method.edges.node_node[1] - method.edges.node_node[0])
    sample = np.concatenate(distances)
    sample = sample[sample != 0]
    if len(sample) > MAX_DISTANCES:
        sample = np.random.default_rng(0).choice(sample, MAX_DISTANCES, replace=False)
    return Priors(_frequencies(types), _frequencies(roles), sample)


def other_tokens(edges: np.ndarray, hidden_edges: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Samples for each hidden edge (code token, node) a token of another hidden edge that has no edge to the node.

    Tokens with visible edges are excluded, since their attention would reveal that they belong to another node. Returns
    ``(P,)`` code tokens; ``NONE`` where the node has edges to all of them.
    """
    tokens, token = np.unique(edges[0], return_inverse=True)
    nodes, node = np.unique(edges[1], return_inverse=True)
    is_edge = np.zeros((len(nodes), len(tokens)), dtype=bool)
    is_edge[node, token] = True
    is_hidden = np.isin(np.arange(len(tokens)), token[hidden_edges])
    return _sample_allowed(tokens, ~is_edge[node[hidden_edges]] & is_hidden, rng)


def sample_other_classes(true: np.ndarray, frequencies: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Samples types or roles ``(P,)`` other than the true ones ``(P,)``, by their frequencies ``(T,)``."""
    # The maximum of log(frequency) + Gumbel noise is a sample by frequency; the true class is excluded.
    scores = np.log(frequencies) + rng.gumbel(size=(len(true), len(frequencies)))
    scores[np.arange(len(true)), true] = -np.inf
    return np.asarray(scores.argmax(axis=1))


def other_nodes(
    kept: np.ndarray, outgoing: np.ndarray, is_edge: np.ndarray, distances: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Samples for each edge another end, without an edge, at a distance sampled from those of true edges.

    If ``TRIED_DISTANCES`` samples fail, any other node without an edge is taken. ``outgoing`` says whether the edge
    starts at the end ``kept``, ``(P,)`` each; ``is_edge`` is the symmetric adjacency, ``(N, N)``. Returns ``(P,)``
    nodes; ``NONE`` where every other node has an edge.
    """
    count = len(is_edge)
    allowed = ~is_edge[kept]
    allowed[np.arange(len(kept)), kept] = False
    any_other = _sample_allowed(np.arange(count), allowed, rng)
    drawn = rng.choice(distances, (len(kept), TRIED_DISTANCES))
    # At distance 3, an edge from node 2 leads to node 5, and an edge to node 5 starts at node 2.
    candidates = kept[:, None] + np.where(outgoing[:, None], drawn, -drawn)
    inside = (candidates >= 0) & (candidates < count)
    fits = inside & np.take_along_axis(allowed, candidates.clip(0, count - 1), axis=1)
    first = candidates[np.arange(len(kept)), fits.argmax(axis=1)]
    return np.where(fits.any(axis=1), first, any_other)


def _frequencies(counts: np.ndarray) -> np.ndarray:
    """Relative frequencies, smoothed so that none is 0."""
    frequencies: np.ndarray = (counts + 1e-9) / (counts + 1e-9).sum()
    return frequencies


def _sample_allowed(values: np.ndarray, allowed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Samples an allowed value for each row of ``allowed (P, V)``, or ``NONE``."""
    if not len(values):
        return np.full(len(allowed), NONE)
    scores = np.where(allowed, rng.random(allowed.shape), -1.0)
    return np.where(allowed.any(axis=1), values[scores.argmax(axis=1)], NONE)


@dataclass(frozen=True)
class Shares:
    """Fractions of a method to predict."""

    tokens: float = 0.15  # fraction of the tokens of comment and code; BERT's 0.15 (Devlin et al., 2019)
    # fraction of the nodes whose edges of a kind are predicted; 0.2 as in GraphCodeBERT (Guo et al., 2021)
    nodes: float = 0.2


class EdgePairs(NamedTuple):
    """Pairs of positions ``ends (2, P)`` and whether they are edges, ``label (P,)`` 0 or 1."""

    ends: np.ndarray
    label: np.ndarray


class Sample(NamedTuple):
    """A masked method and its targets."""

    visible: CodeInput  # the method with replaced tokens, without the hidden edges
    positions: np.ndarray  # ``(M,)`` positions of the tokens to predict
    targets: np.ndarray  # ``(M,)`` their true ids
    pairs: dict[str, EdgePairs]  # edges and non-edges, by objective


class TokenVocabulary(NamedTuple):
    """Token ids: ``mask_id`` of [MASK], ``ordinary (V,)`` of all tokens that are not special."""

    mask_id: int
    ordinary: np.ndarray


@dataclass(eq=False)
class Sampler:
    """Masks tokens and edges of a method.

    Masked language model: ``shares.tokens`` of the tokens of comment and code, at least one, are predicted; 80% of them
    become [MASK], 10% a random token, 10% stay.

    Edges: for each kind of edge, ``shares.nodes`` of the nodes that have such edges, at least one, are sampled
    independently. Their edges of this kind are removed from the attention mask in both directions, and predicted
    together with a non-edge of the same node for each. Neither frequency nor mask distinguishes a non-edge: it has
    another type or role, sampled by frequency; a code token of another sampled node (at least two are sampled if
    possible); or another node, at a distance of true edges. An edge of a node without a non-edge is hidden, but not
    predicted.

    The samples of an objective do not depend on the other objectives.
    """

    objectives: Collection[str]
    shares: Shares
    priors: Priors
    vocabulary: TokenVocabulary

    def sample(self, method: CodeInput, rng: np.random.Generator) -> Sample:
        """Returns a masked copy of a method."""
        blocks = method.blocks[[COMMENT_BLOCK, CODE_BLOCK]]
        positions = np.concatenate([np.arange(first, first + length) for first, length in blocks])
        if MLM not in self.objectives or not len(positions):
            positions = positions[:0]
        else:
            count = max(1, round(self.shares.tokens * len(positions)))
            positions = np.sort(rng.choice(positions, count, replace=False))
        targets = method.input_ids[positions]
        # Each token to predict is replaced by [MASK] or a random token, or stays.
        draw = rng.random(len(targets))
        other = rng.choice(self.vocabulary.ordinary, len(targets))
        kept_or_random = np.where(draw < MASKED + RANDOM, other, targets)
        input_ids = method.input_ids.copy()
        input_ids[positions] = np.where(draw < MASKED, self.vocabulary.mask_id, kept_or_random)
        edges = method.edges._asdict()
        pairs = {}
        for (name, field), edge_rng in zip(EDGES_OF.items(), rng.spawn(len(EDGES_OF)), strict=True):
            if name in self.objectives:
                hidden = self._hidden(edges[field], name, edge_rng)
                pairs[name] = self._pairs(method, name, edges[field], hidden, edge_rng)
                edges[field] = edges[field][:, ~hidden]
        visible = CodeInput(input_ids, method.blocks, CodeEdges(**edges), method.pad_id, method.num_cut)
        return Sample(visible, positions, targets, pairs)

    def _hidden(self, edges: np.ndarray, name: str, rng: np.random.Generator) -> np.ndarray:
        """``(E,)`` bool: the edges of a sample of nodes."""
        if not edges.shape[1]:
            return np.zeros(0, dtype=bool)
        ends = edges
        if name != EDGE:  # only one end is a node
            ends = edges[1:] if name == ALIGNMENT else edges[:1]
        nodes = np.unique(ends)
        lowest = 2 if name == ALIGNMENT else 1  # a non-edge needs a token of another sampled node
        count = min(max(lowest, round(self.shares.nodes * len(nodes))), len(nodes))
        drawn = rng.choice(nodes, count, replace=False)
        return np.asarray(np.isin(ends, drawn).any(axis=0))

    def _pairs(
        self, method: CodeInput, name: str, edges: np.ndarray, hidden: np.ndarray, rng: np.random.Generator
    ) -> EdgePairs:
        """The hidden edges and as many non-edges."""
        hidden_edges = np.flatnonzero(hidden)
        non_edges = edges[:, hidden_edges].copy()
        if name == ALIGNMENT:
            non_edges[0] = other_tokens(edges, hidden_edges, rng)
        elif name == EDGE:
            non_edges = self._non_edges(method, edges, hidden, rng)
        else:
            block, frequencies = {TYPE: (TYPE_BLOCK, self.priors.types), ROLE: (ROLE_BLOCK, self.priors.roles)}[name]
            first = method.blocks[block, 0]
            non_edges[1] = first + sample_other_classes(non_edges[1] - first, frequencies, rng)
        exists = (non_edges != NONE).all(axis=0)
        ends = np.hstack([edges[:, hidden_edges][:, exists], non_edges[:, exists]])
        label = np.repeat(np.array([1, 0], dtype=np.int8), exists.sum())
        return EdgePairs(ends, label)

    def _non_edges(
        self, method: CodeInput, edges: np.ndarray, hidden: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Non-edges between nodes for the hidden edges, with the end ``NONE`` where there is no node."""
        first, count = method.blocks[NODE_BLOCK]
        start, end = edges - first
        is_edge = np.zeros((count, count), dtype=bool)
        # The predicted probability is symmetric, so that neither direction of an edge may be a non-edge.
        is_edge[start, end] = True
        is_edge[end, start] = True
        # All edges of a sampled node are hidden; if both ends are sampled, the first one stays.
        num_edges = np.bincount(start, minlength=count) + np.bincount(end, minlength=count)
        num_hidden = np.bincount(start[hidden], minlength=count) + np.bincount(end[hidden], minlength=count)
        is_whole = num_edges == num_hidden
        outgoing = is_whole[start[hidden]]
        kept = np.where(outgoing, start[hidden], end[hidden])
        other = other_nodes(kept, outgoing, is_edge, self.priors.distances, rng)
        other = np.where(other == NONE, NONE, other + first)
        kept = kept + first
        return np.stack([np.where(outgoing, kept, other), np.where(outgoing, other, kept)])


def active_weights(weights: Mapping[str, float], parts: InputParts) -> dict[str, float]:
    """The weights above 0 of the objectives whose edges an input has.

    Raises ValueError if an objective is unknown, or no objective is left.
    """
    for name in weights:
        if name not in OBJECTIVES:
            raise ValueError(f"task.weights.{name} is unknown: choose among {', '.join(OBJECTIVES)}")
    present = {MLM: True, ALIGNMENT: parts.nodes, EDGE: parts.nodes, TYPE: parts.types, ROLE: parts.roles}
    active = {name: float(weights.get(name, 0.0)) for name in OBJECTIVES if present[name]}
    active = {name: weight for name, weight in active.items() if weight > 0}
    if not active:
        raise ValueError("task.weights leaves no objective: give a weight above 0 to one that task.parts allows")
    return active
