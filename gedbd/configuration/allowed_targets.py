"""The code that a configuration read from a file may name: only what gedbd itself writes there.

Run folders, backtests and indexes can come from strangers. Hydra calls what a configuration names under ``_target_``, a
path such as ``pkg://package/file.csv`` imports that package, and OmegaConf evaluates interpolations such as
``${oc.env:SECRET}``. A configuration from a file must therefore hold plain values, and may only name the factories and
packages that ``conf/`` names in the same section. The command line is not restricted.
"""

import json
import os
import re
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from gedbd.encoders.model_files import is_downloaded
from gedbd.io.console import open_console, print_line
from gedbd.io.files import CONF_DIR, IN_PACKAGE

VARIABLE = "GEDBD_ALLOWED_TARGETS"  # environment variable with further names, separated by commas
TARGET_OR_PACKAGE = re.compile(rf"_target_:\s*['\"]?([\w.]+)|({IN_PACKAGE}\S+)")
# gedbd also saves this target: the function that refuses encoders that were passed as Python objects.
SAVED_TARGETS = {"encoder": ("gedbd.encoders.given_encoder.refuse_given",)}
LOADER = "gedbd.encoders.loaded_encoder.load_encoder"
CORPUS_SECTION = "dataset"  # only ``gedbd download`` contacts its base_url, and that command reads no run
HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
# Section -> files and groups of conf/ that name its factories; other sections use the group of the same name.
SOURCES = {
    "baselines": ("baseline.yaml", "encoder", "backend", "text", "tags", "llm"),
    "batches": ("pairs",),
    "graph": ("graph", "encoder"),
    "labels": ("shared.yaml",),
    "ranker": ("backtest.yaml",),
    "ranking": ("protocol", "encoder"),
}


def check_options(options: Any, source: str, also: Set[str] = frozenset()) -> None:
    """Refuses options from a file that could run other code or read environment variables.

    Args:
        options: Unresolved options: plain dictionaries, lists and values.
        source: The file, for messages.
        also: Further names to allow, such as those of the command line.

    Raises:
        ValueError: If the options are not a dictionary, hold an interpolation, or name other code; names the option.
    """
    check_plain(options, source)
    from_environment = frozenset(filter(None, os.environ.get(VARIABLE, "").split(",")))
    for path, value, _ in _entries(options):
        key = _dotted(path)
        allowed = _targets_of(str(path[0])) | also | from_environment
        # A target must be a string: lists and dictionaries are refused.
        if _names_code(path, value) and not (isinstance(value, str) and value in allowed):
            raise ValueError(
                f"{source}: {key}={value} is not run, because a file may only name targets that conf/ has for"
                f" {path[0]}; if you trust it, set {VARIABLE}={value}"
            )
        if path[-1] == "_args_":  # gedbd passes all arguments by name, so that forbidden ones can be found
            raise ValueError(f"{source}: {key} is not run, because a file may only set arguments by name")


def check_plain(options: Any, source: str) -> None:
    """Raises ValueError, naming the option, if options from a file are not a dictionary or hold an interpolation."""
    if not isinstance(options, dict):
        raise ValueError(f"{source} is damaged: it holds no options")
    for path, value, _ in _entries(options):
        if isinstance(value, str) and "${" in value:
            raise ValueError(
                f"{source}: {_dotted(path)} holds an interpolation, ${{...}}, which a saved configuration never does"
            )


def keep_local(options: Any, source: str, cache_dir: str | None = None, given: Any = None) -> None:
    """Removes addresses and cache folders that a file names, and refuses models that it would download.

    The owner of a Ray cluster can run code on the machines that join it, an endpoint reads the texts of reports, and
    caches are written. Only the command line may name these. A file may name a folder, a model that ``conf/`` names, or
    one that was downloaded to this machine before.

    Args:
        options: Plain options, changed in place.
        source: The file, for messages.
        cache_dir: Folder of caches on this machine; None for ``GEDBD_CACHE``, or the default folder.
        given: Options of a command line that continues the run: models that it names are allowed, too, and addresses
            are kept.

    Raises:
        ValueError: If the options name another model on the Hugging Face hub.
    """
    known = {*_models_of_conf(), *(model for _, model in loaded_models(given))}
    for key, model in loaded_models(options):
        if model not in known and HUB_NAME.fullmatch(model) and not (Path(model).is_dir() or is_downloaded(model)):
            raise ValueError(
                f"{source}: {key}={model} is not downloaded, because a file names it; if you trust it, download"
                f" it first: hf download {model}"
            )
    _use_own_caches(options, cache_dir)
    for path, value, holder in _entries(options):
        if given is None and _is_address(path, value):
            holder[path[-1]] = None
            instead = ": Ray is started on this machine" if path[-1] == "address" else ""
            print_line(
                open_console(), f"{source}: {_dotted(path)}={value} is ignored because it comes from a file{instead}"
            )


def _use_own_caches(options: Any, cache_dir: str | None) -> None:
    for path, value, holder in _entries(options):
        if path[-1] == "cache_dir" and value is not None:
            holder["cache_dir"] = cache_dir or os.environ.get("GEDBD_CACHE", "~/.cache/gedbd")


def named_addresses(options: Any) -> Iterator[tuple[str, Any]]:
    """Dotted names and values of the addresses in plain options."""
    for path, value, _ in _entries(options):
        if _is_address(path, value):
            yield _dotted(path), value


def _is_address(path: tuple[Any, ...], value: Any) -> bool:
    return value is not None and (path[-1] == "address" or (path[-1] == "base_url" and path[0] != CORPUS_SECTION))


def loaded_models(options: Any) -> Iterator[tuple[str, str]]:
    """Dotted names and values of the options ``model`` of encoders that are loaded."""
    for path, value, holder in _entries(options):
        if path[-1] == "model" and isinstance(value, str) and holder.get("_target_") == LOADER:
            yield _dotted(path), value


def _entries(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """Yields each entry of nested dictionaries and lists: its path, its value, and its container."""
    keys: Any = ()
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list | tuple):
        keys = range(len(value))
    for name in keys:
        path = (*above, name)
        yield path, value[name], value
        yield from _entries(value[name], path)


def _dotted(path: tuple[Any, ...]) -> str:
    """Joins a path: ``("loss", "weights", 2)`` becomes ``loss.weights[2]``."""
    return "".join(f"[{name}]" if isinstance(name, int) else f".{name}" for name in path).removeprefix(".")


def read_settings(text: str, source: str, cache_dir: str) -> DictConfig:
    """The settings that an index was built with; the index may come from a stranger.

    Args:
        text: JSON with the sections encoder, text and backend.
        source: The index, for messages.
        cache_dir: Folder of 8-bit models on this machine; it replaces the one in the settings.

    Raises:
        ValueError: If the settings are damaged, or name code that a file may not name.
    """
    try:
        plain = json.loads(text)
        _use_own_caches(plain, cache_dir)  # before check_options, as a cache_dir may be an interpolation
        check_options(plain, source)
    except (json.JSONDecodeError, RecursionError) as error:  # nested lists of a damaged file exceed the recursion limit
        raise ValueError(f"{source}: its settings are damaged; build the index again in another folder") from error
    missing = [name for name in ("encoder", "text", "backend") if not isinstance(plain.get(name), dict)]
    if missing:
        raise ValueError(
            f"{source}: its settings have no section {missing[0]}; build the index again in another folder"
        )
    keep_local(plain, source, cache_dir)
    settings: DictConfig = OmegaConf.create(plain)
    return settings


def named_targets(options: Any) -> frozenset[str]:
    """The targets and packages that options name."""
    return frozenset(str(value) for path, value, _ in _entries(options) if _names_code(path, value))


def _names_code(path: tuple[Any, ...], value: Any) -> bool:
    """Whether an option names code to call or a package to import."""
    is_target = len(path) > 1 and path[-1] == "_target_"
    return is_target or (isinstance(value, str) and value.startswith(IN_PACKAGE))


@cache
def _targets_of(section: str) -> frozenset[str]:
    """The names in ``conf/`` for a section; empty if its name, which may come from a file, could be a path."""
    if not section.isidentifier():
        return frozenset()
    targets: set[str] = set(SAVED_TARGETS.get(section, ()))
    for source in SOURCES.get(section, (section,)):
        path = Path(CONF_DIR) / source
        for file in [path] if path.suffix else path.glob("*.yaml"):
            targets |= {
                target or package for target, package in TARGET_OR_PACKAGE.findall(file.read_text(encoding="utf-8"))
            }
    return frozenset(targets)


@cache
def _models_of_conf() -> frozenset[str]:
    """The models that ``conf/`` names."""
    files = Path(CONF_DIR).glob("encoder/*.yaml")
    return frozenset(re.findall(r"^model: (\S+)", "\n".join(file.read_text() for file in files), re.MULTILINE))
