"""The protocol of training tasks, and what the modules and data that Lightning trains share.

``conf/task`` names the class of each task.
"""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from hydra.utils import get_class, get_method
from matplotlib.figure import Figure
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import Logger
from rich.console import Console
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from gedbd.configuration.command_words import option_of, section_of
from gedbd.corpora.corpus import Corpus
from gedbd.evaluation.display_names import display_name
from gedbd.retrieval.ranking_tasks import Ranking, RankingTask

# The sections of ``conf/train.yaml`` that a training by Lightning reads.
TRAINING_SECTIONS = frozenset({"trainer", "callbacks", "monitor", "patience", "ckpt_path"})
# Sections that every run reads, or that belong to the command.
READ_BY_ALL = frozenset(
    {"task", "dataset", "data_dir", "cache_dir", "seed", "seeds", "json", "logger", "hydra"}
    | {"bughub_subset"}  # of the datasets of bughub
)


@dataclass(frozen=True)
class EvaluationResult:
    """The result of a run."""

    corpus: Corpus  # the reports
    parts: np.ndarray  # ``(N,)`` split of each report
    pairs: pd.DataFrame  # all pairs of the run
    predictions: pd.DataFrame  # scored pairs of ``val`` and of the reported split, with ids and titles
    part: str  # the reported split
    # column of scores of each method, by method id, see ``gedbd.evaluation.display_names``; the first method is the
    # run's own
    methods: Mapping[str, str]
    threshold: float  # lowest score of a predicted duplicate
    queries: Mapping[str, RankingTask] = field(default_factory=dict)  # the queries of the reported split, by protocol
    # rankings of the queries, by protocol and method id
    rankings: Mapping[str, Mapping[str, Ranking]] = field(default_factory=dict)
    tsne: pd.DataFrame | None = None  # a t-SNE projection of reports with ids and titles, if there are vectors
    # cosines of some pairs of titles, raw and reduced, if there is a graph
    title_cosines: tuple[np.ndarray, np.ndarray] | None = None
    # captions and figures, by name, that only this task has, such as ``tag_network``
    figures: Mapping[str, tuple[str, Figure]] = field(default_factory=dict)
    own_name: str | None = None  # display name of the run's own method, if it is not that of its id

    def name_of(self, method: str) -> str:
        """Name of a method for readers."""
        is_own = method == next(iter(self.methods))
        return self.own_name if self.own_name and is_own else display_name(method)

    def with_names(self, table: pd.DataFrame) -> pd.DataFrame:
        """A copy of a table to show: its column ``method`` holds names for readers."""
        return table.assign(method=table["method"].map(self.name_of))


def name_reports(table: pd.DataFrame, corpus: Corpus, first: str, second: str) -> pd.DataFrame:
    """Adds ids and titles of the reports whose row numbers are in the columns ``first`` and ``second``."""
    named = table.reset_index(drop=True)
    for number, column in enumerate((first, second), start=1):
        chosen = corpus.reports.iloc[named[column]]
        named[f"id_{number}"] = chosen["id"].to_numpy()
        named[f"title_{number}"] = chosen["title"].to_numpy()
    return named


class TrainingSetup(NamedTuple):
    """The data and the system that a trainer runs."""

    data: pl.LightningDataModule  # serves batches for training, validation and test
    system: pl.LightningModule  # the model. Logs ``val/loss``, ``val/threshold`` and the metrics of ``val``.
    corpus: Corpus  # the reports; its fingerprint is stored with the run
    ranked_protocols: tuple[str, ...]  # protocols of the ranking metrics that validation logs


class GivenObjects(NamedTuple):
    """Python objects that a training uses instead of, or besides, those of the configuration."""

    corpus: Corpus | None = None  # the reports, instead of those of the section ``dataset``; None for these
    loss: nn.Module | None = None  # the loss, instead of that of the section ``loss``; None for this
    callbacks: tuple[Callback, ...] = ()  # further callbacks
    loggers: tuple[Logger, ...] = ()  # further loggers


NO_OBJECTS = GivenObjects()


class Task(Protocol):
    """A training task. It reads its own sections of the configuration, so that no other code knows them."""

    def train(self, cfg: DictConfig, folder: Path, console: Console) -> float:
        """Trains, tests, and writes a run folder with ``results.csv``: one row per method, the run's own first.

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

        A test scores ``parts``, of which the last one is reported.

        Raises:
            ValueError: If options are invalid or contradict each other.
        """
        ...

    def result(self, setup: TrainingSetup) -> EvaluationResult:
        """The results of the trainer's last test."""
        ...


@runtime_checkable
class TakesObjects(SystemTask, Protocol):
    """A task that takes Python objects."""

    given: GivenObjects


@runtime_checkable
class DeclaresSections(Protocol):
    """A task that declares which sections of ``conf/train.yaml`` it reads besides ``READ_BY_ALL``.

    A task that Lightning trains reads ``TRAINING_SECTIONS`` too.
    """

    reads: frozenset[str]


@runtime_checkable
class DeclaresUnreadSections(Protocol):
    """A task that declares, for some of its options, which sections it does not read if the option is null."""

    unread_without: Mapping[str, frozenset[str]]


def check_sections(cfg: DictConfig, given: Sequence[str], choices: Mapping[str, str]) -> None:
    """Checks that the command line sets nothing that the task ignores; a task that declares no sections passes.

    Raises:
        ValueError: If an option of the command line is in a section that the task does not read, or is added to one
            whose function has no such argument.
    """
    task = get_class(cfg.task._target_)
    task_choice = f"task={choices['task']}"
    unread: dict[str, str] = {}  # the choice of a task or option that makes each section unread
    if isinstance(task, DeclaresUnreadSections):
        for option, sections in task.unread_without.items():
            if cfg.task.get(option) is None:
                unread |= dict.fromkeys(sections, f"{task_choice} with task.{option}=null")
    if isinstance(task, DeclaresSections):
        unread |= dict.fromkeys((str(name) for name in cfg if name not in task.reads | READ_BY_ALL), task_choice)
    for word in given:
        section = "trainer" if section_of(word) == "debug" else section_of(word)
        if section in unread:
            raise ValueError(f"{unread[section]} does not use the section {section}: leave {word} out")
        # What a section with _partial_ gets is otherwise refused only when the training calls it.
        holder, _, name = option_of(word).rpartition(".")
        node: Any = OmegaConf.select(cfg, holder) if word.startswith("+") and holder else None
        if OmegaConf.is_dict(node) and node.get("_partial_"):
            parameters = inspect.signature(get_method(node["_target_"])).parameters
            if name not in parameters:
                raise ValueError(f"{word}: {node['_target_']} has the arguments {', '.join(parameters)}: leave it out")


def process_of(data: pl.LightningDataModule) -> tuple[int, int]:
    """The number of this process, and the number of all that train on the data; 0 and 1 without a trainer."""
    return (data.trainer.global_rank, data.trainer.world_size) if data.trainer else (0, 1)


def batch_loader(data: pl.LightningDataModule, dataset: Dataset[Any], keys: Iterable[Any]) -> DataLoader[Any]:
    """A loader of a data set whose keys are whole batches, so that samplers can distribute batches over processes."""
    # A GPU copies from pinned memory while it computes.
    pinned = data.trainer is not None and data.trainer.strategy.root_device.type == "cuda"
    return DataLoader(dataset, batch_size=None, sampler=keys, pin_memory=pinned)


def fix_dropout(module: pl.LightningModule, seed: int, batch_idx: int) -> None:
    """Seeds the random numbers of a batch by seed, epoch, batch and process, so that a run can be resumed."""
    torch.manual_seed(hash((seed, module.current_epoch, batch_idx, module.global_rank)) % 2**63)


def show_loss(module: pl.LightningModule, loss: Tensor, batch: Any) -> None:
    """Shows the loss of a batch, which has ``n_id``, in the progress bar."""
    module.log("loss", loss, on_step=True, on_epoch=False, prog_bar=True, logger=False, batch_size=len(batch.n_id))
