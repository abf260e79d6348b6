"""The configuration that a finished or interrupted run has saved in its folder."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

from omegaconf import DictConfig, OmegaConf
from yaml import YAMLError

CONFIG = "config.yaml"
VERSIONS = "versions.json"
PATHS = ("cache_dir", "captions", "checkpoint", "ckpt_path", "data_dir", "feedback", "image_dir", "path", "run")


def saved_options(cfg: DictConfig) -> dict[str, Any]:
    """Resolved options, with absolute paths: a run can be read from any working directory.

    Paths are the options named in ``PATHS``, and ``model`` where it names an existing folder and not a model on a hub.
    Those that begin with ``~`` or name a resource (``pkg://``) stay as they are.
    """
    options: dict[str, Any] = _with_paths(OmegaConf.to_container(cfg, resolve=True), lambda path: str(path.absolute()))
    return options


def read_saved(folder: Path) -> DictConfig:
    """The configuration in a run folder.

    A stored path that is gone is looked for where it lay relative to the folder: a project can be moved as a whole.

    Raises:
        ValueError: If the folder is no run, or its configuration is damaged.
    """
    file = folder / CONFIG
    if not file.is_file():
        raise ValueError(f"{folder} is not the folder of a run: it has no {CONFIG}")
    try:
        cfg = OmegaConf.load(file)
    except (YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is damaged: {type(error).__name__}") from error
    if not isinstance(cfg, DictConfig):
        raise ValueError(f"{file} is damaged: it holds no options")
    stored_in = _stored_in(folder)

    def find(path: Path) -> str:
        if stored_in is None or path.exists() or not path.is_absolute():
            return str(path)
        moved = Path(os.path.normpath(folder.absolute() / os.path.relpath(path, stored_in)))
        return str(moved if moved.exists() else path)

    found = OmegaConf.create(_with_paths(OmegaConf.to_container(cfg), find))
    assert isinstance(found, DictConfig)
    return found


def check_whole(checkpoint: Path) -> None:
    """Raises ValueError if a checkpoint was cut off: PyTorch writes archives, which end with their directory."""
    if not is_zipfile(checkpoint):
        raise ValueError(f"{checkpoint} is damaged: no checkpoint can be read from it")


def _stored_in(folder: Path) -> Path | None:
    """Path of a run folder when it was written; None if that was not recorded."""
    file = folder / VERSIONS
    told = json.loads(file.read_text()).get("folder") if file.is_file() else None
    return Path(told) if told else None


def _with_paths(options: Any, change: Callable[[Path], str]) -> Any:
    """Options in which each path is changed."""
    if not isinstance(options, dict):
        return options
    changed = {}
    for name, value in options.items():
        changed[name] = change(Path(value)) if _is_path(name, value) else _with_paths(value, change)
    return changed


def _is_path(name: str, value: Any) -> bool:
    if not isinstance(value, str) or not value or "://" in value or value.startswith("~"):
        return False
    return name in PATHS or (name == "model" and Path(value).is_dir())
