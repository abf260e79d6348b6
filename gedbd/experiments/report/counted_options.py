"""Finds the options of a run that can change its numbers. Runs that agree in all of these are runs of one setting."""

import re
from typing import Any

from omegaconf import OmegaConf

from gedbd.evaluation.display_names import TEXT
from gedbd.experiments.run_folder import Run

# Options that cannot change a number, and those below them. Every other option counts, even if it is added later.
WITHOUT_EFFECT = (
    "seed",  # differs between the runs of a setting
    "seeds",  # how many runs one command trains
    "cache_dir",
    "data_dir",
    "ckpt_path",
    "logger",
    "hydra",
    "dataset.name",  # the name of the corpus is compared instead
    "encoder.fine_tuning",  # defaults of other options, which count
    "graph.title_encoders",  # the choices for graph.titles, which counts
    "callbacks.device_stats",
    "callbacks.early_stopping._target_",
    "callbacks.early_stopping.monitor",  # repeats monitor, which counts, as patience does
    "callbacks.early_stopping.patience",
    "callbacks.lr_monitor",
    "callbacks.model_checkpoint",
    "trainer.logger",
    "trainer.profiler",
    "trainer.enable_progress_bar",
    "trainer.enable_model_summary",
    "trainer.log_every_n_steps",
    "trainer.default_root_dir",
)
# Likewise in any section: the last part of an option's name.
WITHOUT_EFFECT_ANYWHERE = ("cache_dir", "data_dir", "num_workers", "url_template")
# Without a graph, these cannot change a number either.
OF_THE_GRAPH = ("graph", "fusion.lambda_text")
# A baseline has its own copies of these in its section, ``baselines.<name>``.
OF_TRAINING = ("encoder", "backend", "text", "tags")
SEED_OPTIONS = ("seed", "fold")
PROTOCOLS = "ranking.protocols"
SEED_FOLDER = re.compile(r"/seed_(\d+)(?=/|$)")
FOLLOWS_SEED = "seed"


def changes_numbers(name: str) -> bool:
    """Whether an option can change a number of a run.

    Args:
        name: The option with its sections, such as ``trainer.max_epochs``.
    """
    return not _is_below(name, WITHOUT_EFFECT) and name.rsplit(".", 1)[-1] not in WITHOUT_EFFECT_ANYWHERE


def counted_options(run: Run) -> dict[str, Any]:
    """A run's options that can change its numbers, and the fingerprint of its corpus.

    Left out are those of ``WITHOUT_EFFECT``, those of a graph that was not built, and those of other baselines.
    ``dataset.contents``, the fingerprint of the corpus, replaces ``dataset.path`` if it is known: a corpus that was
    moved is the same, and one that was changed in its place is not.
    """
    flat = flatten(OmegaConf.to_container(run.config))
    counted = {name: _without_seed_folder(value, run) for name, value in flat.items() if changes_numbers(name)}
    if run.is_baseline:
        own = f"baselines.{run.config.name}"
        others = [name for name in counted if name.startswith("baselines.") and not _is_below(name, (own,))]
        unread = [*others, *(name for name in counted if _is_below(name, OF_TRAINING))]
    else:
        unread = [name for name in counted if run.method == TEXT and _is_below(name, OF_THE_GRAPH)]
    counted = {name: value for name, value in counted.items() if name not in unread}
    counted = _with_protocols(counted)
    if run.fingerprint is not None:
        counted.pop("dataset.path", None)
        counted["dataset.contents"] = run.fingerprint
    return counted


def _with_protocols(counted: dict[str, Any]) -> dict[str, Any]:
    """Options with a list of the protocols of ranking, and without what only repeats it or another option.

    A protocol's name stands for the code that finds its queries. Its options count, except for those that take their
    value from an option of the same name: ``ranking.protocols.earlier.window_days`` from ``ranking.window_days``.
    """
    of_protocols = [name for name in counted if _is_below(name, (PROTOCOLS,)) and name != PROTOCOLS]
    if not of_protocols:
        return counted
    protocols = dict.fromkeys(name.split(".")[2] for name in of_protocols)
    kept: dict[str, Any] = {}
    for name, value in counted.items():
        if name not in of_protocols:
            kept[name] = value
            continue
        kept[PROTOCOLS] = list(protocols)
        own = name.split(".", 3)[3]  # ranking.protocols.earlier.window_days -> window_days
        repeated = [other for other in (own, f"ranking.{own}") if other in counted]
        if own not in ("_target_", "_partial_", "_recursive_") and all(counted[other] != value for other in repeated):
            kept[name] = value
    return kept


def mark_seeds(options: list[dict[str, Any]], seeds: list[int]) -> list[dict[str, Any]]:
    """Replaces values that follow the seed of their run, such as that of ``split.seed=${seed}``, by ``seed``.

    A resolved configuration has only the number, so all runs are compared: an option whose value equals the seed
    follows it, unless each such value also occurs with another seed. Then it is fixed.

    Args:
        options: The counted options of every run.
        seeds: The seed of every run.
    """
    names = {name for flat in options for name in flat if name.rsplit(".", 1)[-1] in SEED_OPTIONS}
    marked = [dict(flat) for flat in options]
    for name in names:
        values = [(flat[name], seed) for flat, seed in zip(options, seeds, strict=True) if name in flat]
        equal = {value for value, seed in values if value == seed}
        fixed = {value for value, seed in values if value != seed}
        if equal <= fixed:
            continue
        for flat, seed in zip(marked, seeds, strict=True):
            if name in flat and flat[name] == seed:
                flat[name] = FOLLOWS_SEED
    return marked


def comparable(value: Any) -> Any:
    """A hashable form for comparison: 1 equals 1.0, but neither ``True`` nor ``"1"``."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return ("number", float(value))
    if isinstance(value, list):
        return ("list", tuple(comparable(item) for item in value))
    return (type(value).__name__, repr(value))


def setting_key(options: dict[str, Any]) -> frozenset[tuple[str, Any]]:
    """A key that is equal for runs of one setting; a null option equals an absent one."""
    return frozenset((name, comparable(value)) for name, value in options.items() if value is not None)


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """``{"graph": {"pca_dim": 10}} -> {"graph.pca_dim": 10}``."""
    if not isinstance(value, dict):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for name, inner in value.items():
        flat |= flatten(inner, f"{prefix}.{name}" if prefix else str(name))
    return flat


def _is_below(name: str, sections: tuple[str, ...]) -> bool:
    return any(name == section or name.startswith(f"{section}.") for section in sections)


def _without_seed_folder(value: Any, run: Run) -> Any:
    """A path without the run's own seed folder, so that encoders of several seeds are one setting.

    ``outputs/a/seed_3/checkpoints`` becomes ``outputs/a/checkpoints`` for the run with seed 3.
    """
    if not isinstance(value, str):
        return value
    return SEED_FOLDER.sub(lambda match: "" if int(match[1]) == run.config.seed else match[0], value)
