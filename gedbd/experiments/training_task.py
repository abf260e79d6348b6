"""The contract of training tasks. ``conf/task`` names the class of each."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import pytorch_lightning as pl
from hydra.utils import get_class
from omegaconf import DictConfig
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import Logger
from rich.console import Console
from torch import nn

from gedbd.configuration.command_words import section_of
from gedbd.configuration.option_types import plain_options
from gedbd.corpora.corpus import Corpus
from gedbd.experiments.evaluation_result import EvaluationResult


class TrainingSetup(NamedTuple):
    """What a trainer runs.

    Attributes:
        data: Serves batches for training, validation and test.
        system: The model. Logs ``val/loss``, ``val/threshold`` and the metrics of ``val``.
        corpus: The reports; its fingerprint is stored with the run.
        ranked_protocols: Protocols of the ranking metrics that validation logs.
    """

    data: pl.LightningDataModule
    system: pl.LightningModule
    corpus: Corpus
    ranked_protocols: tuple[str, ...]


class GivenObjects(NamedTuple):
    """Objects in Python that a training takes instead of, or besides, those of the configuration.

    Attributes:
        corpus: The reports, instead of those of the section ``dataset``; None for these.
        loss: Instead of that of the section ``loss``, likewise.
        callbacks: Further callbacks.
        loggers: Further loggers.
    """

    corpus: Corpus | None = None
    loss: nn.Module | None = None
    callbacks: tuple[Callback, ...] = ()
    loggers: tuple[Logger, ...] = ()


NO_OBJECTS = GivenObjects()

# The sections of ``conf/train.yaml`` that a training by Lightning reads.
TRAINING_SECTIONS = frozenset({"trainer", "callbacks", "monitor", "patience", "ckpt_path"})
# What every run reads, or what belongs to the command.
READ_BY_ALL = frozenset(
    {"task", "dataset", "data_dir", "cache_dir", "seed", "seeds", "json", "logger", "hydra"}
    | {"bughub_subset"}  # of the datasets of bughub
)


class Task(Protocol):
    """A training task. It reads its own sections of the configuration, so that no other code knows them."""

    def train(self, cfg: DictConfig, folder: Path, console: Console) -> float:
        """Trains, tests, and leaves a run folder with ``results.csv``: one row a method, the run's own first.

        Args:
            cfg: The composed configuration of ``conf/train.yaml``.
            folder: The run folder.
            console: Where results and warnings go.

        Returns:
            The value on validation that sweeps compare: the higher, the better.

        Raises:
            ValueError: If options are invalid or contradict each other.
            KeyboardInterrupt: If Ctrl-C was pressed.
        """
        ...


@runtime_checkable
class SystemTask(Task, Protocol):
    """A task whose system Lightning trains, see ``gedbd.experiments.run_training.train_system``."""

    def build(self, cfg: DictConfig, console: Console, parts: tuple[str, ...] = ("val", "test")) -> TrainingSetup:
        """Assembles data and system, and refuses invalid options before the long work.

        Args:
            cfg: The composed configuration of ``conf/train.yaml``.
            console: Where warnings go.
            parts: The parts that a test scores; the last one is reported.

        Raises:
            ValueError: If options are invalid or contradict each other.
        """
        ...

    def result(self, setup: TrainingSetup) -> EvaluationResult:
        """What the trainer's last test has measured."""
        ...


@runtime_checkable
class TakesObjects(SystemTask, Protocol):
    """A task that takes objects in Python."""

    given: GivenObjects


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
    cfg: DictConfig,
    given: Sequence[str],
    choices: Mapping[str, str],
    compose: Callable[[Sequence[str]], DictConfig],
) -> None:
    """Checks that the command line sets nothing that the task ignores; a task that declares no sections passes.

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

    def refuse_unread(unread: Sequence[str], subject: str, kept: Sequence[str]) -> None:
        for word in given:
            if section_of(word) in unread:
                raise ValueError(f"{subject} does not use the section {section_of(word)}: leave {word} out")
        # The file of a group, such as pairs=pk or experiment=, may set further sections.
        files = [word for word in given if word not in kept and word.partition("=")[0].lstrip("+") in choices]
        if not (files and unread):
            return
        options, defaults = plain_options(compose(given)), plain_options(compose(kept))
        for name in unread:
            if options[name] != defaults.get(name):
                setters = [word for word in files if plain_options(compose([*kept, word]))[name] != defaults.get(name)]
                what = next(iter(setters), f"what sets {name}")
                raise ValueError(f"{subject} does not use the section {name}: leave {what} out")

    if isinstance(task, DeclaresSections):
        unread = [str(name) for name in cfg if name not in task.reads | READ_BY_ALL]
        refuse_unread(unread, chosen, [chosen])
    if isinstance(task, DeclaresUnreadSections):
        # An experiment may set what its task reads, before the command line sets the option to null.
        kept = [word for word in given if section_of(word) in ("task", "experiment")]
        for option, sections in task.unread_without.items():
            if cfg.task.get(option) is None:
                refuse_unread(sorted(sections), f"{chosen} with task.{option}=null", kept)
