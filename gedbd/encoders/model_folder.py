"""Reads from a model's own files how its texts are to be pooled and cut, for models without a file in ``conf/``."""

import json
from pathlib import Path
from typing import Any

USUAL_MAX_TOKENS = 256  # of a model whose files name no length; a CPU's time grows with it
KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")


def model_options(model: str, max_tokens: int | None = None) -> dict[str, Any]:
    """The options by which ``load_encoder`` loads a model.

    Pooling and length are those of sentence-transformers' files, if the model has them; otherwise vectors are means of
    all tokens, and texts are cut to 256 tokens.

    Args:
        model: A folder with ``config.json``, or a name on the Hugging Face hub.
        max_tokens: Length that texts are cut to; None for the model's own.

    Raises:
        ValueError: If there is no such model, or it has a layer or a pooling that gedbd does not have.
    """
    config = _read(model, "config.json")
    if not isinstance(config, dict) or "hidden_size" not in config:
        raise ValueError(f"{model}: its config.json is missing, or names no hidden_size: it is not a text encoder")
    modules = _read(model, "modules.json") or []
    kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
    other = [kind for kind in kinds if kind not in KNOWN_MODULES]
    if other:
        raise ValueError(
            f"{model} has a layer {other[0]}, which gedbd does not support: load it with sentence-transformers, and"
            " give the model itself as the encoder"
        )
    lengths = _read(model, "sentence_bert_config.json") or {}
    return {
        "_target_": "gedbd.encoders.encoder.load_encoder",
        "name": Path(model).name,
        "model": model,
        "pooling": _pooling(model, _read(model, "1_Pooling/config.json") or {}),
        "dim": config["hidden_size"],
        "max_tokens": max_tokens or lengths.get("max_seq_length") or USUAL_MAX_TOKENS,
        "prefix": None,
    }


def _pooling(model: str, config: dict[str, Any]) -> str:
    """``mean`` or ``cls``, from either form of sentence-transformers' file."""
    # Older files have a yes or no for each mode, such as pooling_mode_mean_tokens.
    older = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    flags = [name for name, value in config.items() if name.startswith("pooling_mode_") and value is True]
    modes = [older.get(name, name) for name in flags] or [config.get("pooling_mode", "mean")]
    if modes not in (["mean"], ["cls"]):
        raise ValueError(
            f"{model} uses the pooling {modes[0]}, but gedbd supports only mean and cls: load it with"
            " sentence-transformers, and give the model itself as the encoder"
        )
    return str(modes[0])


def _read(model: str, name: str) -> Any:
    """The content of a JSON file of a model; None if the model does not have it."""
    if Path(model).is_dir():
        file = Path(model) / name
    else:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError

        try:
            file = Path(hf_hub_download(model, name))
        except LocalEntryNotFoundError as error:
            raise ValueError(f"{model}: the hub cannot be reached; download the model and give its folder") from error
        except EntryNotFoundError:
            return None
        except (HfHubHTTPError, OSError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ValueError(f"{model} cannot be loaded from the hub: {reason}") from error
    if not file.is_file():
        return None
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is damaged: it is not JSON ({error})") from error
