"""What the files of a model state: its modules, the place of its weights, and the options that its vectors depend on.

The files are those of sentence-transformers: ``modules.json`` lists the modules with their folders. A model of
transformers has no such file.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

from gedbd.encoders.model_files import RefusedModelError, local_first, local_source, read_json

SUPPORTED = ("Transformer", "Pooling", "Dense", "Normalize")
ELSEWHERE = "use it with sentence-transformers; in Python, gedbd takes a SentenceTransformer as the encoder"
ADAPTER = "adapter_config.json"
# The settings of a module Transformer whose vectors are those of its last layer; gedbd supports no others.
SETTINGS = {
    "transformer_task": "feature-extraction",
    "module_output_name": "token_embeddings",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "model_args": {"add_pooling_layer": False},
}
# Earlier versions of sentence-transformers named the file of these settings after the architecture.
ARCHITECTURES = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")


class Modules(NamedTuple):
    """The folders of a model's modules in its own; ``pooling`` is None for a model of transformers."""

    transformer: str = ""
    pooling: str | None = None
    dense: str | None = None


class Weights(NamedTuple):
    """The place of a model's weights: ``folder`` in ``source``; ``adapter`` are the settings of a PEFT adapter."""

    source: str
    folder: str
    adapter: dict[str, Any] | None = None


def model_options(name: str, model: str) -> dict[str, Any]:
    """The options of ``load_encoder`` that the files of a model state.

    Args:
        name: Its name in messages.
        model: A folder with ``config.json``, or a name on the Hugging Face hub.

    Returns:
        ``dim``, ``max_tokens`` (None if it follows from tokenizer and positions), and of a model of
        sentence-transformers ``pooling``, ``prefix`` if it has a default prompt, and ``truncate_dim``.

    Raises:
        ValueError: If there is no such model, or gedbd does not support its modules or pooling.
    """

    def read(local: bool) -> dict[str, Any]:
        weights = find_weights(model, local)
        config = read_json(weights.source, f"{weights.folder}config.json", local)
        if config is None and local and not Path(model).is_dir():
            raise OSError(f"{model} is not downloaded")
        # DistilBERT names the size "dim".
        hidden = config.get("hidden_size", config.get("dim")) if isinstance(config, dict) else None
        if not isinstance(hidden, int):
            raise RefusedModelError(
                f"{model}: its config.json is missing, or names no hidden_size: it is not a text encoder"
            )
        return {"dim": hidden, "max_tokens": None, **stated_options(model, local)}

    return local_first("encoder", name, model, read)


def encoder_option(name: str, value: object, section: str = "encoder") -> str:
    """An option of an encoder for the command line."""
    text = "null" if value is None else str(value)
    # A blank or a colon needs Hydra's quotes inside those of the shell.
    return f"{section}.{name}={text}" if re.fullmatch(r"\w+", text) else f"\"{section}.{name}='{text}'\""


def find_modules(model: str, local: bool) -> Modules:
    """Finds the modules of a model. Raises RefusedModelError if gedbd does not support them."""
    listed = read_json(model, "modules.json", local)
    if listed is None:
        return Modules()
    modules = [(str(module.get("type", "")).rpartition(".")[2], str(module.get("path") or "")) for module in listed]
    kinds = [kind for kind, _ in modules if kind != "Dropout"]  # it does nothing when encoding
    # A module may be left out, but not repeated, and those that are there come in the order of SUPPORTED.
    if kinds[:2] != ["Transformer", "Pooling"] or kinds != [kind for kind in SUPPORTED if kind in kinds]:
        raise RefusedModelError(
            f"{model} has the modules {', '.join(kinds) or 'none'}; gedbd supports {', '.join(SUPPORTED)}, in this"
            f" order: {ELSEWHERE}"
        )
    folders = {kind: f"{path}/" if path else "" for kind, path in modules}
    return Modules(folders["Transformer"], folders["Pooling"], folders.get("Dense"))


def find_weights(model: str, local: bool) -> Weights:
    """Finds a model's weights, which for a PEFT adapter are those of its base.

    Raises:
        RefusedModelError: If the base of an adapter is not on this machine, or the adapter's folder holds a model, too.
    """
    folder = find_modules(model, local).transformer
    adapter = read_json(model, f"{folder}{ADAPTER}", local)
    if adapter is None:
        return Weights(model, folder)
    if read_json(model, f"{folder}config.json", local) is not None:
        raise RefusedModelError(
            f"{model} holds a model and a PEFT adapter, and which one to use cannot be told: move {ADAPTER} or"
            " config.json elsewhere"
        )
    base = str(adapter.get("base_model_name_or_path"))
    source = local_source(base)
    if source is None:
        raise RefusedModelError(
            f"{model} is a PEFT adapter, and its base {base} is not on this machine: download it (hf download {base}),"
            f" or write its folder into {ADAPTER} as base_model_name_or_path"
        )
    folder = find_modules(source, local=True).transformer
    if read_json(source, f"{folder}{ADAPTER}", local=True) is not None:
        raise RefusedModelError(
            f"{model} is a PEFT adapter of {base}, an adapter too: merge that first, with peft's merge_and_unload()"
        )
    return Weights(source, folder, adapter)


def stated_options(model: str, local: bool) -> dict[str, Any]:
    """The options that the files of sentence-transformers state, see ``model_options``; none for a transformers model.

    Raises:
        RefusedModelError: If gedbd does not support them.
    """
    modules = find_modules(model, local)
    if modules.pooling is None:
        return {}
    pooling = read_json(model, f"{modules.pooling}config.json", local) or {}
    about = read_json(model, "config_sentence_transformers.json", local) or {}
    prompts = {None: "", **(about.get("prompts") or {})}
    prompt_name = about.get("default_prompt_name")
    size = about.get("truncate_dim")
    problem = None
    if about.get("model_type", "SentenceTransformer") != "SentenceTransformer":
        problem = f"is a {about['model_type']}"
    elif prompt_name not in prompts:
        problem = f"has no prompt of the name {prompt_name}, its default"
    elif prompts[prompt_name] and pooling.get("include_prompt") is False:
        problem = "leaves its prompt out of the pooling"
    elif size is not None and modules.dense is not None:
        problem = "truncates projected vectors"
    if problem is not None:
        raise RefusedModelError(f"{model} {problem}, which gedbd does not support: {ELSEWHERE}")
    options: dict[str, Any] = {"pooling": _pooling(model, pooling)}
    if prompts[prompt_name]:
        options["prefix"] = prompts[prompt_name]
    length = transformer_settings(model, modules, local).get("max_seq_length")
    if length is not None:
        options["max_tokens"] = length
    if size is not None:
        options |= {"dim": size, "truncate_dim": size, "matryoshka_dims": [size]}
    if modules.dense is not None:
        options["dim"] = _projected_size(model, modules.dense, local)
    return options


def transformer_settings(model: str, modules: Modules, local: bool) -> dict[str, Any]:
    """The settings of the module Transformer. Raises RefusedModelError if gedbd does not support one of them."""
    names = (f"{modules.transformer}sentence_{name}_config.json" for name in ARCHITECTURES)
    found = (read_json(model, name, local) for name in names)
    settings: dict[str, Any] = {} if modules.pooling is None else next(filter(None, found), {})
    for key, value in settings.items():
        if value and key not in ("max_seq_length", "do_lower_case") and value != SETTINGS.get(key):
            raise RefusedModelError(f"{model} sets {key}={value}, which gedbd does not support: {ELSEWHERE}")
    return settings


def _projected_size(model: str, folder: str, local: bool) -> int:
    """The size of a module Dense. Raises RefusedModelError if it is more than a linear map of the pooled vector."""
    settings = read_json(model, f"{folder}config.json", local) or {}
    names = {settings.get("module_input_name"), settings.get("module_output_name")}
    is_linear = str(settings.get("activation_function")).endswith(".Identity") and not settings.get("use_residual")
    if not is_linear or not names <= {None, "sentence_embedding"}:
        raise RefusedModelError(f"{model} has a module Dense that is not a linear map alone: {ELSEWHERE}")
    return int(settings["out_features"])


def _pooling(model: str, config: dict[str, Any]) -> str:
    """``mean`` or ``cls``, from the old or new format of sentence-transformers."""
    # The old format has a flag for each mode.
    modes_of_flags = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    flags = [name for name, value in config.items() if name.startswith("pooling_mode_") and value is True]
    named = config.get("pooling_mode") or [modes_of_flags.get(name, name) for name in flags] or "mean"
    modes = [named] if isinstance(named, str) else named
    if modes not in (["mean"], ["cls"]):
        raise RefusedModelError(
            f"{model} uses the pooling {' and '.join(modes)}, but gedbd supports only mean and cls: {ELSEWHERE}"
        )
    return str(modes[0])
