"""Pretrained weights and their tokenizer: from the hub, a folder, or an installed package.

The files of a model are untrusted. They only select an architecture of transformers: their code is never run, and no
other model, adapter or compiled kernel that they name is fetched. Weights are safetensors, or a ``.bin`` file, which
transformers reads with ``weights_only=True``.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import printable
from typing import Any, NamedTuple, TypeVar

import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertModel,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from gedbd.encoders.text_encoder import position_offset
from gedbd.io.checksums import checksum
from gedbd.io.console import first_line
from gedbd.io.files import CONF_DIR

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
USUAL_MAX_TOKENS = 256  # for a model whose files give no length; encoding time grows with it
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json")
HUB_TIMEOUT_S = 5
KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
PROJECTED = ("Transformer", "Pooling", "Dense")  # the modules of an exported encoder, before Normalize
DENSE = "2_Dense"


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


Loaded = TypeVar("Loaded")


class SavedProjection(NamedTuple):
    """The projection of an exported encoder.

    Attributes:
        weight: ``(D, hidden)``.
        bias: ``(D,)``.
        options: Options of ``load_encoder`` that the vectors depend on: pooling, dim, max_tokens and prefix.
    """

    weight: Tensor
    bias: Tensor
    options: dict[str, Any]


def load_pretrained(
    name: str, model: str, max_tokens: int, package: str | None, sha256: str | None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, SavedProjection | None]:
    """Loads a backbone without its pooler, its tokenizer, and the projection of an exported encoder, else None.

    For the arguments see ``load_encoder``.

    Raises:
        ValueError: If the weights are missing or unexpected, or the model has fewer than ``max_tokens`` positions.
    """
    source = _packaged_weights(package, sha256) or model
    if _is_path(source) and not Path(source).is_dir():
        raise ValueError(f"encoder={name}: encoder.model={source}: there is no such folder")
    has_tokenizer = any(Path(source, file).is_file() for file in TOKENIZER_FILES) or any(Path(source).glob("*.model"))
    if Path(source).is_dir() and not has_tokenizer:
        # transformers would create a tokenizer with an empty vocabulary.
        raise ValueError(
            f"encoder={name}: {source} has no tokenizer: save it there with tokenizer.save_pretrained({str(source)!r})"
        )

    def read(local: bool) -> tuple[Any, PreTrainedTokenizerBase, SavedProjection | None]:
        return *read_backbone(source, local), read_projection(source, local)

    backbone, tokenizer, projection = local_first("encoder", name, source, read)
    largest = max(tokenizer.get_vocab().values(), default=0)
    num_embeddings = backbone.get_input_embeddings().num_embeddings
    if largest >= num_embeddings:
        raise ValueError(
            f"encoder={name}: {source}: its tokenizer has token ids up to {largest:,}, but its weights have"
            f" {num_embeddings:,} tokens: download it again"
        )
    hidden = backbone.config.hidden_size
    if projection is not None and projection.weight.shape[1] != hidden:
        raise ValueError(
            f"encoder={name}: {source}: its projection expects vectors of size {projection.weight.shape[1]}, but its"
            f" encoder has {hidden}: download it again"
        )
    limit = max_positions(backbone)
    if limit is not None and max_tokens > limit:
        raise ValueError(f"encoder.max_tokens={max_tokens} is more than the {limit} that {source} supports")
    return backbone, tokenizer, projection


def problem_of(error: Exception) -> str:
    """The first line of an error's message without its full stop, or the error's type."""
    return first_line(error).rstrip(".") or type(error).__name__


def local_first(section: str, name: str, source: str, read: Callable[[bool], Loaded]) -> Loaded:
    """Calls ``read(local_files_only)``, first locally, then with the hub.

    Args:
        section: The config group of the model, for messages.
        name: The choice in that group.
        source: A folder, or a name on the hub.
        read: Loads from it; raises OSError or ValueError if files are missing.

    Raises:
        ValueError: If it cannot be loaded.
    """
    try:
        try:
            return read(True)
        except (OSError, ValueError):
            if Path(source).is_dir():
                raise
        if not _is_path(source):
            check_hub(section, name, source)
        # Otherwise transformers asks a service on the hub to convert models that have no safetensors.
        os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")
        return read(False)
    except _NoHubError:
        raise
    except ImportError as error:
        raise ValueError(
            f"{section}={name}: {source} needs a package that is missing: {problem_of(error)}. Install it;"
            " torchvision must be built for the installed torch"
        ) from error
    except Exception as error:  # damaged files make transformers and tokenizers raise errors of any type
        subject = source if Path(source).is_dir() or _is_path(source) else f"{source}, which is not a folder here"
        raise ValueError(
            f"{section}={name}: cannot load {subject}: {problem_of(error)}. Without access to the hub, download it"
            f" elsewhere and set {section}.model=<folder>."
        ) from error


class _NoHubError(ValueError):
    """The hub is not available."""


def check_hub(section: str, name: str, model: str) -> None:
    """Raises ValueError if the hub cannot be reached, as its client would retry for more than a minute."""
    reason = hub_problem()
    if reason is None:
        return
    folder = model.rpartition("/")[2]
    hint = f"; without a download: encoder={' or '.join(encoders_at_hand())}" if section == "encoder" else ""
    raise _NoHubError(
        f"{section}={name}: {model} is not on this machine, neither a folder nor a download, and {reason}: run `hf"
        f" download {model} --local-dir {folder}` elsewhere, copy the folder, and set {section}.model=./{folder}{hint}"
    )


def hub_problem() -> str | None:
    """Why the hub is not available; None if it is."""
    import requests
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    try:
        requests.head(constants.ENDPOINT, timeout=HUB_TIMEOUT_S)
    except requests.RequestException:
        return f"{constants.ENDPOINT} cannot be reached"
    return None


def encoders_at_hand() -> list[str]:
    """The choices of ``conf/encoder`` whose weights are on this machine."""
    from huggingface_hub import try_to_load_from_cache
    from omegaconf import OmegaConf

    names = []
    for file in sorted(Path(CONF_DIR).glob("encoder/*.yaml")):
        options: Any = OmegaConf.load(file)
        if (options.get("package") and find_spec(options.package)) or (
            options.get("model") and isinstance(try_to_load_from_cache(options.model, "config.json"), str)
        ):
            names.append(file.stem)
    return [*names, "tiny"]  # has random weights


def read_backbone(source: str | Path, local: bool, **settings: Any) -> tuple[Any, PreTrainedTokenizerBase]:
    """Loads a backbone without its pooler, and its tokenizer; ``local`` does not use the hub."""
    # Without trust_remote_code, transformers asks on the terminal whether to run the code of a repository.
    config = AutoConfig.from_pretrained(source, trust_remote_code=False, local_files_only=local)
    config._attn_implementation = None  # it may name a compiled kernel on the hub
    backbone = AutoModel.from_pretrained(
        source, config=config, trust_remote_code=False, local_files_only=local, **settings
    )
    if hasattr(backbone, "pooler"):
        backbone.pooler = None
    return backbone, AutoTokenizer.from_pretrained(source, trust_remote_code=False, local_files_only=local)


def read_projection(model: str, local: bool) -> SavedProjection | None:
    """Loads the projection of an encoder that ``gedbd export`` has written; None for other models.

    Raises:
        OSError: If a file is missing.
        ValueError: If a file is damaged.
    """
    kinds = [kind for kind in _module_kinds(model, local) if kind != "Normalize"]
    config = _read_json(model, f"{DENSE}/config.json", local) if tuple(kinds) == PROJECTED else None
    if config is None or config.get("use_residual") or not str(config.get("activation_function")).endswith(".Identity"):
        return None
    file = _find_file(model, f"{DENSE}/model.safetensors", local)
    if file is None:
        raise OSError(f"{model}: {DENSE}/model.safetensors is missing")
    try:
        state = load_file(file)
        weight = state["linear.weight"].float()
        bias = state["linear.bias"].float() if "linear.bias" in state else torch.zeros(len(weight))
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"{file} is damaged: {problem_of(error)}") from error
    lengths = _read_json(model, "sentence_bert_config.json", local) or {}
    prompts = (_read_json(model, "config_sentence_transformers.json", local) or {}).get("prompts") or {}
    options = {
        "pooling": _pooling(model, _read_json(model, "1_Pooling/config.json", local) or {}),
        "dim": len(weight),
        "max_tokens": lengths.get("max_seq_length"),
        "prefix": prompts.get("document") or None,
    }
    return SavedProjection(weight, bias, options)


def _module_kinds(model: str, local: bool = False) -> list[str]:
    """Class names of the modules of a sentence-transformers model; empty for a model of transformers."""
    modules = _read_json(model, "modules.json", local) or []
    return [str(module.get("type", "")).rpartition(".")[2] for module in modules]


def _is_path(model: str) -> bool:
    """Whether a model is a path: names on the hub have at most one slash, and do not begin with one."""
    return model.startswith(("/", ".", "~")) or model.count("/") > 1


def max_positions(backbone: PreTrainedModel) -> int | None:
    """The maximum number of tokens of a backbone; None without a limit."""
    limit: int | None = getattr(backbone.config, "max_position_embeddings", None)
    # RoBERTa has 514 positions for 512 tokens.
    return None if limit is None else limit - position_offset(backbone)


def _packaged_weights(package: str | None, sha256: str | None) -> str | None:
    """The folder of the weights in an installed package, with verified hash; the package is not imported."""
    if package and not package.isidentifier():
        # find_spec("a.b") imports a, so a dotted name could run code.
        raise ValueError(f"encoder.package={package} is not the name of a package")
    spec = find_spec(package) if package else None
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise ValueError(f"package {package} has no weights at {weights}: reinstall or uninstall it")
    digest = checksum(weights)
    if digest != sha256:
        raise ValueError(
            f"the weights in package {package} have SHA-256 {digest} instead of {sha256}: reinstall or uninstall it"
        )
    return str(folder)


def model_options(model: str, max_tokens: int | None = None) -> dict[str, Any]:
    """The options of ``load_encoder`` for a model.

    Pooling and length come from the files of sentence-transformers, by default mean pooling and 256 tokens. Size and
    prefix come from the files of an exported encoder.

    Args:
        model: A folder with ``config.json``, or a name on the Hugging Face hub.
        max_tokens: Maximum number of tokens of a text; None for the model's own.

    Raises:
        ValueError: If there is no such model, or gedbd does not support its layers or pooling.
    """
    config = _read_json(model, "config.json")
    # DistilBERT names the size "dim".
    hidden = config.get("hidden_size", config.get("dim")) if isinstance(config, dict) else None
    if hidden is None:
        raise ValueError(f"{model}: its config.json is missing, or names no hidden_size: it is not a text encoder")
    projection = read_projection(model, local=False)
    known = KNOWN_MODULES if projection is None else (*KNOWN_MODULES, *PROJECTED)
    extra = [kind for kind in _module_kinds(model) if kind not in known]
    if extra:
        raise ValueError(
            f"{model} has a layer {extra[0]}, which gedbd does not support: load it with sentence-transformers, and"
            " pass the model object as the encoder"
        )
    lengths = _read_json(model, "sentence_bert_config.json") or {}
    return {
        "_target_": "gedbd.encoders.loaded_encoder.load_encoder",
        "name": Path(model).name,
        "model": model,
        "pooling": _pooling(model, _read_json(model, "1_Pooling/config.json") or {}),
        "dim": hidden,
        "prefix": None,
        **(projection.options if projection else {}),
        "max_tokens": max_tokens or lengths.get("max_seq_length") or USUAL_MAX_TOKENS,
    }


def _pooling(model: str, config: dict[str, Any]) -> str:
    """``mean`` or ``cls``, from the old or new format of sentence-transformers."""
    # The old format has a flag for each mode.
    modes_of_flags = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    flags = [name for name, value in config.items() if name.startswith("pooling_mode_") and value is True]
    modes = [modes_of_flags.get(name, name) for name in flags] or [config.get("pooling_mode", "mean")]
    if modes not in (["mean"], ["cls"]):
        raise ValueError(
            f"{model} uses the pooling {modes[0]}, but gedbd supports only mean and cls: load it with"
            " sentence-transformers, and pass the model object as the encoder"
        )
    return str(modes[0])


def _read_json(model: str, name: str, local: bool = False) -> Any:
    """The content of a JSON file of a model; None if the model does not have it."""
    file = _find_file(model, name, local)
    if file is None:
        return None
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is damaged: it is not JSON ({error})") from error


def _find_file(model: str, name: str, local: bool) -> Path | None:
    """A file of a model; None if it does not exist, or with ``local`` is not on this machine."""
    if Path(model).is_dir():
        file = Path(model) / name
        return file if file.is_file() else None
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(model, name, local_files_only=local))
    except LocalEntryNotFoundError as error:
        if local:
            return None
        raise ValueError(f"{model}: the hub cannot be reached; download the model and give its folder") from error
    except EntryNotFoundError:
        return None
    except (HfHubHTTPError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"{model} cannot be loaded from the hub: {reason}") from error
