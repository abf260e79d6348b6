"""What is hidden of a method and has to be predicted: tokens, and edges of its flow graph."""

from collections.abc import Collection, Mapping
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
from gedbd.localization.pretraining.non_edges import NONE, Priors, other_nodes, other_tokens, others_by_share

MLM = "mlm"
ALIGNMENT = "alignment"
EDGE = "edge"
TYPE = "type"
ROLE = "role"
EDGES_OF = {ALIGNMENT: "code_node", EDGE: "node_node", TYPE: "node_type", ROLE: "node_role"}
OBJECTIVES = (MLM, *EDGES_OF)
MASKED = 0.8  # of the tokens to predict: replaced by [MASK]
RANDOM = 0.1  # replaced by a random token; the others stay


@dataclass(frozen=True)
class Shares:
    """How much of a method is predicted.

    Args:
        tokens: Share of the tokens of comment and code; BERT's 0.15 (Devlin et al., 2019).
        nodes: Share of the nodes whose edges of one kind are predicted; 0.2 as in GraphCodeBERT (Guo et al., 2021).
    """

    tokens: float = 0.15
    nodes: float = 0.2


class EdgePairs(NamedTuple):
    """Pairs of tokens to predict an edge for: ``ends (2, P)`` positions, ``label (P,)`` 1 for an edge and else 0."""

    ends: np.ndarray
    label: np.ndarray


class Sample(NamedTuple):
    """A method with what is to be predicted.

    Attributes:
        visible: The method with replaced tokens and without the hidden edges.
        places: ``(M,)`` positions of the tokens to predict.
        targets: ``(M,)`` their true numbers.
        pairs: Edges and non-edges to tell apart, by objective.
    """

    visible: CodeInput
    places: np.ndarray
    targets: np.ndarray
    pairs: dict[str, EdgePairs]


class TokenVocabulary(NamedTuple):
    """Token numbers: ``mask_id`` of [MASK], ``ordinary (V,)`` of all tokens that are not special."""

    mask_id: int
    ordinary: np.ndarray


class Sampler:
    """Draws what is hidden of a method.

    Masked language model: ``shares.tokens`` of the tokens of comment and code, at least one; 80% of them become
    [MASK], 10% a random token, 10% stay.

    Edges: for each kind of edge its own sample of ``shares.nodes`` of the nodes that have such edges, at least one.
    Their edges of this kind are hidden, so that the attention mask lacks them in both directions. To be predicted
    are these edges, and a non-edge of the same node for each. The talk leaves open how a non-edge is drawn; here such
    that neither a frequency nor the mask answers: another type or role by its share in training; a code token of
    another drawn node, which has lost its edges as well (two nodes are drawn where there are any); another node at a
    distance drawn from those of true edges. An edge whose node has no non-edge is hidden, but not predicted.

    What is drawn for one objective does not depend on which others there are.

    Args:
        objectives: Which objectives there are; of the others nothing is hidden.
        shares: How much is predicted.
        priors: What is frequent in training.
        vocabulary: Token numbers.
    """

    def __init__(
        self, objectives: Collection[str], shares: Shares, priors: Priors, vocabulary: TokenVocabulary
    ) -> None:
        self.objectives = objectives
        self.shares = shares
        self.priors = priors
        self.vocabulary = vocabulary

    def sample(self, method: CodeInput, rng: np.random.Generator) -> Sample:
        """Draws from one method, which stays as it is."""
        places = self._places(method, rng)
        targets = method.input_ids[places]
        input_ids = method.input_ids.copy()
        input_ids[places] = self._replaced(targets, rng)
        edges = method.edges._asdict()
        pairs = {}
        for (name, field), own in zip(EDGES_OF.items(), rng.spawn(len(EDGES_OF)), strict=True):
            if name in self.objectives:
                hidden = self._hidden(edges[field], name, own)
                pairs[name] = self._pairs(method, name, edges[field], hidden, own)
                edges[field] = edges[field][:, ~hidden]
        visible = CodeInput(input_ids, method.blocks, CodeEdges(**edges), method.pad_id, method.num_cut)
        return Sample(visible, places, targets, pairs)

    def _places(self, method: CodeInput, rng: np.random.Generator) -> np.ndarray:
        """Positions of the tokens to predict, ascending."""
        blocks = method.blocks[[COMMENT_BLOCK, CODE_BLOCK]]
        positions = np.concatenate([np.arange(first, first + length) for first, length in blocks])
        if MLM not in self.objectives or not len(positions):
            return positions[:0]
        count = max(1, round(self.shares.tokens * len(positions)))
        return np.sort(rng.choice(positions, count, replace=False))

    def _replaced(self, targets: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The tokens to predict as they are shown."""
        draw = rng.random(len(targets))
        other = rng.choice(self.vocabulary.ordinary, len(targets))
        kept_or_random = np.where(draw < MASKED + RANDOM, other, targets)
        return np.where(draw < MASKED, self.vocabulary.mask_id, kept_or_random)

    def _hidden(self, edges: np.ndarray, name: str, rng: np.random.Generator) -> np.ndarray:
        """``(E,)`` bool: the edges of the drawn nodes."""
        if not edges.shape[1]:
            return np.zeros(0, dtype=bool)
        ends = _node_ends(edges, name)
        nodes = np.unique(ends)
        lowest = 2 if name == ALIGNMENT else 1  # a token of one drawn node makes a non-edge of another
        count = min(max(lowest, round(self.shares.nodes * len(nodes))), len(nodes))
        drawn = rng.choice(nodes, count, replace=False)
        return np.asarray(np.isin(ends, drawn).any(axis=0))

    def _pairs(
        self, method: CodeInput, name: str, edges: np.ndarray, hidden: np.ndarray, rng: np.random.Generator
    ) -> EdgePairs:
        """The hidden edges and as many non-edges."""
        chosen = np.flatnonzero(hidden)
        others = edges[:, chosen].copy()
        if name == ALIGNMENT:
            others[0] = other_tokens(edges, chosen, rng)
        elif name == EDGE:
            others = self._other_edges(method, edges, hidden, rng)
        else:
            block, shares = {TYPE: (TYPE_BLOCK, self.priors.types), ROLE: (ROLE_BLOCK, self.priors.roles)}[name]
            first = method.blocks[block, 0]
            others[1] = first + others_by_share(others[1] - first, shares, rng)
        found = (others != NONE).all(axis=0)
        ends = np.hstack([edges[:, chosen][:, found], others[:, found]])
        label = np.repeat(np.array([1, 0], dtype=np.int8), found.sum())
        return EdgePairs(ends, label)

    def _other_edges(
        self, method: CodeInput, edges: np.ndarray, hidden: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Non-edges between nodes for the hidden edges; ``NONE`` at the end for which there is no node."""
        first, count = method.blocks[NODE_BLOCK]
        start, end = edges - first
        is_edge = np.zeros((count, count), dtype=bool)
        # The probability of an edge is the same in both directions, so that neither may be a non-edge.
        is_edge[start, end] = True
        is_edge[end, start] = True
        # A drawn node has all its edges hidden; if both ends are such nodes, the first one stays.
        num_edges = np.bincount(start, minlength=count) + np.bincount(end, minlength=count)
        num_hidden = np.bincount(start[hidden], minlength=count) + np.bincount(end[hidden], minlength=count)
        is_whole = num_edges == num_hidden
        outgoing = is_whole[start[hidden]]
        kept = np.where(outgoing, start[hidden], end[hidden])
        other = other_nodes(kept, outgoing, is_edge, self.priors.distances, rng)
        other = np.where(other == NONE, NONE, other + first)
        kept = kept + first
        return np.stack([np.where(outgoing, kept, other), np.where(outgoing, other, kept)])


def _node_ends(edges: np.ndarray, name: str) -> np.ndarray:
    """``(1 or 2, E)`` the ends of edges that are nodes."""
    if name == EDGE:
        return edges
    return edges[1:] if name == ALIGNMENT else edges[:1]


"""The field of ``CodeEdges`` that an objective predicts: E1 to E4 of the talk."""


def active_weights(weights: Mapping[str, float], parts: InputParts) -> dict[str, float]:
    """The weights above 0 of the objectives whose edges an input has.

    Args:
        weights: Weights by objective; one that is left out has weight 0.
        parts: The parts of an input.

    Raises:
        ValueError: If an objective is unknown, or no objective is left.
    """
    for name in weights:
        if name not in OBJECTIVES:
            raise ValueError(f"task.weights.{name} is unknown: choose among {', '.join(OBJECTIVES)}")
    present = {MLM: True, ALIGNMENT: parts.nodes, EDGE: parts.nodes, TYPE: parts.types, ROLE: parts.roles}
    active = {name: float(weights.get(name, 0.0)) for name in OBJECTIVES if present[name]}
    active = {name: weight for name, weight in active.items() if weight > 0}
    if not active:
        raise ValueError("task.weights leaves no objective: give one whose part is in task.parts a weight above 0")
    return active
