"""What may stand in a configuration that comes from a file: only what this package writes there itself.

A run folder, a backtest or an index may come from somebody else. Hydra calls whatever a configuration names under
``_target_``, a path such as ``pkg://package/file.csv`` imports that package, and OmegaConf evaluates interpolations
such as ``${oc.env:SECRET}``. So a configuration from a file holds plain values, and names only factories and packages
that ``conf/`` names for the same section. Options of the command line are free.
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

VARIABLE = "GEDBD_ALLOWED_TARGETS"  # environment variable with further names, separated by commas
NAMED = re.compile(rf"_target_:\s*['\"]?([\w.]+)|({IN_PACKAGE}\S+)")
# Where conf/ names the factories of a section, if not in the group of the same name.
SOURCES = {
    "baselines": ("baseline.yaml", "encoder", "backend", "text"),
    "batches": ("pairs",),
    "graph": ("graph", "encoder"),
    "labels": ("shared.yaml",),
}


def check_options(options: Any, source: str, also: Set[str] = frozenset()) -> None:
    """Refuses options from a file that could run other code or read what this package does not write there.

    Args:
        options: The options, not resolved: plain dictionaries, lists and values.
        source: The file, for messages.
        also: What to allow beside that: what the command line names itself.

    Raises:
        ValueError: If they are no dictionary, hold an interpolation, or name other code; names the option.
    """
    check_plain(options, source)
    named = frozenset(filter(None, os.environ.get(VARIABLE, "").split(",")))
    for section, value in options.items():
        allowed = _targets_of(str(section)) | also | named
        for key, found in _walk(value, str(section)):
            if _names_code(key, found) and not (isinstance(found, str) and found in allowed):
                raise ValueError(
                    f"{source}: {key}={found} is not run, as a file may only name what conf/ names for {section};"
                    f" if you trust it: {VARIABLE}={found}"
                )


def check_plain(options: Any, source: str) -> None:
    """Raises ValueError if options from a file are no dictionary, or hold an interpolation; names the option."""
    if not isinstance(options, dict):
        raise ValueError(f"{source} is damaged: it holds no options")
    for key, found in _walk(options, ""):
        if isinstance(found, str) and "${" in found:
            raise ValueError(f"{source}: {key[1:]} holds an interpolation, ${{...}}: a saved configuration has none")


def keep_local(options: DictConfig, source: str) -> None:
    """Takes the address of a Ray cluster out of options from a file: reports are read on this machine instead.

    Who runs a cluster can run code on the machines that join it.
    """
    backend = options.get("backend")
    if OmegaConf.is_dict(backend) and backend.get("address") is not None:
        print(f"{source}: backend.address={backend.address} is not used, as it comes from a file: Ray starts here")
        backend.address = None


def read_settings(text: str, source: str, cache_dir: str) -> DictConfig:
    """The settings that an index was built with, which may be those of somebody else.

    Args:
        text: JSON with the sections encoder, text and backend.
        source: Where they come from, for messages.
        cache_dir: Where 8-bit models are kept on this machine; what the settings say of it is not used.

    Raises:
        ValueError: If they are damaged, or name what a file may not.
    """
    damaged = f"{source}: its settings are damaged; build the index again in another folder"
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
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
        raise ValueError(f"{source}: its settings have no section {missing[0]}; build the index again elsewhere")
    keep_local(settings, source)
    return settings


def named_targets(options: Any) -> frozenset[str]:
    """All targets and packages that options name."""
    return frozenset(str(value) for key, value in _walk(options, "") if _names_code(key, value))


def _names_code(key: str, value: Any) -> bool:
    """Whether an option says what is called or imported."""
    return key.endswith("._target_") or (isinstance(value, str) and value.startswith(IN_PACKAGE))


@cache
def _targets_of(section: str) -> frozenset[str]:
    """What ``conf/`` names for a section; nothing if its name, which may come from a file, could be a path."""
    if not section.isidentifier():
        return frozenset()
    found: set[str] = set()
    for source in SOURCES.get(section, (section,)):
        place = Path(CONF_DIR) / source
        for file in [place] if place.suffix else place.glob("*.yaml"):
            found |= {target or path for target, path in NAMED.findall(file.read_text(encoding="utf-8"))}
    return frozenset(found)


def _walk(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Dotted names and values in nested dictionaries and lists; what is named under ``_target_`` comes whole too."""
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
