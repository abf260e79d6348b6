"""Parts of all formats: an encoder, a tokenizer and a prefix without any code of gedbd."""

import json
from copy import deepcopy
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from gedbd.encoders.packing import can_pack
from gedbd.encoders.text_encoder import TextEncoder

PROMPTS = "config_sentence_transformers.json"


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


def save_prompts(folder: Path, prefix: str) -> None:
    """Writes the prefix where sentence-transformers looks for it, as the prompt of queries and documents."""
    config: dict[str, object] = {"similarity_fn_name": "cosine"}
    if prefix:
        config |= {"prompts": {"query": prefix, "document": prefix}, "default_prompt_name": "document"}
    (folder / PROMPTS).write_text(json.dumps(config, indent=2) + "\n")


def read_prefix(folder: Path) -> str:
    """The prefix that ``save_prompts`` has written; empty if there is none."""
    config = json.loads((folder / PROMPTS).read_text())
    return str(config.get("prompts", {}).get("document", ""))
