"""What all formats share: an encoder and a tokenizer that need nothing of gedbd."""

from copy import deepcopy
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from gedbd.encoders.encoder import TextEncoder
from gedbd.encoders.packing import can_pack


def plain_copy(encoder: TextEncoder) -> TextEncoder:
    """A copy that reads padded batches: the packed attention is known to gedbd alone."""
    plain = deepcopy(encoder).cpu().eval()
    if can_pack(plain.backbone):
        plain.backbone.set_attn_implementation("sdpa")
    return plain


def save_tokenizer(folder: Path, tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> None:
    """Writes a tokenizer that cuts to ``max_tokens`` and pads, whoever loads it."""
    mine = deepcopy(tokenizer)
    mine.model_max_length = max_tokens
    mine([""], padding=True, truncation=True)  # tokenizer.json keeps how it cut and padded last
    mine.save_pretrained(folder)
