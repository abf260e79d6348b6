"""A Hugging Face encoder that reads code with an attention mask of its own, and its folder."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from gedbd.encoders.code.batches import CodeBatch
from gedbd.encoders.code.inputs import InputLimits, InputParts, check_length
from gedbd.encoders.code.mask import attention_mask
from gedbd.encoders.code.vocabulary import CODE_TOKENS
from gedbd.encoders.pretrained import first_line, max_positions

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
        backbone = AutoModel.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True, use_safetensors=True, attn_implementation="sdpa"
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # any type, see ``load_pretrained``
        raise ValueError(f"{folder}: cannot load the encoder: {first_line(error)}") from error
    if hasattr(backbone, "pooler"):
        backbone.pooler = None
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
