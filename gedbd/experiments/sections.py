"""Refuses options of sections that the chosen task does not read, instead of ignoring them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from hydra.errors import HydraException
from hydra.utils import get_class
from omegaconf import DictConfig

from gedbd.configuration.option_types import plain_options

# What every run reads, or what belongs to the command.
READ_BY_ALL = frozenset(
    {"task", "dataset", "data_dir", "cache_dir", "seed", "seeds", "json", "logger", "trainer", "ckpt_path", "monitor"}
    | {"patience", "hydra", "bughub_subset"}  # the last one is of the datasets of bughub
)


@runtime_checkable
class DeclaresSections(Protocol):
    """A task that says which sections of ``conf/train.yaml`` it reads besides ``READ_BY_ALL``."""

    reads: frozenset[str]


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
    if not isinstance(task, DeclaresSections):
        return
    unread = [str(name) for name in cfg if name not in task.reads | READ_BY_ALL]
    for word in given:
        if _section(word) in unread:
            raise ValueError(f"task={choices['task']} does not use the section {_section(word)}: leave {word} out")
    if not unread:
        return
    options = plain_options(cfg)
    defaults = plain_options(compose([f"task={choices['task']}"]))
    for name in unread:
        # An experiment, or a group such as pairs, sets further sections.
        if options[name] != defaults.get(name):
            raise ValueError(
                f"task={choices['task']} does not use the section {name}: leave {_setter(name, given, compose)} out"
            )


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
    option = word.partition("=")[0].lstrip("+~")
    return (option.partition("@")[2] or option).partition(".")[0]
