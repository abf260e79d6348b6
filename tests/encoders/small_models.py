"""Tiny random models of the architectures of the encoders in conf/encoder, in folders such as the hub has."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    NomicBertConfig,
    NomicBertModel,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    RobertaTokenizer,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from gedbd.encoders.tiny_bert import tiny_tokenizer

HIDDEN = 16
POSITIONS = 64
SIZES = {"hidden_size": HIDDEN, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
WORDS = ["crash", "on", "start", "of", "the", "editor", "query", "clustering", ":"]


def byte_level() -> PreTrainedTokenizerBase:
    """Of bytes, as ModernBERT's and MPNet's first step; a space belongs to the word behind it."""
    words = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    return RobertaTokenizer(vocab={word: number for number, word in enumerate(words)}, merges=[])


def unigram() -> PreTrainedTokenizerBase:
    """A sentencepiece model, as multilingual E5 has: words begin with a mark for the space before them."""
    pieces = [(word, 0.0) for word in SPECIAL] + [(f"▁{word}", -1.0) for word in WORDS] + [(":", -1.0), ("▁", -2.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


MODELS = {
    "bert": lambda **given: BertModel(BertConfig(**given)),
    # A window of 4 tokens to each side in one of two layers: padding beyond it sees no text.
    "modernbert": lambda **given: ModernBertModel(
        ModernBertConfig(**given, global_attn_every_n_layers=2, local_attention=8)
    ),
    "mpnet": lambda **given: MPNetModel(MPNetConfig(**given | {"max_position_embeddings": POSITIONS + 2})),
    "nomic": lambda **given: NomicBertModel(NomicBertConfig(**given)),
    "xlm-roberta": lambda **given: XLMRobertaModel(
        XLMRobertaConfig(**given | {"max_position_embeddings": POSITIONS + 2})
    ),
}
TOKENIZERS = {"bert": tiny_tokenizer, "nomic": tiny_tokenizer, "xlm-roberta": unigram}


def small_model(
    architecture: str, tokenizer: PreTrainedTokenizerBase | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A model with the given tokenizer, or that of its architecture."""
    tokenizer = tokenizer or TOKENIZERS.get(architecture, byte_level)()
    special = {"pad_token_id": tokenizer.pad_token_id, "cls_token_id": tokenizer.cls_token_id}
    if architecture == "modernbert":
        special |= {"bos_token_id": 0, "eos_token_id": 2, "sep_token_id": tokenizer.sep_token_id}
    torch.manual_seed(0)
    model = MODELS[architecture](vocab_size=len(tokenizer), max_position_embeddings=POSITIONS, **SIZES, **special)
    return model, tokenizer


def save_small_model(folder: Path, architecture: str, tokenizer: PreTrainedTokenizerBase | None = None) -> Path:
    """Writes ``small_model`` into a folder."""
    for part in small_model(architecture, tokenizer):
        part.save_pretrained(folder)
    if architecture == "nomic":
        name_remote_code(folder / "config.json")
    return folder


def name_remote_code(path: Path) -> None:
    """Names code in a configuration, as that of Nomic Embed on the hub does; it must not be run."""
    config = json.loads(path.read_text()) | {"auto_map": {"AutoModel": "nomic-ai/nomic-bert-2048--modeling.Model"}}
    path.write_text(json.dumps(config))
