"""Tiny random models of the architectures of the encoders in conf/encoder, in folders such as the hub has."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from gedbd.encoders.pretrained import tiny_tokenizer

HIDDEN = 16
POSITIONS = 64
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
WORDS = ["crash", "on", "start", "of", "the", "editor", "query", "clustering", ":"]


def byte_level() -> transformers.PreTrainedTokenizerBase:
    """Of bytes, as RoBERTa's, ModernBERT's and MPNet's first step; a space belongs to the word behind it."""
    words = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    return transformers.RobertaTokenizer(vocab={word: number for number, word in enumerate(words)}, merges=[])


def unigram() -> transformers.PreTrainedTokenizerBase:
    """A sentencepiece model, as multilingual E5 has: words begin with a mark for the space before them."""
    pieces = [(word, 0.0) for word in SPECIAL] + [(f"▁{word}", -1.0) for word in WORDS] + [(":", -1.0), ("▁", -2.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


# Further sizes. Those with positions of their own for padding have two more of them.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "albert": {"embedding_size": 8},
    "bert": {},
    "distilbert": {"hidden_dim": HIDDEN},
    "electra": {"embedding_size": 8},
    # A window of 4 tokens to each side in one of two layers: padding beyond it sees no text.
    "modernbert": {"global_attn_every_n_layers": 2, "local_attention": 8},
    "mpnet": {},
    "nomic": {},
    "roberta": {},
    "xlm-roberta": {},
}
OFFSET = ("mpnet", "roberta", "xlm-roberta")
BYTES = ("modernbert", "mpnet", "roberta")


def random_model(
    architecture: str, num_tokens: int, positions: int = POSITIONS, dropout: float = 0.1, layers: int = 2, **more: Any
) -> transformers.PreTrainedModel:
    """A model, always the same, for texts of up to ``positions`` tokens."""
    names = ("dropout", "attention_dropout")
    if architecture != "distilbert":
        names = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    sizes = {"intermediate_size": 2 * HIDDEN} | dict.fromkeys(names, dropout) | ARCHITECTURES[architecture] | more
    config = transformers.AutoConfig.for_model(
        "nomic_bert" if architecture == "nomic" else architecture,
        vocab_size=num_tokens,
        max_position_embeddings=positions + 2 * (architecture in OFFSET),
        hidden_size=HIDDEN,
        num_hidden_layers=layers,
        num_attention_heads=2,
        **sizes,
    )
    torch.manual_seed(0)
    return transformers.AutoModel.from_config(config)


def small_model(
    architecture: str, tokenizer: transformers.PreTrainedTokenizerBase | None = None, **sizes: Any
) -> tuple[transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase]:
    """A model with the given tokenizer, or that of its architecture."""
    if tokenizer is None and architecture == "xlm-roberta":
        tokenizer = unigram()
    tokenizer = tokenizer or (byte_level() if architecture in BYTES else tiny_tokenizer())
    special = {"pad_token_id": tokenizer.pad_token_id, "cls_token_id": tokenizer.cls_token_id}
    if architecture == "modernbert":
        special |= {"bos_token_id": 0, "eos_token_id": 2, "sep_token_id": tokenizer.sep_token_id}
    return random_model(architecture, len(tokenizer), **sizes, **special), tokenizer


def save_small_model(
    folder: Path, architecture: str, tokenizer: transformers.PreTrainedTokenizerBase | None = None, **sizes: Any
) -> Path:
    """Writes ``small_model`` into a folder."""
    for part in small_model(architecture, tokenizer, **sizes):
        part.save_pretrained(folder)
    if architecture == "nomic":
        name_remote_code(folder / "config.json")
    return folder


def name_remote_code(path: Path) -> None:
    """Names code in a configuration, as that of Nomic Embed on the hub does; it must not be run."""
    config = json.loads(path.read_text()) | {"auto_map": {"AutoModel": "nomic-ai/nomic-bert-2048--modeling.Model"}}
    path.write_text(json.dumps(config))
