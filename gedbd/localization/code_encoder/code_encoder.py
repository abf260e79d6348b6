"""A Hugging Face encoder that reads code with an attention mask of its own, and its folder."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gedbd.encoders.pretrained import max_positions, problem_of, read_backbone
from gedbd.localization.code_encoder.code_inputs import (
    CODE_BLOCK,
    CodeBatch,
    CodeEdges,
    InputLimits,
    InputParts,
    check_length,
)
from gedbd.localization.code_encoder.code_tokens import CODE_TOKENS

SETTINGS_FILE = "code_inputs.json"


class CodeEncoder(nn.Module):
    """Token vectors of code with its flow graph.

    Args:
        backbone: A BERT, RoBERTa or DistilBERT, or another encoder that takes an attention mask ``(B, 1, L, L)``.
    """

    def __init__(self, backbone: PreTrainedModel) -> None:
        super().__init__()
        # PyTorch's attention takes a bool mask as it is; the "eager" one of transformers would add it as numbers.
        backbone.set_attn_implementation("sdpa")
        self.backbone = backbone

    def forward(self, batch: CodeBatch, mask: Tensor | None = None) -> Tensor:
        """The vectors of the last layer ``(B, L, H)``; ``mask`` is that of ``attention_mask`` by default."""
        mask = attention_mask(batch) if mask is None else mask
        hidden: Tensor = self.backbone(input_ids=batch.input_ids, attention_mask=mask).last_hidden_state
        return hidden


class SavedEncoder(NamedTuple):
    """What the folder of an encoder of code holds."""

    encoder: CodeEncoder
    tokenizer: PreTrainedTokenizerBase
    limits: InputLimits
    parts: InputParts


def save_encoder(
    folder: str | Path,
    backbone: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    limits: InputLimits,
    parts: InputParts,
) -> None:
    """Writes a folder that ``AutoModel`` and ``AutoTokenizer`` read, and ``code_inputs.json`` with limits and parts."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    backbone.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings = {"limits": asdict(limits), "parts": asdict(parts)}
    (folder / SETTINGS_FILE).write_text(json.dumps(settings, indent=2) + "\n")


def load_code_encoder(folder: str | Path) -> SavedEncoder:
    """Reads a folder of ``save_encoder``.

    Raises:
        ValueError: If it is none, is damaged, or its inputs are longer than its model reads.
    """
    folder = Path(folder)
    limits, parts = read_settings(folder)
    try:
        backbone, tokenizer = read_backbone(folder, local=True, use_safetensors=True)
    except Exception as error:  # any type, see ``local_first``
        raise ValueError(f"{folder}: cannot load the encoder: {problem_of(error)}") from error
    missing = set(CODE_TOKENS) - set(tokenizer.get_vocab())
    if missing:
        raise ValueError(f"{folder}: its tokenizer lacks {len(missing)} tokens of code, such as {min(missing)}")
    check_length(limits, parts, max_positions(backbone))
    return SavedEncoder(CodeEncoder(backbone), tokenizer, limits, parts)


def read_settings(folder: Path) -> tuple[InputLimits, InputParts]:
    """The limits and parts that an encoder's folder names.

    Raises:
        ValueError: If they are missing or damaged.
    """
    file = folder / SETTINGS_FILE
    if not file.is_file():
        raise ValueError(f"{folder}: no {SETTINGS_FILE}; give the encoder/ folder of a run of task=pretraining")
    try:
        settings = json.loads(file.read_text())
        return InputLimits(**settings["limits"]), InputParts(**settings["parts"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} is damaged: {error}; take the folder from its run again") from error


def attention_mask(batch: CodeBatch, without: CodeEdges[Tensor] | None = None) -> Tensor:
    """The attention mask of SemanticCodeBERT.

    Source: the talk "Pre-training Code Representation with Semantic Flow Graph for Effective Bug Localization" (2023).
    Token i may attend to token j if

    - i is ``[CLS]`` or a ``[SEP]``,
    - i and j are both in the comment or the code,
    - i is a token of the code and j its node, or the reverse (E1),
    - i and j are nodes and an edge leads from i to j (E2),
    - i is a node and j its type (E3), or i is a node and j its role (E4).

    Ours: the ``[C]`` between comment and code, which no case of the formula names, counts as a token of them. Every
    token may attend to itself, since the softmax of a row without a single entry has no value; this concerns types,
    roles and the markers ``[N]``, ``[T]`` and ``[R]``. Padding attends to itself alone, and no token to padding.

    Args:
        batch: B inputs of up to L tokens.
        without: Edges that are hidden, of E1 in both directions; others that are not in the batch change nothing.

    Returns:
        ``(B, 1, L, L)`` bool, True at (i, j) where i may attend to j.
    """
    # [CLS] w w [C] s s [SEP]: position 0 is [CLS]; the code begins at 4 and is 2 long, so that it ends before 6.
    code_end = batch.blocks[:, CODE_BLOCK].sum(1, keepdim=True)
    place = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)
    text = (place >= 1) & (place < code_end)
    # [CLS], the [SEP] behind the code, and the last one.
    sees_all = (place == 0) | (place == code_end) | (place == batch.lengths[:, None] - 1)
    mask = sees_all[:, :, None] | (text[:, :, None] & text[:, None, :])
    mask &= batch.is_token[:, None, :]
    _set_edges(mask, batch.edges, True)
    if without is not None:
        _set_edges(mask, without, False)
    mask.diagonal(dim1=1, dim2=2).fill_(True)
    return mask[:, None]


def _set_edges(mask: Tensor, edges: CodeEdges[Tensor], value: bool) -> None:
    """Sets the cells of edges in a mask ``(B, L, L)``."""
    back = edges.code_node[[0, 2, 1]]
    row, start, end = torch.cat([*edges, back], dim=1)
    mask[row, start, end] = value
