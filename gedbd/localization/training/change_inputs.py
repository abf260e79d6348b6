"""Reports and changes as inputs of the two encoders."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gedbd.corpora.templates import Texts, title_description
from gedbd.encoders.backbone import max_positions
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.localization.code_encoder.code_encoder import UntrainedEncoder, load_code_encoder
from gedbd.localization.code_encoder.code_inputs import (
    CodeInput,
    InputLimits,
    InputParts,
    add_code_tokens,
    check_length,
    make_input,
)
from gedbd.localization.flow_graph.node_types import FlowGraph, GraphRules
from gedbd.localization.flow_graph.parse import fragment_graph
from gedbd.text.diffs import MARKS, NEW_FILE, NEW_HUNK, DiffReader

Form = Literal["D", "ARC", "ARCL"]
MAX_CHARACTERS = 4_000  # several times what encoders read
TEXT_ALONE = InputParts(nodes=False, types=False, roles=False)
CHARACTERS_PER_TOKEN = 16  # far more than on average; longer texts are cut before tokenization
NEW_SIDE = frozenset("+ ")
OLD_SIDE = frozenset("- ")


class Side(NamedTuple):
    """The encoder of reports or of changes, without ``truncate_dim``."""

    backbone: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    limits: InputLimits  # maximum numbers of tokens of comment and code, and of nodes. A report is a comment
    # parts of an input of an encoder of code; None for an encoder of plain texts, which reads comment and code one
    # after the other, without a graph
    parts: InputParts | None
    prefix: str = ""  # prefix of comments for an encoder of plain texts; its tokens count as those of the comment

    def input(self, comment: str, code: str, graph: FlowGraph | None = None) -> CodeInput:
        """The input of a comment and of code with its flow graph, each of which may be empty."""
        comment = self.prefix + comment[: CHARACTERS_PER_TOKEN * self.limits.comment_tokens]
        # Without a graph, types and roles would be the same tokens in every input.
        parts = TEXT_ALONE if self.parts is not None and graph is None else self.parts
        return make_input(self.tokenizer, code, comment, graph, self.limits, parts)


def code_side(folder: str | Path, limits: InputLimits, graph: bool = True) -> Side:
    """The encoder of code in the ``encoder`` folder of a run of ``task=pretraining``, with other limits of the inputs.

    ``graph`` says whether to read flow graphs, if the encoder was trained on them. Raises ValueError if the folder has
    no encoder, or the limits exceed its positions.
    """
    backbone, tokenizer, _, saved_parts = load_code_encoder(folder)
    parts = saved_parts if graph else TEXT_ALONE
    check_length(limits, parts, max_positions(backbone))
    return Side(backbone, tokenizer, limits, parts)


def untrained_side(encoder: UntrainedEncoder, texts: Iterable[str], limits: InputLimits, graph: bool = True) -> Side:
    """An encoder of code without pre-trained weights, with a tokenizer trained on texts.

    Raises ValueError if the limits exceed the positions of the encoder.
    """
    backbone, tokenizer = encoder.fit(texts)
    add_code_tokens(tokenizer, backbone)
    parts = InputParts() if graph else TEXT_ALONE
    check_length(limits, parts, max_positions(backbone))
    return Side(backbone, tokenizer, limits, parts)


def text_side(encoder: LoadedEncoder, limits: InputLimits) -> Side:
    """An encoder of plain texts; raises ValueError if the limits exceed the positions of the encoder."""
    backbone = encoder.model.backbone
    assert isinstance(backbone, PreTrainedModel)
    longest = 2 + limits.comment_tokens + limits.code_tokens
    positions = max_positions(backbone)
    if positions is not None and longest > positions:
        raise ValueError(
            f"comment_tokens={limits.comment_tokens} and code_tokens={limits.code_tokens} make inputs of up to"
            f" {longest} tokens, but the encoder has {positions} positions: lower them"
        )
    return Side(backbone, encoder.tokenizer, limits, None, encoder.prefix)


def report_or_change(
    table: pd.DataFrame, tokenizer: PreTrainedTokenizerBase | None = None, max_tokens: int | None = None
) -> Texts:
    """Title and description of reports, message and paths of commits, path and diff of files, path and text of hunks.

    ``tokenizer`` and ``max_tokens`` are unused: the encoder truncates long texts.
    """
    if "diff" not in table:
        return title_description(table)
    if "parents" in table:
        joined = table["title"] + "\n" + table["description"] + "\n" + table["paths"]
    else:
        joined = table["paths"] + "\n" + table["diff"]
    return Texts([str(text)[:MAX_CHARACTERS] for text in joined])


class Inputs:
    """Inputs by row, made at first use."""

    def __init__(self, count: int, make: Callable[[int], CodeInput]) -> None:
        self._count = count
        self._make = cache(make)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: int) -> CodeInput:
        return self._make(row)


def report_inputs(side: Side, reports: pd.DataFrame) -> Inputs:
    """``title`` and ``description`` of R reports, read as a comment without code."""
    texts = (reports["title"].str.strip() + "\n" + reports["description"].str.strip()).str.strip().tolist()
    return Inputs(len(texts), lambda row: side.input(texts[row], ""))


def change_inputs(side: Side, changes: pd.DataFrame, form: Form = "ARCL", message: bool = True) -> Inputs:
    """Changes: the first line of the message and the changed paths as the comment, and the diff as the code."""
    rows = list(zip(changes["title"], changes["paths"], changes["diff"], strict=True))
    max_characters = CHARACTERS_PER_TOKEN * side.limits.code_tokens
    rules = side.parts if side.parts is not None and side.parts.nodes else None

    def make(row: int) -> CodeInput:
        title, paths, diff = rows[row]
        comment = f"{paths}\n{title}" if message else paths
        if message and "\n" in paths:
            # The many paths of a commit would displace its message.
            comment = f"{title}\n{paths}"
        change = read_change(diff, form, max_characters, paths.endswith(".java"), rules)
        return side.input(comment, change.text, change.graph)

    return Inputs(len(rows), make)


class Line(NamedTuple):
    """A line of a hunk."""

    sign: str  # ``+``, ``-`` or blank
    text: str  # text after the sign
    hunk: int  # number of the hunk
    in_diff: int  # start of the text in the diff
    is_java: bool  # whether the hunk belongs to a Java file


class ChangeText(NamedTuple):
    """The text of a change for an encoder, and its graph; None without Java code that can be parsed."""

    text: str
    graph: FlowGraph | None


def read_change(diff: str, form: Form, max_characters: int, is_java: bool, rules: GraphRules | None) -> ChangeText:
    """Reads the beginning of a unified diff, and writes it in one of three forms.

    - ``D``: the whole diff as it stands.
    - ``ARC``: the added, the removed and the context lines, in this order, each group after its mark; groups without
      lines are left out. The hunk ``-a +b  c`` gives ``[ADDED] b [REMOVED] a [CONTEXT] c``, each on a line.
    - ``ARCL``: line by line, the sign of each line replaced by its mark.

    ``ARC`` and ``ARCL`` leave out the headers of files and hunks. Source: Ciborowska and Damevski, "Fast
    Changeset-based Bug Localization with BERT", ICSE 2022.

    Args:
        diff: The diff of a commit, a file or a hunk; it may be cut off anywhere.
        form: See above.
        max_characters: Maximum length of the diff and of the text.
        is_java: Whether hunks without a file header belong to a Java file.
        rules: Rules of the graph; None for no graph.
    """
    if form not in get_args(Form):
        raise ValueError(f"the form {form!r} of change texts is unknown: choose {', '.join(get_args(Form))}")
    diff = diff[:max_characters]
    lines = list(lines_of(diff, is_java))
    text = diff
    starts = [line.in_diff for line in lines]
    if form != "D":
        text, starts = _marked_text(lines, form)
    text = text[:max_characters]
    if rules is None:
        return ChangeText(text, None)
    graphs = []
    placed = ((line, start) for line, start in zip(lines, starts, strict=True) if line.is_java)
    for _, hunk in groupby(placed, key=lambda item: item[0].hunk):
        graph = _hunk_graph(list(hunk), rules)
        if graph is not None:
            graphs.append(graph)
    return ChangeText(text, joined(graphs) if graphs else None)


def _marked_text(lines: list[Line], form: Form) -> tuple[str, list[int]]:
    """The text of the form ``ARC`` or ``ARCL``, and the start of each line in it."""
    starts = [0] * len(lines)
    text = ""
    if form == "ARCL":
        for number, line in enumerate(lines):
            text += f"{MARKS[line.sign]} "
            starts[number] = len(text)
            text += f"{line.text}\n"
        return text.removesuffix("\n"), starts
    for sign, mark in MARKS.items():
        group = [number for number, line in enumerate(lines) if line.sign == sign]
        text += f"{mark}\n" if group else ""
        for number in group:
            starts[number] = len(text)
            text += f"{lines[number].text}\n"
    return text.removesuffix("\n"), starts


def lines_of(diff: str, is_java: bool) -> Iterator[Line]:
    """The lines of the hunks of a diff; ``is_java`` is that of hunks without a file header."""
    reader = DiffReader()
    hunk = -1
    start = 0
    for line in diff.removesuffix("\n").split("\n"):
        kind = reader.kind(line)
        if kind == NEW_FILE:
            is_java = line.rstrip().endswith(".java")
        elif kind == NEW_HUNK:
            hunk += 1
        elif kind in MARKS:
            yield Line(kind, line[1:], hunk, start + len(line[:1]), is_java)
        start += len(line) + 1


def _hunk_graph(placed: list[tuple[Line, int]], rules: GraphRules) -> FlowGraph | None:
    """The graph of one side of a hunk, given by its lines and their starts in the text, with spans in the text."""
    side = NEW_SIDE if any(line.sign == "+" for line, _ in placed) else OLD_SIDE
    placed = [item for item in placed if item[0].sign in side]
    texts = [line.text for line, _ in placed]
    graph = fragment_graph("\n".join(texts), rules)
    if graph is None or not len(graph):
        return None
    # Lines of 3 and 5 characters start at 0 and 4 in the code of the side.
    lengths = np.array([len(text) for text in texts])
    in_code = np.cumsum(lengths + 1) - lengths - 1
    in_text = np.array([start for _, start in placed])
    line = np.searchsorted(in_code, graph.spans[:, 0], side="right") - 1
    start = in_text[line] + graph.spans[:, 0] - in_code[line]
    # A node of several lines is cut at the end of its first line.
    end = np.minimum(start + graph.spans[:, 1] - graph.spans[:, 0], in_text[line] + lengths[line])
    spans = np.stack([start, np.maximum(end, start)], axis=1).astype(np.int32)
    return replace(graph, spans=spans)


def joined(graphs: list[FlowGraph]) -> FlowGraph:
    """The disjoint union of graphs, with nodes in the order of their spans."""
    spans = np.concatenate([graph.spans for graph in graphs])
    firsts = np.cumsum([0, *(len(graph) for graph in graphs[:-1])])
    edges = np.concatenate([graph.edges + first for graph, first in zip(graphs, firsts, strict=True)], axis=1)
    kinds = np.concatenate([graph.kinds for graph in graphs])
    order = np.argsort(spans[:, 0], kind="stable")
    # Nodes in the order 2 0 1 have the new numbers 1 2 0.
    number = np.argsort(order, kind="stable")
    edges = number[edges].astype(np.int32)
    sorting = np.lexsort((kinds, edges[1], edges[0]))
    names = [name for graph in graphs for name in graph.names]
    return FlowGraph(
        tuple(names[node] for node in order),
        spans[order],
        np.concatenate([graph.types for graph in graphs])[order],
        np.concatenate([graph.roles for graph in graphs])[order],
        edges[:, sorting],
        kinds[sorting],
        any(graph.is_approximate for graph in graphs),
    )
