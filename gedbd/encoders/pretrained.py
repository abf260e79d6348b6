"""Pretrained weights and their tokenizer: from the hub, a folder, or an installed package.

Weights are safetensors, or a ``.bin`` file, which is read with ``weights_only=True``; see
``gedbd.encoders.model_files`` for what a model's files may do.
"""

import re
from collections import Counter
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import printable
from typing import Any, NamedTuple

import pandas as pd
import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from transformers import BertConfig, BertModel, PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from gedbd.encoders.backbone import max_positions, read_adapter, read_backbone, read_tensors, read_tokenizer
from gedbd.encoders.model_files import RefusedModelError, find_file, local_first, problem_of
from gedbd.encoders.model_options import ELSEWHERE, find_modules, find_weights, stated_options, transformer_settings

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json")
NO_LENGTH = 10**9  # transformers writes a larger number where a tokenizer has no maximum length


@cache
def tiny_vocabulary() -> tuple[str, ...]:
    """Special tokens, characters, and the words that occur twice or more in the demo corpus, most frequent first."""
    demo = pd.read_csv(
        str(files("gedbd.corpora") / "demo.csv"), usecols=["Title", "Description"], keep_default_na=False
    )
    text = " ".join(demo["Title"]) + " " + " ".join(demo["Description"])
    counts = Counter(re.findall(r"[a-z]{2,}", text.lower()))
    frequent = [word for word, count in counts.items() if count > 1]
    # Ties are broken alphabetically, so that the vocabulary is the same on every machine.
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


class Pretrained(NamedTuple):
    """A pretrained model; ``projection`` holds weight ``(D, hidden)`` and bias ``(D,)`` of a module Dense."""

    backbone: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    max_tokens: int
    projection: tuple[Tensor, Tensor] | None


def load_pretrained(name: str, source: str, max_tokens: int | None) -> Pretrained:
    """Loads a model from a folder or the hub; its ``max_tokens`` are those given, or the model's own.

    For the arguments see ``load_encoder``.

    Raises:
        ValueError: If the weights are missing or unexpected, or the model has fewer than ``max_tokens`` positions.
    """
    loaded = local_first("encoder", name, source, lambda local: _read(source, local))
    backbone, tokenizer, own_length, projection = loaded
    largest = max(tokenizer.get_vocab().values(), default=0)
    num_embeddings: Any = backbone.get_input_embeddings().num_embeddings
    if largest >= num_embeddings:
        raise ValueError(
            f"encoder={name}: {source}: its tokenizer has token ids up to {largest:,}, but its weights have"
            f" {num_embeddings:,} tokens: download it again"
        )
    hidden = backbone.config.hidden_size
    if projection is not None and (size := projection[0].shape[1]) != hidden:
        raise ValueError(
            f"encoder={name}: {source}: its projection expects vectors of size {size}, but its encoder has {hidden}:"
            " download it again"
        )
    limit = max_positions(backbone) or NO_LENGTH
    if max_tokens is None:
        max_tokens = min(own_length, limit)
    if max_tokens > limit:
        raise ValueError(f"encoder.max_tokens={max_tokens} is more than the {limit} that {source} supports")
    if max_tokens >= NO_LENGTH:
        raise ValueError(f"encoder={name}: the files of {source} name no maximum length: set encoder.max_tokens=")
    return loaded._replace(max_tokens=max_tokens)


def _read(source: str, local: bool) -> Pretrained:
    """Reads a model from its folder, the installed package or a download, or unless ``local`` from the hub."""
    weights = find_weights(source, local)
    modules = find_modules(source, local)
    places = [(source, modules.transformer), (weights.source, weights.folder)]  # that of an adapter, and of its base
    tokenizer_place = next((place for place in places if _has_tokenizer(*place, local)), places[-1])
    if Path(tokenizer_place[0]).is_dir() and not _has_tokenizer(*tokenizer_place, local):
        # transformers would create a tokenizer with an empty vocabulary.
        folder = str(Path(*places[0]))
        raise RefusedModelError(f"{folder} has no tokenizer: save it there with tokenizer.save_pretrained({folder!r})")
    tokenizer = read_tokenizer(tokenizer_place[0], local, tokenizer_place[1])
    lowers = transformer_settings(source, modules, local).get("do_lower_case")
    if lowers and tokenizer.tokenize("A") != tokenizer.tokenize("a"):
        raise RefusedModelError(f"{source} sets do_lower_case, which its tokenizer does not do: {ELSEWHERE}")
    backbone = read_backbone(weights.source, local or weights.adapter is not None, weights.folder)
    if weights.adapter is not None:
        read_adapter(backbone, source, weights.adapter, modules.transformer, local)
    max_tokens = stated_options(source, local).get("max_tokens", tokenizer.model_max_length)
    projection = None if modules.dense is None else _read_projection(source, modules.dense, local)
    return Pretrained(backbone, tokenizer, max_tokens, projection)


def _has_tokenizer(source: str, folder: str, local: bool) -> bool:
    has_file = any(find_file(source, folder + name, local) for name in TOKENIZER_FILES)
    return has_file or any(Path(source, folder).glob("*.model"))


def _read_projection(model: str, folder: str, local: bool) -> tuple[Tensor, Tensor]:
    """Weight and bias of the module Dense."""
    try:
        state = read_tensors(model, f"{folder}model", local)
        weight = state["linear.weight"].float()
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"{model}/{folder}model.safetensors is damaged: {problem_of(error)}") from error
    return weight, state.get("linear.bias", torch.zeros(len(weight))).float()
