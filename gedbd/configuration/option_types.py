"""The schema of options: their types, the bounds of numbers, and which of them are paths.

``conf/`` declares the options, and their defaults declare the types: a value on the command line must have the type of
its default. A default of null has no type, so ``OPTIONS`` names the options that are numbers, and ``PATHS`` those that
are paths. Code that receives checked options does not check them again.
"""

import inspect
import math
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatch
from typing import Any, NamedTuple

from omegaconf import MISSING, DictConfig, ListConfig, OmegaConf
from omegaconf.errors import InterpolationResolutionError

COMPUTED = re.compile(r"\$\{(?!oc\.)([\w.]+):")  # a resolver of Hydra or gedbd: hydra, auto_precision, ...
NO_LIMIT = {"trainer.max_epochs": -1}  # Lightning trains until early stopping
NULLABLE = (
    "dataset.suffixes",
    "pairs.negatives_in_evaluation",
    "task.gradient_clip_val",
    "text.tokens.*",
    "trainer.gradient_clip_val",
)
FRACTIONAL = ("*timeout_s", "max_wait_s", "max_megabytes", "max_megapixels", "trainer.limit_*", "graph.rule.power")
ANY_TYPE = ("dataset.*columns.*", "ranking.parts", "split.*_from", "trainer.devices")
PATHS = (
    "against",
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
    "second",
    "text.captions",
    "verdicts",
)
# Further options that name a file or a folder, by their last name.
PATH_NAMES = (
    *("adapter", "cache_dir", "data_dir", "dir", "image_dir", "links", "locate_run", "model", "path", "paths", "repo"),
)
# Arguments of Lightning's Trainer that gedbd sets itself or does not support.
REFUSED = {
    "callbacks": "choose callbacks=[early_stopping,lr_monitor], or add +callbacks.NAME={_target_: package.Class}",
    "logger": "choose logger=[wandb,tensorboard], or add +logger.NAME={_target_: package.Class}",
    "default_root_dir": "set the run folder by hydra.run.dir=",
    "use_distributed_sampler": "the batch samplers distribute batches over processes themselves",
    "num_sanity_val_steps": "the threshold would be chosen on only some of the pairs; debug=fdr is a quick check",
    "fast_dev_run": "evaluation needs the vectors of all reports; choose debug=fdr",
    "overfit_batches": "evaluation needs the vectors of all reports; choose debug=overfit",
    "enable_checkpointing": "gedbd tests the best checkpoint",
    "barebones": "gedbd tests the best checkpoint",
}
UNUSED: dict[str, tuple[Any, ...]] = {  # values that change nothing
    "num_sanity_val_steps": (0,),
    "fast_dev_run": (False,),
    "overfit_batches": (0,),
    "enable_checkpointing": (True,),
    "barebones": (False,),
    "use_distributed_sampler": (False,),
}
AT_LEAST_ONE = ("limit_train_batches", "limit_val_batches", "limit_test_batches", "max_steps")
SIDES = ("run", "against")  # of a comparison: each may be a list of paths


class Bounds(NamedTuple):
    """The numbers that an option may have."""

    low: float = -math.inf  # the lowest number
    high: float = math.inf  # the highest number
    whole: bool = False  # whether only whole numbers are allowed
    above: bool = False  # whether ``low`` itself is excluded
    below: bool = False  # whether ``high`` itself is excluded

    def problem(self, value: Any) -> str | None:
        """What a value must be; None if it is within the bounds."""
        if not _is_number(value, self.whole):
            return "a whole number" if self.whole else "a number"
        too_low = value < self.low or (self.above and value == self.low)
        too_high = value > self.high or (self.below and value == self.high)
        if not (too_low or too_high):
            return None
        limits = [] if self.low == -math.inf else [f"above {self.low:g}" if self.above else f"{self.low:g} or more"]
        if self.high < math.inf:
            limits.append(f"below {self.high:g}" if self.below else f"at most {self.high:g}")
        return " and ".join(limits)


# The options with bounds, section by section.
OPTIONS: dict[Bounds, str] = {
    Bounds(0, whole=True): """
        batches.hard_negatives batches.skip_nearest captioner.max_retries connections.keep_alive_s
        connections.shutdown_grace_s llm.max_retries max_hunks max_places pairs.fill_to pairs.random_negatives
        patience scheduler.warmup_steps seed settings.changes_waiting settings.searches_waiting
    """,
    Bounds(1, whole=True): """
        adapter_rank batch_size batches.batch_size batches.batches_per_epoch batches.neighbours captioner.concurrency
        captioner.max_new_tokens captioner.max_side chunk_tokens connections.max_connections dataset.last_n
        dataset.max_diff_chars dataset.max_file_kb dataset.max_files dataset.max_method_lines encoder.dim
        encoder.hidden encoder.layers encoder.max_tokens encoder.truncate_dim graph.max_title_tokens graph.rule.k judge
        line llm.concurrency llm.depth llm.max_calls llm.max_characters max_diff_chars max_files max_replayed seeds
        settings.max_body_bytes settings.searches_at_once split.max_val tags.dim tags.epochs tags.min_count tags.walks
        tags.window task.backtest.judge task.backtest.max_replayed task.dim task.model.settings.bank_size
        task.model.settings.dim task.model.settings.num_layers task.model.settings.projector_hidden
        task.model.val_candidates task.neighbours task.seeds trainer.accumulate_grad_batches trainer.max_epochs
        trainer.num_nodes webhook.max_waiting webhook.suggestions
    """,
    Bounds(2, whole=True): "graph.rule.max_reports min_reports tags.length train_tokens",
    Bounds(3, whole=True): "split.folds",
    Bounds(10, whole=True): "max_learnt",
    Bounds(300, whole=True): "encoder.vocab_size",  # 256 bytes and the special tokens
    Bounds(0, 65535, whole=True): "port",
    Bounds(0, 50, whole=True): "top_commits",
    Bounds(1, 50, whole=True): "top_k",
    Bounds(1678, 2261, whole=True): "split.year",  # the range of pandas timestamps
    Bounds(0): """
        batches.power graph.rule.power optimizer.head_lr optimizer.lr optimizer.weight_decay
        pairs.negatives_in_evaluation pairs.negatives_per_positive task.model.settings.bank_level
        task.model.settings.feature_level task.model.settings.model_level task.weights.alignment task.weights.edge
        task.weights.mlm task.weights.role task.gradient_clip_val task.weights.type trainer.gradient_clip_val
    """,
    Bounds(0, above=True): """
        batches.negatives_per_positive captioner.timeout graph.field_weight llm.timeout loss.temperature
        max_megabytes max_megapixels settings.timeout_s suspects.update_s
        task.model.settings.temperature webhook.deadline_s webhook.timeout_s
    """,
    Bounds(0, 1): "batches.hard fusion.lambda_text task.model.hard",
    Bounds(0, 0.9): "batches.singletons",
    Bounds(0, 1, below=True): """
        graph.dropout ranking.protocols.candidate_sets.min_jaccard tags.min_jaccard task.model.settings.momentum
    """,
    Bounds(0, 1, above=True): "labels.fraction",
    Bounds(0, 1, above=True, below=True): """
        confidence_level target target_precision task.backtest.confidence_level task.backtest.target_precision
        split.val_share task.shares.nodes task.shares.tokens task.val_share webhook.target_precision
    """,
    Bounds(-1, 1): "ranking.protocols.candidate_sets.min_cosine task.alpha",
    Bounds(0.01, 100): "tags.p tags.q",  # beyond these nearly all proposed steps would be rejected
    Bounds(0, 36_500, above=True): "ranking.window_days split.val_days",
}
BOUNDS = {name: bounds for bounds, names in OPTIONS.items() for name in names.split()}


def plain_options(cfg: DictConfig) -> dict[str, Any]:
    """The unresolved options of a command, without Hydra's own."""
    plain = OmegaConf.to_container(OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"]))
    assert isinstance(plain, dict)
    return {str(name): value for name, value in plain.items()}


def names_path(option: str) -> bool:
    """Whether an option, such as ``dataset.path``, names a file or a folder."""
    return option in PATHS or option.rpartition(".")[2] in PATH_NAMES


def dotted_names(options: dict[str, Any], above: str = "") -> Iterator[str]:
    """Dotted names of sections and options."""
    for name, value in options.items():
        yield f"{above}{name}"
        if isinstance(value, dict):
            yield from dotted_names(value, f"{above}{name}.")


def check_types(cfg: DictConfig, defaults: DictConfig) -> None:
    """Compares the types of options with those of their defaults.

    ``defaults`` are composed without the values of the command line.

    Raises:
        ValueError: If a value has another type than its default, or refers to an option that does not exist.
    """
    for key, written, default in _changed(plain_options(cfg), plain_options(defaults)):
        value = _resolve(cfg, key, written)
        problem = _problem(key, value, _resolve(defaults, key, default))
        if problem and not (isinstance(written, str) and COMPUTED.search(written)):
            raise ValueError(f"{key}={written_value(value)} must be {problem}")


def check_values(cfg: DictConfig) -> None:
    """Checks the numbers of ``BOUNDS`` and the paths of ``PATHS`` that the command has; null is always valid.

    Raises:
        ValueError: If a value is not a number within its bounds, or not a path.
    """
    for key in dotted_names(plain_options(cfg)):
        if key in BOUNDS:
            value = _known(cfg, key)
            problem = None if value is None or value == NO_LIMIT.get(key) else BOUNDS[key].problem(value)
            if problem:
                raise ValueError(f"{key}={written_value(value)} must be {problem}")
        elif key in PATHS:
            paths = _known(cfg, key)
            is_list = isinstance(paths, ListConfig) and key in SIDES and set(SIDES) <= set(cfg)
            if isinstance(paths, str | None) or (is_list and {type(path) for path in paths} == {str}):
                continue
            value = written_value(paths)
            cure = ", or a list of paths" if is_list else f": write ./{value} if that is its name"
            raise ValueError(f"{key}={value} must be a path{cure}")


def written_value(value: Any) -> str:
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
        example = written_value(default) if len(default) else "[a, b]"
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
    """An option's value; None for a value that Hydra or a resolver sets later."""
    computed = COMPUTED.search(written) if isinstance(written, str) else None
    if written == MISSING or (computed and (computed[1] == "hydra" or OmegaConf.has_resolver(computed[1]))):
        return None
    try:
        return OmegaConf.select(cfg, key)
    except InterpolationResolutionError as error:
        raise ValueError(f"{key}={written}: {interpolation_problem(error)}") from error


def interpolation_problem(error: InterpolationResolutionError) -> str:
    """Why ``${...}`` has no value, and what to do."""
    reason = str(error).partition("\n")[0]
    option = re.search(r"Interpolation key '(.+)' not found", reason)
    variable = re.search(r"Environment variable '(.+)' not found", reason)
    resolver = re.search(r"Unsupported interpolation type (.+)", reason)
    if option:
        return f"there is no option {option[1]} to take the value from: --cfg job lists the options"
    if variable:
        return f"the environment variable {variable[1]} is not set: set it, or write ${{oc.env:{variable[1]},DEFAULT}}"
    if resolver:
        return f"there is no function {resolver[1]}: write an option's name, as in ${{seed}}, or ${{oc.env:NAME}}"
    return f"its value cannot be computed ({reason})"


def unknown_trainer_option(word: str, names: Sequence[str]) -> str:
    """The message for an option of the section ``trainer`` that its file does not list."""
    name = word.partition("=")[0].removeprefix("trainer.")
    if name in REFUSED:
        return f"trainer.{name}= cannot be set: {REFUSED[name]}"
    from pytorch_lightning import Trainer

    parameters = list(inspect.signature(Trainer).parameters)
    if name in parameters:
        return f"trainer.{name}= is an argument of Lightning's Trainer that conf/trainer does not list: write +{word}"
    near = get_close_matches(name, parameters, n=1)
    sign = "" if near and f"trainer.{near[0]}" in names else "+"
    hint = f"did you mean {sign}trainer.{near[0]}?" if near else "--help lists the options"
    return f"unknown option trainer.{name}: {hint} (to add an argument of Lightning's Trainer: +trainer.NAME=)"


def check_whole_evaluation(trainer: DictConfig) -> None:
    """Raises ValueError if some validation or test batches are left out: evaluation ranks all reports."""
    for name in ("limit_val_batches", "limit_test_batches"):
        value = trainer.get(name)
        # Of Lightning's two meanings, 1.0 is all batches, and 1 is one batch.
        if value is not None and not (isinstance(value, float) and value == 1):
            raise ValueError(
                f"trainer.{name}={value} cannot be set: evaluation needs the vectors of all reports; to train on fewer"
                " batches, choose debug=limit or set +trainer.limit_train_batches="
            )


def check_trainer(trainer: DictConfig) -> None:
    """Raises ValueError if an option of ``conf/trainer`` asks for something that gedbd does not support."""
    for name, instead in REFUSED.items():
        if name in trainer and trainer[name] not in UNUSED.get(name, ()):
            raise ValueError(f"trainer.{name}= cannot be set: {instead}")
    for name in AT_LEAST_ONE:
        if trainer.get(name) == 0:
            raise ValueError(f"trainer.{name}=0: a run trains, validates and tests; gedbd baseline does not train")
    every, epochs = trainer.get("check_val_every_n_epoch", 1), trainer.max_epochs
    if every is None or 0 < epochs < every:
        raise ValueError(
            f"trainer.check_val_every_n_epoch={every}: no epoch of {epochs} is validated, so there is no best epoch"
        )
