"""Checks the types of options, and the lower bounds of numbers.

The configuration has no schema: ``conf/`` declares the options, and their defaults declare the types. A value on the
command line must have the type of its default. A default of null has no type, so ``LOWEST`` names the options that are
numbers, and ``PATHS`` those that are paths.
"""

import math
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import InterpolationResolutionError

COMPUTED = re.compile(r"\$\{(?!oc\.)[\w.]+:")  # a resolver of Hydra or gedbd: hydra, auto_precision, ...

LOWEST: dict[str, float] = {  # an integer: whole numbers only
    "batch_size": 1,
    "chunk_tokens": 1,
    "dataset.last_n": 1,
    "dataset.max_diff_chars": 1,
    "dataset.max_files": 1,
    "encoder.dim": 1,
    "encoder.hidden": 1,
    "encoder.layers": 1,
    "encoder.max_tokens": 1,
    "encoder.truncate_dim": 1,
    "graph.max_title_tokens": 1,
    "line": 1,
    "max_nodes": 1,
    "optimizer.head_lr": 0.0,
    "optimizer.lr": 0.0,
    "scheduler.warmup_steps": 0,
    "optimizer.weight_decay": 0.0,
    "pairs.fill_to": 0,
    "pairs.negatives_in_evaluation": 0.0,
    "pairs.negatives_per_positive": 0.0,
    "pairs.random_negatives": 0,
    "patience": 0,
    "port": 0,
    "ranking.window_days": -math.inf,  # the functions that use it check its sign
    "seed": 0,
    "seeds": 1,
    "trainer.accumulate_grad_batches": 1,
    "trainer.gradient_clip_val": 0.0,
    "trainer.max_epochs": 1,
    "trainer.num_nodes": 1,
    "webhook.suggestions": 1,
}
NO_LIMIT = {"trainer.max_epochs": -1}  # Lightning trains until early stopping
NULLABLE = ("dataset.suffixes", "pairs.negatives_in_evaluation", "text.tokens.*", "trainer.gradient_clip_val")
FRACTIONAL = ("*timeout_s", "max_wait_s", "max_megabytes", "max_megapixels", "trainer.limit_*", "graph.rule.power")
ANY_TYPE = ("split.*_from", "trainer.devices")
PATHS = (
    "ckpt_path",
    "dataset.fixes",
    "dataset.path",
    "file",
    "fill",
    "index",
    "out",
    "pairs.feedback",
    "path",
    "run",
    "text.captions",
)


def plain_options(cfg: DictConfig) -> dict[str, Any]:
    """The unresolved options of a command, without Hydra's own."""
    plain = OmegaConf.to_container(OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"]))
    assert isinstance(plain, dict)
    return {str(name): value for name, value in plain.items()}


def check_types(cfg: DictConfig, defaults: DictConfig) -> None:
    """Compares options with their defaults.

    Args:
        cfg: The composed configuration.
        defaults: The same without the values of the command line.

    Raises:
        ValueError: If a value has another type than its default, or refers to an option that does not exist.
    """
    for key, written, default in _changed(plain_options(cfg), plain_options(defaults)):
        value = _resolve(cfg, key, written)
        problem = _problem(key, value, _resolve(defaults, key, default))
        if problem and not _is_computed(written):
            raise ValueError(f"{key}={shown(value)} must be {problem}")


def check_values(cfg: DictConfig) -> None:
    """Checks the numbers of ``LOWEST`` and the paths of ``PATHS`` that the command has.

    Raises:
        ValueError: If a value is not a number or not a path, or a number is too small.
    """
    for key, lowest in LOWEST.items():
        value = _known(cfg, key)
        if value is None or value == NO_LIMIT.get(key):
            continue
        wanted = "a whole number" if isinstance(lowest, int) else "a number"
        if not _is_number(value, whole=isinstance(lowest, int)):
            raise ValueError(f"{key}={shown(value)} must be {wanted}")
        if value < lowest:
            raise ValueError(f"{key}={value} must be {lowest:g} or more")
    for key in PATHS:
        value = _known(cfg, key)
        if not isinstance(value, str | None):
            raise ValueError(f"{key}={shown(value)} must be a path: write ./{shown(value)} if that is its name")


def shown(value: Any) -> str:
    """A value as it is written on the command line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value) or "''"


def _problem(key: str, value: Any, default: Any) -> str | None:
    """What a value must be to replace its default; None if it fits, or if the default has no type."""
    if default is None or _is_one_of(key, ANY_TYPE) or (value is None and _is_one_of(key, NULLABLE)):
        return None
    if isinstance(default, bool):
        return None if isinstance(value, bool) else "true or false"
    if isinstance(default, int | float):
        whole = isinstance(default, int) and not _is_one_of(key, FRACTIONAL)
        return None if _is_number(value, whole) else "a whole number" if whole else "a number"
    if OmegaConf.is_list(default):
        example = shown(default) if len(default) else "[a, b]"
        return None if OmegaConf.is_list(value) else f"a list, such as {example}"
    if OmegaConf.is_dict(default):
        return None if value is None else f"null, or be given option by option, such as {key}.{next(iter(default))}="
    return "one value" if OmegaConf.is_config(value) else None


def _known(cfg: DictConfig, key: str) -> Any:
    """An option's value; None if it has none yet, such as the number of a job, which Hydra sets later."""
    try:
        return OmegaConf.select(cfg, key, throw_on_missing=False)
    except InterpolationResolutionError:
        return None


def _is_computed(written: Any) -> bool:
    return isinstance(written, str) and COMPUTED.search(written) is not None


def _is_number(value: Any, whole: bool) -> bool:
    types = int if whole else int | float
    return isinstance(value, types) and not isinstance(value, bool) and math.isfinite(value)


def _is_one_of(key: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(key, pattern) for pattern in patterns)


def _changed(values: dict[str, Any], defaults: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Dotted name, value and default of the options whose value is not the default."""
    for name, value in values.items():
        if name not in defaults:
            continue
        default = defaults[name]
        if isinstance(value, dict) and isinstance(default, dict):
            yield from _changed(value, default, f"{above}{name}.")
        elif value != default or type(value) is not type(default):
            yield f"{above}{name}", value, default


def _resolve(cfg: DictConfig, key: str, written: Any) -> Any:
    """An option's value; None for a value that Hydra or a resolver sets later.

    Raises:
        ValueError: If it refers to an option or variable that does not exist.
    """
    if written == MISSING or _is_computed(written):
        return None
    try:
        return OmegaConf.select(cfg, key)
    except InterpolationResolutionError as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{key}={written}: {reason}") from error
