"""The contract of training tasks. ``conf/task`` names the class of each."""

from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import pytorch_lightning as pl
from omegaconf import DictConfig
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import Logger
from rich.console import Console
from torch import nn

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
