"""BERTs with random weights and their tokenizers; a tiny one, built in memory, serves tests and smoke runs."""

import re
from collections import Counter
from functools import cache
from importlib.resources import files
from string import printable
from typing import Any

import pandas as pd
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@cache
def tiny_vocabulary() -> tuple[str, ...]:
    """Special tokens, characters, and the words that occur twice or more in the demo corpus, most frequent first."""
    demo = pd.read_csv(
        str(files("gedbd.corpora") / "demo.csv"), usecols=["Title", "Description"], keep_default_na=False
    )
    text = " ".join(demo["Title"]) + " " + " ".join(demo["Description"])
    counts = Counter(re.findall(r"[a-z]{2,}", text.lower()))
    frequent = [word for word, count in counts.items() if count > 1]
    # Ties are broken by the alphabet, so that the vocabulary is the same on every machine.
    words = sorted(frequent, key=lambda word: (-counts[word], word))
    characters = [c for c in printable.lower() if not c.isspace()]
    return tuple(dict.fromkeys([*SPECIAL, *characters, *(f"##{c}" for c in characters), *words]))


def tiny_tokenizer() -> PreTrainedTokenizerBase:
    """A lower-casing word-piece tokenizer over ``tiny_vocabulary``."""
    vocabulary = {token: number for number, token in enumerate(tiny_vocabulary())}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = between_ends(tokenizer)
    return fast_tokenizer(tokenizer, name_or_path="tiny")


def between_ends(tokenizer: Tokenizer) -> processors.TemplateProcessing:
    """Puts a text between ``[CLS]`` and ``[SEP]``."""
    ends = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    return processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)


def fast_tokenizer(tokenizer: Tokenizer, **settings: str) -> PreTrainedTokenizerBase:
    """A tokenizer with the tokens of ``SPECIAL``, as transformers takes it."""
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **settings, **names)  # type: ignore[no-untyped-call]


def tiny_backbone(hidden: int, layers: int, dropout: float, seed: int, vocabulary: int) -> BertModel:
    """A BERT of ``layers`` layers and ``hidden`` units, see ``random_bert``."""
    return random_bert(
        seed,
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=2 * hidden,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )


def random_bert(seed: int, **sizes: Any) -> BertModel:
    """A BERT of the given sizes; the seed fixes its weights and leaves other random numbers as they are."""
    config = BertConfig(**sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BertModel(config, add_pooling_layer=False)
