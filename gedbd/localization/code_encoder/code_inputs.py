"""A method with its comment and flow graph as the tokens of an encoder, and batches of such inputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gedbd.localization.flow_graph.node_types import EdgeKind, FlowGraph, GraphRules, NodeType, Role

CODE = "[C]"
NODES = "[N]"
TYPES = "[T]"
ROLES = "[R]"
NODE = "[NODE]"
TYPE_TOKENS = tuple(f"[TYPE:{kind.name}]" for kind in NodeType)
ROLE_TOKENS = tuple(f"[ROLE:{role.name}]" for role in Role)
CODE_TOKENS = (CODE, NODES, TYPES, ROLES, NODE, *TYPE_TOKENS, *ROLE_TOKENS)
"""The markers of the blocks, the token of a node, and those of the 55 types and 43 roles."""
BLOCKS = ("comment", "code", "nodes", "types", "roles")
COMMENT_BLOCK, CODE_BLOCK, NODE_BLOCK, TYPE_BLOCK, ROLE_BLOCK = range(len(BLOCKS))  # rows of ``CodeInput.blocks``
EDGE_CHOICES = ("flow", "data")
Positions = TypeVar("Positions", np.ndarray, Tensor)
NO_NODE = np.zeros(0, dtype=np.int8)


def add_code_tokens(tokenizer: PreTrainedTokenizerBase, backbone: PreTrainedModel, seed: int = 0) -> int:
    """Adds ``CODE_TOKENS`` to a tokenizer as special tokens, and their rows to the embeddings of its encoder, in place.

    Each unit of a new row is drawn from a normal distribution with the mean and standard deviation of the old rows;
    ``seed`` determines it. Existing tokens keep their rows. Returns the number of tokens added.

    Texts are read with ``split_special_tokens``: the ``[N]`` of ``new int[N]`` is code, not a marker. This setting is
    saved with the tokenizer.
    """
    known = tokenizer.get_vocab()
    missing = [token for token in CODE_TOKENS if token not in known]
    tokenizer.add_tokens(missing, special_tokens=True)
    tokenizer.split_special_tokens = True
    tokenizer.init_kwargs["split_special_tokens"] = True
    if len(tokenizer) > len(embeddings_of(backbone)):
        with torch.random.fork_rng(devices=[]):
            backbone.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    weight = embeddings_of(backbone)
    with torch.no_grad():
        old = weight[: len(known)].float().cpu()
        noise = torch.randn(len(missing), old.shape[1], generator=torch.Generator().manual_seed(seed))
        drawn = old.mean(0) + old.std(0) * noise
        weight[token_numbers(tokenizer, missing)] = drawn.to(weight)
    return len(missing)


def token_numbers(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[str]) -> list[int]:
    """The ids of tokens. Raises ValueError if the tokenizer does not have them all."""
    numbers: Any = tokenizer.convert_tokens_to_ids(list(tokens))
    if None in numbers or tokenizer.unk_token_id in numbers:
        raise ValueError("the tokenizer lacks tokens of code and flow graphs: call add_code_tokens before make_input")
    return list(numbers)


def embeddings_of(backbone: PreTrainedModel) -> Tensor:
    """The embeddings ``(V, H)`` of a model's tokens."""
    weight = backbone.get_input_embeddings().weight
    assert isinstance(weight, Tensor)
    return weight


@dataclass(frozen=True)
class InputLimits:
    """The maximum numbers of comment tokens, code tokens and nodes; the rest is cut off."""

    comment_tokens: int = 64
    code_tokens: int = 256
    nodes: int = 80

    def __post_init__(self) -> None:
        for name, lowest in (("comment_tokens", 0), ("code_tokens", 1), ("nodes", 0)):
            if getattr(self, name) < lowest:
                raise ValueError(f"{name}={getattr(self, name)} must be {lowest} or more")


@dataclass(frozen=True)
class InputParts(GraphRules):
    """The parts of an input besides comment and code, with the rules of its flow graph.

    Raises ValueError if a choice is unknown, or there are types or roles without nodes.
    """

    nodes: bool = True  # whether the nodes of the flow graph are part of it
    types: bool = True  # whether the 55 types are
    roles: bool = True  # whether the 43 roles are
    # ``flow`` for the nodes and edges of the semantic flow graph; ``data`` for variables and the flow of data between
    # them alone, as in GraphCodeBERT (Guo et al., 2021)
    edges: str = "flow"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.edges not in EDGE_CHOICES:
            raise ValueError(f"edges={self.edges} is unknown: choose {' or '.join(EDGE_CHOICES)}")
        if not self.nodes and (self.types or self.roles):
            raise ValueError("types and roles belong to nodes: with nodes=false, set types=false and roles=false")


class CodeEdges(NamedTuple, Generic[Positions]):
    """Edges of an input or a batch, by kind, in the order of the nodes: E1 to E4 of the talk.

    Each kind leads from the first of its two names to the second. Those of an input are ``(2, E)`` positions of tokens
    each, those of a batch ``(3, E)``: row of the batch, from and to.
    """

    code_node: Positions
    node_node: Positions
    node_type: Positions
    node_role: Positions


class CodeInput(NamedTuple):
    """The tokens of one method."""

    input_ids: np.ndarray  # ``(L,)`` int32 token ids
    # ``(5, 2)`` int32: first position and length of each of ``BLOCKS``, 0 and 0 of one that is left out
    blocks: np.ndarray
    edges: CodeEdges[np.ndarray]  # edges in positions
    pad_id: int  # token id of padding
    # how many tokens of the comment, tokens of the code and nodes were cut off
    num_cut: tuple[int, int, int] = (0, 0, 0)

    def __len__(self) -> int:
        return len(self.input_ids)


def max_length(limits: InputLimits, parts: InputParts) -> int:
    """The length of the longest input: ``[CLS] comment [C] code [SEP] [N] nodes [T] types [R] roles [SEP]``."""
    length = 3 + limits.comment_tokens + limits.code_tokens
    length += 1 + limits.nodes if parts.nodes else 0
    length += 1 + len(NodeType) if parts.types else 0
    length += 1 + len(Role) if parts.roles else 0
    # Without nodes there is nothing between the two [SEP], and the second one is left out.
    return length + 1 if parts.nodes else length


def check_length(limits: InputLimits, parts: InputParts, positions: int | None) -> None:
    """Raises ValueError if the longest input exceeds the positions of a model; None: it has no limit."""
    longest = max_length(limits, parts)
    if positions is not None and longest > positions:
        raise ValueError(
            f"comment_tokens={limits.comment_tokens}, code_tokens={limits.code_tokens} and nodes={limits.nodes} make"
            f" inputs of up to {longest} tokens, but the encoder has {positions} positions: lower them, or leave out"
            " types and roles (types=false, roles=false)"
        )


def make_input(
    tokenizer: PreTrainedTokenizerBase,
    code: str,
    comment: str,
    graph: FlowGraph | None,
    limits: InputLimits,
    parts: InputParts | None,
) -> CodeInput:
    """The input ``[CLS] comment [C] code [SEP] [N] nodes [T] types [R] roles [SEP]`` of the talk.

    With ``parts`` None, for an encoder of plain texts, it is ``[CLS] comment code [SEP]``.

    All nodes have the token ``[NODE]`` (ours; the talk does not say how a node is written); their edges to code, nodes,
    types and roles say what they are. Blocks that ``parts`` leaves out are absent with their markers; without nodes the
    input ends after the code's ``[SEP]``. If the code is cut, so are the nodes that begin after its last token, with
    their edges.

    The tokenizer is a fast one; with parts it has the tokens of ``add_code_tokens``. ``graph`` is that of ``code``, or
    None.
    Raises ValueError if the tokenizer does not say where in a text its tokens are.
    """
    all_comment_ids, _ = tokenize(tokenizer, comment)
    all_code_ids, all_offsets = tokenize(tokenizer, code)
    code_ids = all_code_ids[: limits.code_tokens]
    offsets = all_offsets[: limits.code_tokens]
    nodes = NO_GRAPH
    if parts is not None and parts.nodes and graph is not None:
        end = offsets[-1, 1] if len(code_ids) < len(all_code_ids) else len(code)
        nodes = keep_graph(graph, end, limits.nodes, parts.edges)
    known = () if parts is None else CODE_TOKENS
    number = dict(zip(known, token_numbers(tokenizer, known), strict=True))
    end_id = int(tokenizer.sep_token_id)
    # The tokens of each block, after its markers.
    comment_ids = all_comment_ids[: limits.comment_tokens]
    code_marker = [] if parts is None else [number[CODE]]
    sections = [([int(tokenizer.cls_token_id)], COMMENT_BLOCK, comment_ids), (code_marker, CODE_BLOCK, code_ids)]
    if parts is not None and parts.nodes:
        sections.append(([end_id, number[NODES]], NODE_BLOCK, [number[NODE]] * len(nodes.types)))
    if parts is not None and parts.types:
        sections.append(([number[TYPES]], TYPE_BLOCK, [number[token] for token in TYPE_TOKENS]))
    if parts is not None and parts.roles:
        sections.append(([number[ROLES]], ROLE_BLOCK, [number[token] for token in ROLE_TOKENS]))
    blocks = np.zeros((len(BLOCKS), 2), dtype=np.int32)
    input_ids: list[int] = []
    for markers, block, tokens in sections:
        input_ids += markers
        blocks[block] = len(input_ids), len(tokens)
        input_ids += tokens
    input_ids.append(end_id)
    num_cut = (len(all_comment_ids) - len(comment_ids), len(all_code_ids) - len(code_ids), nodes.num_cut)
    edges = _edges(nodes, offsets, blocks, parts or InputParts())
    return CodeInput(np.array(input_ids, dtype=np.int32), blocks, edges, int(tokenizer.pad_token_id), num_cut)


def tokenize(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[list[int], np.ndarray]:
    """Token ids of a text, and their first and last (exclusive) characters ``(S, 2)``."""
    if not tokenizer.is_fast:
        raise ValueError(
            f"{type(tokenizer).__name__} does not say where its tokens are in a text: use an encoder with a fast"
            " tokenizer (tokenizer.json)"
        )
    # Words of the text that look like special tokens are text: see add_code_tokens. verbose=False hides the warning
    # about texts that are longer than the model reads, as they are cut afterwards.
    encoded = tokenizer(
        text, add_special_tokens=False, return_offsets_mapping=True, split_special_tokens=True, verbose=False
    )
    return encoded["input_ids"], np.array(encoded["offset_mapping"], dtype=np.int64).reshape(-1, 2)


class KeptGraph(NamedTuple):
    """Nodes and edges that were kept, renumbered, with the arrays of ``FlowGraph``; each pair of nodes once."""

    spans: np.ndarray
    types: np.ndarray
    roles: np.ndarray
    edges: np.ndarray
    num_cut: int


NO_GRAPH = KeptGraph(np.zeros((0, 2), dtype=np.int32), NO_NODE, NO_NODE, np.zeros((2, 0), dtype=np.int32), 0)


def keep_graph(graph: FlowGraph, code_end: int, max_nodes: int, edges: str) -> KeptGraph:
    """Keeps the first ``max_nodes`` nodes of a graph that begin before the character ``code_end``.

    ``edges`` is ``flow`` for all nodes and edges, ``data`` for variables and the flow of data between them.
    """
    is_candidate = np.ones(len(graph), dtype=bool)
    is_edge = np.ones(graph.edges.shape[1], dtype=bool)
    if edges == "data":
        is_candidate = graph.types <= NodeType.NULL
        is_edge = graph.kinds == EdgeKind.DATA
    inside = is_candidate & (graph.spans[:, 0] < code_end)
    # The running count of nodes inside is 1 for the first of them, 2 for the second.
    kept = inside & (np.cumsum(inside) <= max_nodes)
    # Nodes 1 and 3 of four are kept: their new numbers are 0 and 1, in -1 0 0 1; the others are never looked up.
    number = np.cumsum(kept) - 1
    is_edge &= kept[graph.edges].all(0)
    edges_kept = np.unique(number[graph.edges[:, is_edge]], axis=1)
    return KeptGraph(
        graph.spans[kept], graph.types[kept], graph.roles[kept], edges_kept, int(is_candidate.sum()) - int(kept.sum())
    )


def _edges(graph: KeptGraph, offsets: np.ndarray, blocks: np.ndarray, parts: InputParts) -> CodeEdges[np.ndarray]:
    """The edges of a graph in positions of tokens."""
    _, code, first_node, first_type, first_role = blocks[:, 0]
    tokens, owners = tokens_of_nodes(offsets, graph.spans)
    nodes = np.arange(len(graph.types))
    typed = nodes if parts.types else nodes[:0]
    with_role = np.flatnonzero(graph.roles >= 0) if parts.roles else nodes[:0]
    pairs = (
        (code + tokens, first_node + owners),
        (first_node + graph.edges[0], first_node + graph.edges[1]),
        (first_node + typed, first_type + graph.types[typed]),
        (first_node + with_role, first_role + graph.roles[with_role]),
    )
    return CodeEdges(*(np.stack(pair).astype(np.int32) for pair in pairs))


def tokens_of_nodes(offsets: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """The tokens that overlap with each node, as ``(2, E)`` tokens and nodes, by node.

    ``offsets (S, 2)`` are first and last (exclusive) character of each token, ascending, ``spans (N, 2)`` of each node.
    """
    first = np.searchsorted(offsets[:, 1], spans[:, 0], side="right")
    last = np.searchsorted(offsets[:, 0], spans[:, 1], side="left")
    counts = np.maximum(last - first, 0)
    nodes = np.repeat(np.arange(len(spans)), counts)
    # Node 0 has the tokens 4 and 5, node 1 token 9: counts 2 1, begins 0 2, positions 0 1 0, tokens 4 5 9.
    begins = np.cumsum(counts) - counts
    positions = np.arange(counts.sum()) - begins[nodes]
    return np.stack([first[nodes] + positions, nodes])


class CodeBatch(NamedTuple):
    """B inputs, padded on the right to the longest."""

    input_ids: Tensor  # ``(B, L)`` token ids
    lengths: Tensor  # ``(B,)`` numbers of tokens
    blocks: Tensor  # ``(B, 5, 2)`` first position and length of each of ``BLOCKS``
    edges: CodeEdges[Tensor]  # edges, by kind

    def inside(self, name: str) -> Tensor:
        """Whether each position is in a block of that name, ``(B, L)`` bool."""
        start, length = self.blocks[:, BLOCKS.index(name), :, None].unbind(1)
        position = torch.arange(self.input_ids.shape[1], device=self.input_ids.device)
        return (position >= start) & (position < start + length)

    @property
    def is_token(self) -> Tensor:
        """Whether each position is not padding, ``(B, L)`` bool."""
        return torch.arange(self.input_ids.shape[1], device=self.input_ids.device) < self.lengths[:, None]


def collate(inputs: Sequence[CodeInput]) -> CodeBatch:
    """One batch of B inputs of one tokenizer."""
    lengths = np.array([len(method) for method in inputs])
    input_ids = np.full((len(inputs), lengths.max()), inputs[0].pad_id, dtype=np.int64)
    for row, method in enumerate(inputs):
        input_ids[row, : len(method)] = method.input_ids
    return CodeBatch(
        input_ids=torch.from_numpy(input_ids),
        lengths=torch.from_numpy(lengths),
        blocks=torch.from_numpy(np.stack([method.blocks for method in inputs]).astype(np.int64)),
        edges=CodeEdges(
            *(_batch_edges([method.edges for method in inputs], kind) for kind in range(len(CodeEdges._fields)))
        ),
    )


def _batch_edges(edges: list[CodeEdges[np.ndarray]], kind: int) -> Tensor:
    """The edges of one kind of all inputs, ``(3, E)``."""
    counts = [each[kind].shape[1] for each in edges]
    # Inputs with 2 and 1 edges: the rows of the batch are 0 0 1.
    row = np.repeat(np.arange(len(edges)), counts)
    pairs = np.concatenate([each[kind] for each in edges], axis=1)
    return torch.from_numpy(np.vstack([row, pairs]).astype(np.int64))
