"""Which code a configuration from a file may name: only what this package writes there itself.

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

from gedbd.configuration.locations import CONF_DIR
from gedbd.io.console import open_console, print_line
from gedbd.io.files import IN_PACKAGE

VARIABLE = "GEDBD_ALLOWED_TARGETS"  # environment variable with further names, separated by commas
NAMED = re.compile(rf"_target_:\s*['\"]?([\w.]+)|({IN_PACKAGE}\S+)")
# What gedbd itself saves besides: the function that says that an encoder was an object in Python.
SAVED = {"encoder": ("gedbd.encoders.given_encoder.refuse_given",)}
LOADER = "gedbd.encoders.loaded_encoder.load_encoder"
CORPUS = "dataset"  # only ``gedbd download`` contacts its base_url, and that command reads no run
HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
# Files and groups of conf/ that name the factories of a section, if not the group of the same name.
SOURCES = {
    "baselines": ("baseline.yaml", "encoder", "backend", "text", "tags", "cross", "llm"),
    "batches": ("pairs",),
    "cross": ("cross", "encoder", "backend"),
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
    named = frozenset(filter(None, os.environ.get(VARIABLE, "").split(",")))
    for section, value in options.items():
        allowed = _targets_of(str(section)) | also | named
        for key, found in _walk(value, str(section)):
            if _names_code(key, found) and not (isinstance(found, str) and found in allowed):
                raise ValueError(
                    f"{source}: {key}={found} is not run, because a file may only name targets that conf/ has for"
                    f" {section}; if you trust it, set {VARIABLE}={found}"
                )
    for key, section in _sections(options):
        if "_args_" in section:  # gedbd names all arguments, so that what a file must not set can be found
            raise ValueError(f"{source}: {key}._args_ is not run, because a file may only set arguments by their names")


def check_plain(options: Any, source: str) -> None:
    """Raises ValueError, naming the option, if options from a file are not a dictionary or hold an interpolation."""
    if not isinstance(options, dict):
        raise ValueError(f"{source} is damaged: it holds no options")
    for key, found in _walk(options, ""):
        if isinstance(found, str) and "${" in found:
            raise ValueError(
                f"{source}: {key[1:]} holds an interpolation, ${{...}}, which a saved configuration never does"
            )


def keep_local(options: DictConfig, source: str, cache_dir: str | None = None) -> None:
    """Removes from options of a file what would send or write something to a place that the file names.

    The owner of a Ray cluster can run code on the machines that join it, an endpoint reads the texts of reports, and
    caches are written. The command line alone may name these places.

    Args:
        options: Changed in place.
        source: The file, for messages.
        cache_dir: Folder of caches on this machine; None for the one of ``GEDBD_CACHE``, or the default one.

    Raises:
        ValueError: If the options name a model on the hub, see ``check_models``.
    """
    plain: Any = OmegaConf.to_container(options)
    check_models(plain, source)
    for key, value in _replace(plain, "address", None):
        told = f"{source}: {key}={value} is ignored because it comes from a file: Ray is started on this machine"
        print_line(open_console(), told)
    for key, value in _replace({name: plain[name] for name in plain if name != CORPUS}, "base_url", None):
        section = key.partition(".")[0]
        print_line(open_console(), f"{source}: base_url={value} of {section} is ignored because it comes from a file")
    use_own_caches(plain, cache_dir)
    for section in list(options):
        if options[section] != plain[section]:
            options[section] = plain[section]


def use_own_caches(options: Any, cache_dir: str | None = None) -> None:
    """Replaces each ``cache_dir`` in plain options of a file; for the arguments see ``keep_local``."""
    _replace(options, "cache_dir", cache_dir or os.environ.get("GEDBD_CACHE", "~/.cache/gedbd"))


def named_addresses(options: Any) -> Iterator[tuple[str, Any]]:
    """Dotted names and values of the addresses in plain options."""
    for key, value in _walk(options, ""):
        if key.endswith((".address", ".base_url")) and value is not None and not key.startswith(f".{CORPUS}."):
            yield key[1:], value


def check_models(options: Any, source: str, given: Any = None) -> None:
    """Refuses models that would be downloaded because a file names them.

    A file may name a folder, a model that ``conf/`` names, or one that was downloaded to this machine before.

    Args:
        options: Plain options.
        source: The file, for messages.
        given: Options of the command line; the models that they name are allowed, too.

    Raises:
        ValueError: If they name another model on the Hugging Face hub.
    """
    allowed = _models_of_conf() | {section.get("model") for _, section in _sections(given) if _loads_model(section)}
    for key, section in _sections(options):
        model = str(section.get("model"))
        if not _loads_model(section) or model in allowed or not HUB_NAME.fullmatch(model) or Path(model).is_dir():
            continue
        from huggingface_hub import try_to_load_from_cache

        if not isinstance(try_to_load_from_cache(model, "config.json"), str):
            raise ValueError(
                f"{source}: {key}.model={model} is not downloaded, because a file names it; if you trust it, download"
                f" it first: hf download {model}"
            )


def _loads_model(section: dict[str, Any]) -> bool:
    return section.get("_target_") == LOADER and isinstance(section.get("model"), str)


def _sections(value: Any, key: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Nested dictionaries with their dotted names."""
    if isinstance(value, dict):
        yield key, value
        for name, inner in value.items():
            yield from _sections(inner, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _sections(inner, f"{key}[{place}]")


def _replace(value: Any, name: str, new: str | None, key: str = "") -> list[tuple[str, Any]]:
    """Replaces each value of this name in nested dictionaries and lists; gives what they were, by dotted name."""
    found = []
    if isinstance(value, dict):
        if value.get(name) is not None:
            found.append((f"{key}.{name}".lstrip("."), value[name]))
            value[name] = new
        for inner in value:
            found += _replace(value[inner], name, new, f"{key}.{inner}")
    elif isinstance(value, list):
        for inner in value:
            found += _replace(inner, name, new, key)
    return found


def read_settings(text: str, source: str, cache_dir: str) -> DictConfig:
    """The settings that an index was built with; the index may come from a stranger.

    Args:
        text: JSON with the sections encoder, text and backend.
        source: The index, for messages.
        cache_dir: Folder of 8-bit models on this machine; it replaces the one in the settings.

    Raises:
        ValueError: If they are damaged, or name code that a file may not name.
    """
    damaged = f"{source}: its settings are damaged; build the index again in another folder"
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:  # nested lists of a damaged file exceed the recursion limit
        raise ValueError(damaged) from error
    try:
        use_own_caches(plain, cache_dir)
        check_options(plain, source)
        settings: DictConfig = OmegaConf.create(plain)
    except RecursionError as error:
        raise ValueError(damaged) from error
    missing = [name for name in ("encoder", "text", "backend") if not isinstance(plain.get(name), dict)]
    if missing:
        raise ValueError(
            f"{source}: its settings have no section {missing[0]}; build the index again in another folder"
        )
    keep_local(settings, source, cache_dir)
    return settings


def named_targets(options: Any) -> frozenset[str]:
    """The targets and packages that options name."""
    return frozenset(str(value) for key, value in _walk(options, "") if _names_code(key, value))


def _names_code(key: str, value: Any) -> bool:
    """Whether an option names code to call or a package to import."""
    return key.endswith("._target_") or (isinstance(value, str) and value.startswith(IN_PACKAGE))


@cache
def _targets_of(section: str) -> frozenset[str]:
    """The names in ``conf/`` for a section; none if the section, which may come from a file, could be a path."""
    if not section.isidentifier():
        return frozenset()
    found: set[str] = set(SAVED.get(section, ()))
    for source in SOURCES.get(section, (section,)):
        place = Path(CONF_DIR) / source
        for file in [place] if place.suffix else place.glob("*.yaml"):
            found |= {target or path for target, path in NAMED.findall(file.read_text(encoding="utf-8"))}
    return frozenset(found)


@cache
def _models_of_conf() -> frozenset[str]:
    """The models that ``conf/`` names."""
    files = Path(CONF_DIR).glob("encoder/*.yaml")
    return frozenset(re.findall(r"^model: (\S+)", "\n".join(file.read_text() for file in files), re.MULTILINE))


def _walk(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Dotted names and values in nested dictionaries and lists; a value under ``_target_`` is also given as a whole."""
    # A target must be a text. A list or dictionary there is given as a whole, so that it is refused.
    if key.endswith("._target_"):
        yield key, value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _walk(inner, f"{key}.{name}")
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _walk(inner, f"{key}[{place}]")
    elif not key.endswith("._target_"):
        yield key, value
