"""Checks of a run's options: those of a resumed run are from its folder, and none is of a section its task ignores."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from hydra.errors import HydraException
from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf

from gedbd.configuration.allowed_targets import check_models, named_addresses, named_targets, use_own_caches
from gedbd.configuration.command_words import option_of
from gedbd.configuration.option_types import plain_options, shown
from gedbd.configuration.saved_options import CONFIG, read_saved, saved_options
from gedbd.io.checksums import check_whole

MAY_DIFFER = ("ckpt_path", "seeds", "trainer", "callbacks", "logger", "patience", "cache_dir", "data_dir", "json")
MACHINE_OPTIONS = ("cache_dir", "data_dir")  # other sections repeat them
SECTIONS = {"pairs": ["pairs", "batches", "batch_size"], "protocol": ["ranking"]}
CHOSEN_NAMES = ("ranking.protocols",)  # sections whose names the user chooses, so that a further one is a difference
# What every run reads, or what belongs to the command.
READ_BY_ALL = frozenset(
    {"task", "dataset", "data_dir", "cache_dir", "seed", "seeds", "json", "logger", "hydra"}
    | {"bughub_subset"}  # of the datasets of bughub
)


def check_resumable(cfg: DictConfig) -> None:
    """Checks that a checkpoint's run had the same options.

    Raises:
        ValueError: If there is no such checkpoint, or an option that affects the model or its data differs.
    """
    if not Path(cfg.ckpt_path).is_file():
        raise ValueError(f"ckpt_path={cfg.ckpt_path}: no such file; give checkpoints/last.ckpt of a run folder")
    now = OmegaConf.create(saved_options(cfg))
    _check_equal(now, _run_options(cfg), [str(key) for key in now if key not in MAY_DIFFER])


def resumed_options(
    cfg: DictConfig, given: Sequence[str], choices: Container[str], defaults: Callable[[], DictConfig]
) -> DictConfig:
    """The options of the run whose checkpoint is given, with those of the command line that may differ.

    Options that the run does not have keep their defaults.

    Args:
        cfg: The composed configuration, ``ckpt_path`` included.
        given: The command line: values (``patience=5``) and choices of groups (``trainer=gpu``).
        choices: Names of the groups.
        defaults: Composes the configuration without a command line.

    Raises:
        ValueError: If an option of the command line must not differ from the run's, but does.
    """
    now = OmegaConf.create(saved_options(cfg))
    saved = _run_options(cfg)
    resumed = now.copy()
    # The cache may be another one on this machine, and never changes a number.
    for key in saved.keys() & now.keys() - {"ckpt_path", "cache_dir"}:
        resumed[key] = saved[key]
    # Values that follow another option were not given by the user, so they are not compared.
    following = set(_interpolated(plain_options(cfg)))
    words = [(word, option_of(word)) for word in given]
    if any(option == "debug" for _, option in words):
        raise ValueError("debug= is for new runs: leave it out, or set the options of its file one by one")
    for _, option in words:
        section = _section(option)
        if section not in MAY_DIFFER:
            _check_equal(now, saved, _keys(option, now), following)
        elif option in choices:
            resumed[section] = _chosen(now[section], saved.get(section), defaults()[section])
    for word, option in words:
        if option in choices or option.partition(".")[0] not in MAY_DIFFER or word.startswith("~"):
            continue
        OmegaConf.update(resumed, option, OmegaConf.select(now, option), force_add=True)
    if any(option == "callbacks" for _, option in words):
        resumed.callbacks = now.callbacks  # a list of files replaces those of the run
    elif resumed.get("callbacks"):
        _repeat(resumed.callbacks, "patience", saved.get("patience"), resumed.patience)
    _check_addresses(now, resumed)
    # A file does not decide where metrics and options are sent.
    resumed.logger = now.get("logger")
    if saved.get("logger") and not resumed.logger and not any(option == "logger" for _, option in words):
        raise ValueError(
            f"ckpt_path={now.ckpt_path}: its run had a logger, which sends options and metrics: to send them again, set"
            " logger=wandb, otherwise logger=csv"
        )
    # The saved options are resolved: a section that repeats cache_dir, such as backend, has to follow it here.
    for name in MACHINE_OPTIONS:
        _repeat(resumed, name, saved.get(name), resumed[name])
    return resumed


def _check_addresses(now: DictConfig, resumed: DictConfig) -> None:
    """Raises ValueError if the run would use an address that the command line does not name; see ``keep_local``."""
    for key, address in named_addresses(plain_options(resumed)):
        if address != OmegaConf.select(now, key):
            again = f"{'backend=ray ' if key == 'backend.address' else ''}{key}={address}"
            raise ValueError(f"ckpt_path={now.ckpt_path}: its run used {address}; to use it again, set {again}")


def _run_options(cfg: DictConfig) -> DictConfig:
    """The options of the run whose checkpoint a configuration names; they may name its targets and models."""
    path = Path(cfg.ckpt_path)
    folder, given = path.parent.parent, plain_options(cfg)
    saved = plain_options(read_saved(folder, also=named_targets(given), left_out=()))
    check_models(saved, str(folder / CONFIG), given)
    use_own_caches(saved)
    check_whole(path)
    return OmegaConf.create(saved_options(OmegaConf.create(saved)))


def _keys(option: str, now: DictConfig) -> list[str]:
    """The options that an option of the command line sets: with ``experiment=`` all that must not differ."""
    name = option.partition("@")[2] or option
    whole = [str(key) for key in now if key not in MAY_DIFFER]
    return SECTIONS.get(name, [name] if name.partition(".")[0] in now else whole)


def _interpolated(options: dict[str, Any], above: str = "") -> Iterator[str]:
    """Dotted names of options whose value follows another option."""
    for name, value in options.items():
        if isinstance(value, dict):
            yield from _interpolated(value, f"{above}{name}.")
        elif isinstance(value, str) and "${" in value:
            yield f"{above}{name}"


def _check_equal(now: DictConfig, saved: DictConfig, keys: Sequence[str], passed: Container[str] = ()) -> None:
    """Raises ValueError for the first option that differs from the run's.

    Options that the run does not have, and those in ``passed``, are not compared.
    """
    for key in keys:
        if key.partition(".")[0] not in saved:
            continue
        for name, asked, used in _differences(key, OmegaConf.select(now, key), OmegaConf.select(saved, key)):
            if name in passed:
                continue
            raise ValueError(
                f"ckpt_path={now.ckpt_path}: its run had {name}={shown(used)}, this one has {shown(asked)}: leave the"
                " option out to take the run's, or start a new run"
            )


def _differences(name: str, asked: Any, used: Any) -> Iterator[tuple[str, Any, Any]]:
    """Names of options that differ, with both values; the option ``name`` of a section comes first."""
    if not (OmegaConf.is_dict(asked) and OmegaConf.is_dict(used)):
        if asked != used:
            yield name, asked, used
        return
    if name in CHOSEN_NAMES and list(asked) != list(used):
        yield name, list(asked), list(used)
        return
    for key in sorted(used, key=lambda key: key != "name"):
        yield from _differences(f"{name}.{key}", asked.get(key), used[key])


def _chosen(now: DictConfig, saved: DictConfig | None, defaults: DictConfig) -> DictConfig:
    """A section from a chosen file; options that the file leaves at their defaults keep the run's values."""
    chosen = now.copy()
    for name in now:
        if saved and name in saved and name in defaults and now[name] == defaults[name]:
            chosen[name] = saved[name]
    return chosen


def _repeat(section: DictConfig, name: str, old: Any, new: Any) -> None:
    """Replaces the old value of an option in the sections that repeat it."""
    for key in section:
        if key == name and section[key] == old:
            section[key] = new
        elif OmegaConf.is_dict(section[key]):
            _repeat(section[key], name, old, new)


@runtime_checkable
class DeclaresSections(Protocol):
    """A task that says which sections of ``conf/train.yaml`` it reads besides ``READ_BY_ALL``.

    One that Lightning trains reads ``TRAINING_SECTIONS`` too.
    """

    reads: frozenset[str]


@runtime_checkable
class DeclaresUnreadSections(Protocol):
    """A task that says which of its sections it leaves unread if an option of its own is null, by this option."""

    unread_without: Mapping[str, frozenset[str]]


def check_sections(
    cfg: DictConfig, given: Sequence[str], choices: Mapping[str, str], compose: Callable[[list[str]], DictConfig]
) -> None:
    """Checks that the command line sets nothing which the task would ignore.

    A task that does not declare its sections is not checked.

    Args:
        cfg: The composed configuration, not resolved.
        given: The command line: values (``patience=5``) and choices of groups (``trainer=gpu``).
        choices: The chosen file of each group.
        compose: Composes the configuration with a command line.

    Raises:
        ValueError: If an option of the command line, or of an experiment, is in a section that the task does not read.
    """
    task = get_class(cfg.task._target_)
    chosen = f"task={choices['task']}"
    if isinstance(task, DeclaresSections):
        unread = [str(name) for name in cfg if name not in task.reads | READ_BY_ALL]
        _check_unread(cfg, unread, chosen, [chosen], given, compose)
    if isinstance(task, DeclaresUnreadSections):
        # An experiment may set what its task reads, before the command line sets the option to null.
        kept = [word for word in given if _section(word) in ("task", "experiment")]
        for option, sections in task.unread_without.items():
            if cfg.task.get(option) is None:
                _check_unread(cfg, sorted(sections), f"{chosen} with task.{option}=null", kept, given, compose)


def _check_unread(
    cfg: DictConfig,
    unread: Sequence[str],
    chosen: str,
    kept: list[str],
    given: Sequence[str],
    compose: Callable[[list[str]], DictConfig],
) -> None:
    """Raises ValueError if a section that is not read differs from what it is with the words ``kept`` alone."""
    for word in given:
        if _section(word) in unread:
            raise ValueError(f"{chosen} does not use the section {_section(word)}: leave {word} out")
    if not unread:
        return
    options = plain_options(cfg)
    defaults = plain_options(compose(kept))
    for name in unread:
        # An experiment, or a group such as pairs, sets further sections. What a sweep changes in a job was not given.
        if options[name] != defaults.get(name) != plain_options(compose(list(given)))[name]:
            raise ValueError(f"{chosen} does not use the section {name}: leave {_setter(name, given, compose)} out")


def _setter(section: str, given: Sequence[str], compose: Callable[[list[str]], DictConfig]) -> str:
    """The word of the command line without which a section would be another."""
    options = plain_options(compose(list(given)))[section]
    for word in given:
        others = [other for other in given if other != word]
        try:
            composed = compose(others)
        except HydraException:  # another word changes or deletes what this one adds
            continue
        if plain_options(composed).get(section) != options:
            return word
    return f"what sets {section}"


def _section(word: str) -> str:
    """``graph`` for ``graph=knn``, ``graph.pca_dim=5`` and ``+encoder@graph.titles=bert``."""
    option = option_of(word)
    return (option.partition("@")[2] or option).partition(".")[0]
