"""Weights of checkpoints: read, check, load and hash them."""

import hashlib
import re
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, BinaryIO

import torch
from torch import nn

from gedbd.encoders.adapters import DOWN, merge_adapters
from gedbd.io.checksums import check_whole


def encoder_state(checkpoint: str | Path | BinaryIO) -> dict[str, Any]:
    """The weights of the text encoder in a run's checkpoint, by their names in ``TextEncoder``.

    Raises:
        ValueError: If the checkpoint is damaged, or holds no weights of a text encoder.
    """
    if isinstance(checkpoint, str | Path):
        check_whole(Path(checkpoint))
    state = read_state(checkpoint)
    encoder = {key.removeprefix("encoder."): value for key, value in state.items() if key.startswith("encoder.")}
    if not encoder:
        raise ValueError(
            f"{source_name(checkpoint)} holds no weights of a text encoder: it belongs to another model, or to a task"
            " that trains no encoder"
        )
    return encoder


def read_state(checkpoint: str | Path | BinaryIO) -> dict[str, Any]:
    """The weights in a checkpoint, by name. Raises ValueError if it holds none."""
    content = read_tensors(checkpoint)
    state = content.get("state_dict") if isinstance(content, dict) else None
    if not isinstance(state, dict):
        raise ValueError(f"{source_name(checkpoint)} is damaged: it holds no weights")
    return state


def read_tensors(checkpoint: str | Path | BinaryIO, mmap: bool = False) -> Any:
    """The content of a checkpoint: tensors, numbers, texts and their containers, none of which can run code.

    ``mmap`` reads the structure of a file now and its tensors when they are used.

    Raises:
        ValueError: If it is damaged, or holds other objects. PyTorch's message, which says how to load these, is left
            out.
    """
    try:
        return torch.load(checkpoint, map_location="cpu", weights_only=True, mmap=mmap)
    except (EOFError, RuntimeError, UnpicklingError) as error:
        code = re.search(r"(?:GLOBAL|Unsupported class) `?([\w.]+)", str(error))
        if code:
            raise ValueError(
                f"{source_name(checkpoint)} is refused: it holds {code[1]}, and such objects can run code when they are"
                " read; ask its author for a checkpoint of tensors alone"
            ) from error
        raise ValueError(f"{source_name(checkpoint)} is damaged: its weights cannot be read; copy it again") from error


def load_state(module: nn.Module, state: dict[str, Any], source: str) -> None:
    """Loads weights into a module, which gets those of adapters merged unless it has adapters itself.

    Raises:
        ValueError: If they belong to another model; names their source.
    """
    has_adapters = any(name.endswith(DOWN) for name in module.state_dict())
    try:
        module.load_state_dict(state if has_adapters else merge_adapters(state))
    except (KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split()[:40])
        raise ValueError(f"{source} holds the weights of another model than its settings describe: {reason}") from error


def source_name(checkpoint: str | Path | BinaryIO) -> str:
    """The name of a checkpoint in messages: its path, if it has one."""
    return str(checkpoint) if isinstance(checkpoint, str | Path) else "the stored checkpoint"


def fingerprint(module: nn.Module) -> str:
    """A hash of all weights, which identifies cached vectors."""
    digest = hashlib.blake2b(digest_size=16)
    for key, value in sorted(module.state_dict().items()):
        digest.update(key.encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
