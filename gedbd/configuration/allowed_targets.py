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
from gedbd.io.paths import IN_PACKAGE
from gedbd.io.printing import open_console, print_line

VARIABLE = "GEDBD_ALLOWED_TARGETS"  # environment variable with further names, separated by commas
NAMED = re.compile(rf"_target_:\s*['\"]?([\w.]+)|({IN_PACKAGE}\S+)")
# What gedbd itself saves besides: the function that says that an encoder was an object in Python.
SAVED = {"encoder": ("gedbd.encoders.given.refuse_given",)}
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


def check_plain(options: Any, source: str) -> None:
    """Raises ValueError, naming the option, if options from a file are not a dictionary or hold an interpolation."""
    if not isinstance(options, dict):
        raise ValueError(f"{source} is damaged: it holds no options")
    for key, found in _walk(options, ""):
        if isinstance(found, str) and "${" in found:
            raise ValueError(
                f"{source}: {key[1:]} holds an interpolation, ${{...}}, which a saved configuration never does"
            )


def keep_local(options: DictConfig, source: str) -> None:
    """Removes addresses that reports would be sent to from options of a file: the command line alone may name them.

    The owner of a Ray cluster can run code on the machines that join it, and an endpoint reads the texts of reports.
    """
    backend = options.get("backend")
    if OmegaConf.is_dict(backend) and backend.get("address") is not None:
        print_line(
            open_console(),
            f"{source}: backend.address={backend.address} is ignored because it comes from a file: Ray is started on"
            " this machine",
        )
        backend.address = None
    for section in list(options):
        plain = OmegaConf.to_container(options[section]) if OmegaConf.is_config(options[section]) else None
        found = _remove_urls(plain)
        if found:
            print_line(
                open_console(), f"{source}: base_url={found[0]} of {section} is ignored because it comes from a file"
            )
            options[section] = plain


def _remove_urls(value: Any) -> list[str]:
    """Sets each ``base_url`` in nested dictionaries and lists to None; gives what they were."""
    found = []
    if isinstance(value, dict):
        if value.get("base_url") is not None:
            found.append(str(value["base_url"]))
            value["base_url"] = None
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        found += _remove_urls(inner)
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
    if isinstance(plain, dict) and isinstance(plain.get("backend"), dict) and "cache_dir" in plain["backend"]:
        plain["backend"]["cache_dir"] = cache_dir
    try:
        check_options(plain, source)
        settings: DictConfig = OmegaConf.create(plain)
    except RecursionError as error:
        raise ValueError(damaged) from error
    missing = [name for name in ("encoder", "text", "backend") if not isinstance(plain.get(name), dict)]
    if missing:
        raise ValueError(
            f"{source}: its settings have no section {missing[0]}; build the index again in another folder"
        )
    keep_local(settings, source)
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
