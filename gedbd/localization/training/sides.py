"""The two sides of the model, reports and changes: the encoder of each, and how it reads a text."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gedbd.corpora.templates import Texts, title_description
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.encoders.pretrained import max_positions
from gedbd.localization.code_encoder.code_encoder import load_code_encoder
from gedbd.localization.code_encoder.code_inputs import (
    BLOCKS,
    CodeEdges,
    CodeInput,
    InputLimits,
    InputParts,
    check_length,
    make_input,
    tokenize,
)
from gedbd.localization.code_encoder.code_tokens import add_code_tokens
from gedbd.localization.code_encoder.untrained_encoder import UntrainedEncoder
from gedbd.localization.flow_graph.semantic_graph import FlowGraph, GraphRules

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


MAX_CHARACTERS = 4_000  # several times what encoders read
TEXT_ALONE = InputParts(nodes=False, types=False, roles=False)
CHARACTERS_PER_TOKEN = 16  # far more than a token has on average: the rest of a very long text need not be read


class Side(NamedTuple):
    """An encoder of one side.

    Attributes:
        backbone: Its weights.
        tokenizer: Its tokenizer.
        limits: What comes after so many tokens of comment, tokens of code or nodes is cut off. A report is a comment.
        parts: Which parts an input of an encoder of code has; None for an encoder of plain texts, which reads comment
            and code one after the other and knows no graph.
        prefix: What an encoder of plain texts reads before a comment; its tokens count as those of the comment.

    What is trained on top of it reads whole pooled vectors, whatever ``truncate_dim`` of the encoder says.
    """

    backbone: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    limits: InputLimits
    parts: InputParts | None
    prefix: str = ""

    def input(self, comment: str, code: str, graph: FlowGraph | None = None) -> CodeInput:
        """The tokens of a comment and of code with its flow graph; any of them may be empty."""
        comment = comment[: CHARACTERS_PER_TOKEN * self.limits.comment_tokens]
        if self.parts is None:
            return plain_input(self.tokenizer, self.prefix + comment, code, self.limits)
        # Without a graph, the types and roles would be the same tokens in every input: they are left out.
        parts = TEXT_ALONE if graph is None else self.parts
        return make_input(self.tokenizer, code, comment, graph, self.limits, parts)

    @property
    def graph_rules(self) -> GraphRules | None:
        """How the flow graphs that it reads are made; None if it reads none."""
        return self.parts.rules if self.parts is not None and self.parts.nodes else None


def code_side(folder: str | Path, limits: InputLimits, graph: bool = True) -> Side:
    """The encoder of code of a run of ``task=pretraining``.

    Args:
        folder: The ``encoder`` folder of the run.
        limits: Of the inputs, in place of those of the run.
        graph: Whether it reads flow graphs, if it was trained on them.

    Raises:
        ValueError: If the folder is none, or inputs would be longer than the encoder reads.
    """
    saved = load_code_encoder(folder)
    parts = saved.parts if graph else TEXT_ALONE
    check_length(limits, parts, max_positions(saved.encoder.backbone))
    return Side(saved.encoder.backbone, saved.tokenizer, limits, parts)


def untrained_side(encoder: UntrainedEncoder, texts: Iterable[str], limits: InputLimits, graph: bool = True) -> Side:
    """An encoder of code without pre-trained weights; its tokenizer is made from texts.

    Raises:
        ValueError: If inputs would be longer than the encoder reads.
    """
    backbone, tokenizer = encoder.fit(texts)
    add_code_tokens(tokenizer, backbone)
    parts = InputParts() if graph else TEXT_ALONE
    check_length(limits, parts, max_positions(backbone))
    return Side(backbone, tokenizer, limits, parts)


def text_side(encoder: LoadedEncoder, limits: InputLimits) -> Side:
    """An encoder of plain texts.

    Raises:
        ValueError: If inputs would be longer than the encoder reads.
    """
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


def plain_input(tokenizer: PreTrainedTokenizerBase, comment: str, code: str, limits: InputLimits) -> CodeInput:
    """The input ``[CLS] comment code [SEP]``, without a graph."""
    comment_ids, _ = tokenize(tokenizer, comment)
    code_ids, _ = tokenize(tokenizer, code)
    kept_comment = comment_ids[: limits.comment_tokens]
    kept_code = code_ids[: limits.code_tokens]
    ids = [int(tokenizer.cls_token_id), *kept_comment, *kept_code, int(tokenizer.sep_token_id)]
    blocks = np.zeros((len(BLOCKS), 2), dtype=np.int32)
    blocks[BLOCKS.index("comment")] = 1, len(kept_comment)
    blocks[BLOCKS.index("code")] = 1 + len(kept_comment), len(kept_code)
    num_cut = (len(comment_ids) - len(kept_comment), len(code_ids) - len(kept_code), 0)
    edges = CodeEdges(*(np.zeros((2, 0), dtype=np.int32) for _ in CodeEdges._fields))
    return CodeInput(np.array(ids, dtype=np.int32), blocks, edges, int(tokenizer.pad_token_id), num_cut)


def report_or_change(
    table: pd.DataFrame, tokenizer: "PreTrainedTokenizerBase | None" = None, max_tokens: int | None = None
) -> Texts:
    """Title and description of reports, message and paths of commits, path and diff of files, path and text of hunks.

    Args:
        table: N reports, or a table of ``ChangeCorpus``.
        tokenizer: Unused: the encoder truncates texts that are too long.
        max_tokens: Unused.
    """
    if "diff" not in table:
        return title_description(table)
    if "parents" in table:
        joined = table["title"] + "\n" + table["description"] + "\n" + table["paths"]
    else:
        joined = table["paths"] + "\n" + table["diff"]
    return Texts([str(text)[:MAX_CHARACTERS] for text in joined])
