"""The backbone of a model: every weight comes from its files, and none keeps a random start.

transformers gives weights that it does not find random values, and only warns. Here each name of a weight must fit.
"""

import logging
import re
from collections import Counter
from collections.abc import Collection
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from gedbd.encoders.model_files import RefusedModelError, find_file
from gedbd.encoders.text_encoder import position_offset

MERGE = "merge it with peft's merge_and_unload(), and save that model in a folder"
# Settings of an adapter, and the only values for which the sum B A, scaled, is all that it changes.
PLAIN_LORA: dict[str, Any] = {
    "peft_type": "LORA",
    "use_dora": False,
    "use_qalora": False,
    "alpha_pattern": {},
    "layer_replication": None,
    "alora_invocation_tokens": None,
}
log = logging.getLogger("gedbd")


def read_backbone(source: str, local: bool, folder: str = "", **settings: Any) -> Any:
    """Loads a backbone without its pooler.

    Args:
        source: A folder, or a name on the hub.
        local: Do not use the hub.
        folder: The folder in ``source`` with its ``config.json``.
        settings: Passed on to transformers.

    Raises:
        RefusedModelError: If the weights do not fit ``config.json``; names one of them.
    """
    # Without trust_remote_code, transformers asks on the terminal whether to run the code of a repository.
    where: dict[str, Any] = {"local_files_only": local, "subfolder": folder.rstrip("/")}
    config = AutoConfig.from_pretrained(source, trust_remote_code=False, **where)
    config._attn_implementation = None  # it may name a compiled kernel on the hub
    if config.is_encoder_decoder:
        raise RefusedModelError(f"{source} is an encoder with a decoder, {config.model_type}, not a text encoder")

    def load(**mapping: Any) -> Any:
        return AutoModel.from_pretrained(
            source, config=config, output_loading_info=True, trust_remote_code=False, **where, **settings, **mapping
        )

    backbone, names = load()
    prefix = common_prefix(source, _missing(names), names["unexpected_keys"])
    if prefix:
        log.warning("%s: the names of its weights begin with %s, which is left out", source, prefix)
        backbone, names = load(key_mapping={f"^{re.escape(prefix)}": ""})
    _check_names(source, backbone, _missing(names), names["unexpected_keys"])
    if not hasattr(backbone.get_input_embeddings(), "num_embeddings"):
        raise RefusedModelError(f"{source} is not a text encoder: its {config.model_type} does not read tokens")
    if hasattr(backbone, "pooler"):
        backbone.pooler = None
    return backbone


def read_tokenizer(source: str, local: bool, folder: str = "") -> PreTrainedTokenizerBase:
    """Loads a tokenizer; for the arguments see ``read_backbone``."""
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        source, trust_remote_code=False, local_files_only=local, subfolder=folder.rstrip("/")
    )
    return tokenizer


def max_positions(backbone: PreTrainedModel) -> int | None:
    """The maximum number of tokens of a backbone; None without a limit."""
    limit: int | None = getattr(backbone.config, "max_position_embeddings", None)
    # RoBERTa has 514 positions for 512 tokens.
    return None if limit is None else limit - position_offset(backbone)


def _missing(names: dict[str, Any]) -> list[str]:
    """The weights that the files lack, in order, without the pooler, which is not used."""
    return sorted(name for name in names["missing_keys"] if not name.startswith("pooler."))


def common_prefix(source: str, missing: Collection[str], unexpected: Collection[str]) -> str:
    """What stands before the names of the missing weights in the files; empty if they are not there.

    ``embeddings.weight`` missing and ``module.embeddings.weight`` unexpected gives ``module.``.

    Raises:
        RefusedModelError: If two prefixes fit equally well, as in a file with two encoders.
    """
    names = {name: set(unexpected) for name in missing}
    counts = Counter(
        found.removesuffix(name) for name, others in names.items() for found in others if found.endswith(f".{name}")
    )
    best = counts.most_common(2)
    if len(best) == 2 and best[0][1] == best[1][1]:
        raise RefusedModelError(
            f"{source} holds the weights of two encoders, {best[0][0]} and {best[1][0]}: save one of them in a folder"
        )
    return best[0][0] if best else ""


def _check_names(source: str, backbone: PreTrainedModel, missing: list[str], unexpected: Collection[str]) -> None:
    """Raises RefusedModelError if a weight is missing, or belongs to a layer that the backbone does not have."""
    cure = "save weights and config.json together, with save_pretrained of transformers, or download both again"
    if missing:
        others = f", like {len(missing) - 1} others" if len(missing) > 1 else ""
        raise RefusedModelError(
            f"{source}: its weights do not fit its config.json, a {backbone.config.model_type}: {missing[0]} is"
            f" missing{others}: {cure}"
        )
    children = {name for name, _ in backbone.named_children()} - {"pooler"}
    names = sorted(name.removeprefix(f"{backbone.base_model_prefix}.") for name in unexpected)
    for name in names:
        if "lora_" in name:
            raise RefusedModelError(f"{source} holds an adapter that is not merged, {name}: {MERGE}")
        if name.partition(".")[0] in children and name.endswith((".weight", ".bias")):
            raise RefusedModelError(
                f"{source}: its weights do not fit its config.json, a {backbone.config.model_type}: it has no place for"
                f" {name}: {cure}"
            )


def read_adapter(backbone: PreTrainedModel, model: str, settings: dict[str, Any], folder: str, local: bool) -> None:
    """Adds the adapter of a model to the weights of its base, see ``merge_adapter``.

    Args:
        backbone: The base of the adapter; changed in place.
        model: The folder of the adapter, or its name on the hub.
        settings: The content of ``adapter_config.json``.
        folder: The folder in ``model`` with the adapter.
        local: Do not use the hub.

    Raises:
        RefusedModelError: If a weight of the adapter is not of this kind, or does not fit the base.
    """
    for name, value in PLAIN_LORA.items():
        if (settings.get(name) or value) != value:
            raise RefusedModelError(f"{model} is a PEFT adapter with {name}={settings[name]}: {MERGE}")
    tensors = read_tensors(model, f"{folder}adapter_model", local)
    merge_adapter(backbone, tensors, model, settings)
    log.warning("%s: the adapter is added to its base, %s", model, settings.get("base_model_name_or_path"))


def merge_adapter(backbone: PreTrainedModel, tensors: dict[str, Tensor], model: str, settings: dict[str, Any]) -> None:
    """Adds a LoRA adapter to the weights: W + B A s.

    Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (2022). The scale s is alpha / r, or
    alpha / sqrt(r) with ``use_rslora`` (Kalajdzievski, 2023), for A ``(r, in)`` and B ``(out, r)``.

    Args:
        backbone: The base, changed in place.
        tensors: The weights of the adapter, with PEFT's names.
        model: Their source, for messages.
        settings: The content of ``adapter_config.json``.

    Raises:
        RefusedModelError: If a weight of the adapter does not fit the base.
    """
    state = {name: value for name, value in tensors.items() if ".pooler." not in name}
    modules = dict(backbone.named_modules())
    prefix = f"{backbone.base_model_prefix}."
    for name in [name for name in state if name.endswith(".lora_A.weight")]:
        path = name.removesuffix(".lora_A.weight")
        module = modules.get(path.removeprefix("base_model.model.").removeprefix(prefix))
        down = state.pop(name).float()
        up = state.pop(f"{path}.lora_B.weight", torch.empty(0)).float()
        weight = getattr(module, "weight", torch.empty(0))
        transposed = bool(settings.get("fan_in_fan_out"))
        shape = (down.shape[1], len(up)) if transposed else (len(up), down.shape[1])
        if tuple(weight.shape) != shape:
            raise RefusedModelError(f"{model}: {name} does not fit the adapter's base: give the right base, or {MERGE}")
        rank = len(down) ** 0.5 if settings.get("use_rslora") else len(down)
        added = (up @ down) * (settings["lora_alpha"] / rank)
        weight.data += (added.T if transposed else added).to(weight.dtype)
    if state:
        raise RefusedModelError(
            f"{model} is a PEFT adapter with {next(iter(state))}, which gedbd does not add: {MERGE}"
        )


def read_tensors(model: str, file: str, local: bool) -> dict[str, Tensor]:
    """The tensors in ``file``.safetensors of a model, or in a ``.bin`` file as earlier libraries wrote it.

    Raises:
        RefusedModelError: If there is neither.
    """
    path = find_file(model, f"{file}.safetensors", local)
    if path is not None:
        return load_file(path)
    path = find_file(model, f"{file}.bin".replace("/model.", "/pytorch_model."), local)
    if path is None:
        raise RefusedModelError(f"{model}: {file}.safetensors is missing: save the model again")
    tensors: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return tensors
