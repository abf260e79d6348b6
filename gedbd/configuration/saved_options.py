"""The configuration in a run folder: what a run saves, and what other commands read back."""

import os
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf._utils import get_yaml_loader
from omegaconf.errors import OmegaConfBaseException

from gedbd.configuration.allowed_targets import check_options, check_plain
from gedbd.configuration.option_types import check_values
from gedbd.io.files import read_object

CONFIG = "config.yaml"
VERSIONS = "versions.json"
SCHEMA = 4  # version of the files of a run folder, stored in VERSIONS; raised when the files of older ones change
JSON = "json"
# Sections that only a training reads, and those that encoding reports does not read either.
TRAINING_ONLY = ("callbacks", "logger")
NOT_ENCODING = (*TRAINING_ONLY, "loss")
NEEDED = ("dataset", "encoder", "split", "text")
PATHS = (
    *("cache_dir", "captions", "change_encoder", "checkpoint", "ckpt_path", "data_dir", "feedback", "image_dir"),
    *("path", "report_encoder", "run", "val_checkpoint"),
)


def saved_options(cfg: DictConfig) -> dict[str, Any]:
    """Resolved options with absolute paths, so that a run can be read from any working directory.

    Paths are the options in ``PATHS``, and ``model`` if it names an existing folder instead of a model on a hub.
    Paths that begin with ``~`` or name a resource (``pkg://``) do not change. ``json``, which says how results are
    printed, is left out.
    """
    options: dict[str, Any] = _with_paths(OmegaConf.to_container(cfg, resolve=True), lambda path: str(path.absolute()))
    options.pop(JSON, None)
    return options


def check_schema(folder: Path) -> None:
    """Raises ValueError if a run folder was made by a version of gedbd with another schema."""
    file = folder / VERSIONS
    schema = read_object(file).get("schema") if file.is_file() else None
    if schema != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        repair = "install that version" if newer else "run its command again in a new folder"
        raise ValueError(f"{folder} was written by {'a newer' if newer else 'an older'} version of gedbd: {repair}")


def read_saved(folder: Path, also: Set[str] = frozenset(), left_out: Sequence[str] = TRAINING_ONLY) -> DictConfig:
    """The configuration in a run folder.

    A saved path that does not exist is resolved relative to the folder, so that a project can be moved as a whole.

    Args:
        folder: The run folder, possibly from a stranger: see ``gedbd.configuration.allowed_targets``.
        also: Targets that it may name in addition to those of ``conf/``.
        left_out: Sections that are left out, whatever they name.

    Raises:
        ValueError: If the folder holds no run, or its configuration is damaged or names code that a file may not name.
    """
    file = folder / CONFIG
    cfg = read_config(folder)
    check_schema(folder)
    options: Any = OmegaConf.to_container(cfg)
    for name in left_out:
        options.pop(name, None)
    check_options(options, str(file), also)
    for name in NEEDED:
        if not OmegaConf.is_dict(cfg.get(name)) or "_target_" not in cfg[name]:
            raise ValueError(f"{file} is damaged: it has no section {name}, or that section has no _target_")
    try:
        check_values(cfg)
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {error}") from error
    recorded = read_object(folder / VERSIONS).get("folder")  # the path of the folder when it was written
    stored_in = recorded if isinstance(recorded, str) else ""

    def find(path: Path) -> str:
        if not stored_in or path.exists() or not path.is_absolute():
            return str(path)
        moved = Path(os.path.normpath(folder.absolute() / os.path.relpath(path, stored_in)))
        return str(moved if moved.exists() else path)

    found = OmegaConf.create(_with_paths(options, find))
    assert isinstance(found, DictConfig)
    return found


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads what OmegaConf reads, such as 1e-5 as a number, by libyaml, which is ten times as quick."""

    yaml_implicit_resolvers = get_yaml_loader().yaml_implicit_resolvers

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A section; an option that stands twice is an error."""
        names = [name.value for name, _ in node.value]
        if len(set(names)) < len(names):
            raise yaml.constructor.ConstructorError("an option occurs twice", node.start_mark)
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


def check_run_folder(folder: Path) -> None:
    """Raises ValueError if a folder is not that of a run; commands call it before they import large libraries."""
    if not (folder / CONFIG).is_file():
        raise ValueError(f"{folder} is not a run folder: it has no {CONFIG}")


def read_config(folder: Path) -> DictConfig:
    """The options in a run folder, to show, not to run: the code that they name is not checked.

    Raises:
        ValueError: If the folder holds no run, or the file holds no plain options.
    """
    check_run_folder(folder)
    file = folder / CONFIG
    try:
        text = file.read_text(encoding="utf-8")
        # Nested aliases can expand a short file without bound; gedbd writes none.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, Loader=_Loader)):
            raise ValueError(f"{file} is damaged: it repeats parts of itself with YAML aliases (*name)")
        options = yaml.load(text, Loader=_Loader)
        if not isinstance(options, dict) or not options:
            raise ValueError(f"{file} is damaged: it holds no options")
        check_plain(options, str(file))
        return OmegaConf.create(options)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, OmegaConfBaseException) as error:
        raise ValueError(f"{file} is damaged: {type(error).__name__}") from error


def _with_paths(options: Any, change: Callable[[Path], str]) -> Any:
    """Options with every path replaced by ``change(path)``."""
    if not isinstance(options, dict):
        return options
    changed = {}
    for name, value in options.items():
        changed[name] = change(Path(value)) if _is_path(name, value) else _with_paths(value, change)
    return changed


def _is_path(name: str, value: Any) -> bool:
    # pkg://, a URL and ~ mean the same in every working directory.
    if not isinstance(value, str) or not value or "://" in value or value.startswith("~"):
        return False
    return name in PATHS or (name == "model" and Path(value).is_dir())
