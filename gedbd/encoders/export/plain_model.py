"""Parts of all formats: an encoder and a tokenizer without any code of gedbd."""

from copy import deepcopy
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from gedbd.encoders.packing import can_pack
from gedbd.encoders.text_encoder import TextEncoder


def plain_copy(encoder: TextEncoder) -> TextEncoder:
    """A copy that takes padded batches, without gedbd's packed attention."""
    plain = deepcopy(encoder).cpu().eval()
    if can_pack(plain.backbone):
        plain.backbone.set_attn_implementation("sdpa")
    return plain


def save_tokenizer(folder: Path, tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> None:
    """Writes a tokenizer that truncates to ``max_tokens`` and pads by default."""
    copy = deepcopy(tokenizer)
    copy.model_max_length = max_tokens
    # tokenizer.json stores the truncation and padding of the last call.
    copy([""], padding=True, truncation=True)
    copy.save_pretrained(folder)
