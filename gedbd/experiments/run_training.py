"""Trains any system with Lightning: its trainer, loggers and checkpoints, and the end of an interrupted run."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning.callbacks import (
    Callback,
    DeviceStatsMonitor,
    EarlyStopping,
    LearningRateMonitor,
    ModelCheckpoint,
)
from pytorch_lightning.loggers import CSVLogger, Logger
from pytorch_lightning.profilers import Profiler
from rich.console import Console

from gedbd.configuration.option_types import check_whole_evaluation
from gedbd.corpora.corpus import ChangeCorpus, Corpus
from gedbd.experiments.callbacks import (
    AveragedWeights,
    EpochProgressBar,
    EpochPruning,
    EpochTable,
    FiniteValues,
    LastStepValidation,
    check_monitor,
    configured_callbacks,
    direction,
    may_be_own,
    value_of_best,
)
from gedbd.experiments.distributed import all_end_together, is_first, waiting_lines
from gedbd.experiments.loggers import open_loggers
from gedbd.experiments.prepare import AUTO, check_ranking
from gedbd.experiments.resuming import (
    TerminationHandler,
    check_continues,
    keyboard_interrupts,
    readable_checkpoint,
    save_whole,
    trained_epochs,
)
from gedbd.experiments.run_folder import save_run
from gedbd.experiments.run_results import report, show_verdict
from gedbd.experiments.sweep_jobs import TRIAL
from gedbd.experiments.training_summary import TrainingTime, data_line, model_line
from gedbd.experiments.training_task import NO_OBJECTS, GivenObjects, SystemTask
from gedbd.io.console import is_quiet, print_detail, print_path, stage
from gedbd.retrieval.ranking_tasks import metric_names


@contextmanager
def trained(
    system: pl.LightningModule,
    data: pl.LightningDataModule,
    corpus: Corpus | ChangeCorpus,
    cfg: DictConfig,
    folder: Path,
    callbacks: list[Callback],
    console: Console,
    more_loggers: Sequence[Logger] = (),
) -> Iterator[list[Logger]]:
    """Trains a system, tests its best checkpoint, and yields the loggers; the block writes the results.

    Afterwards the processes of a distributed run wait for the one that writes. ``callbacks`` are those of
    ``training_callbacks`` and further ones; ``more_loggers`` are besides those of the section ``logger``. In the block,
    the system holds the weights of the best checkpoint.

    Raises:
        KeyboardInterrupt: If Ctrl-C was pressed; the last finished epoch is saved in ``checkpoints/last.ckpt``.
        ValueError: If a loss or a weight is no longer finite, another process of a distributed run has ended, or the
            checkpoint to continue from belongs to another model or corpus.
    """
    with open_loggers(cfg, folder, "train") as configured, keyboard_interrupts():
        loggers = [*configured, *more_loggers]
        trainer = make_trainer(
            cfg,
            folder,
            console,
            [LastStepValidation(), *callbacks],
            bar=EpochProgressBar(),
            logger=loggers or steps_logger(callbacks, folder),
            default_root_dir=folder,
            num_sanity_val_steps=0,  # the threshold would be chosen on only some of the pairs
        )
        for line in waiting_lines(trainer, sys.argv[1:], folder):
            print(line, flush=True)
        if cfg.ckpt_path:
            check_continues(Path(cfg.ckpt_path), system, corpus)
        if trainer.is_global_zero:
            save_run(folder, cfg, corpus)
            best = "lowest" if direction(cfg.monitor) == "min" else "highest"
            if not is_quiet():
                print_path(console, "run folder:", folder)
            print_detail(console, f"the best epoch has the {best} {cfg.monitor}")
        with all_end_together(trainer):
            with stage("train"):
                trainer.fit(system, data, ckpt_path=cfg.ckpt_path)
            with stage("test the best checkpoint"):
                trainer.test(system, data, ckpt_path=folder / "checkpoints" / "best.ckpt", verbose=False)
            yield loggers
            trainer.strategy.barrier()  # the other processes read the files that the first one has written


def training_callbacks(cfg: DictConfig, folder: Path, console: Console, compared: str = "val/f1") -> list[Callback]:
    """The configured callbacks, the table of epochs, and the best and the last checkpoint, in this order.

    Optuna prunes a trial by the metric ``compared``: the higher, the better.

    Raises:
        ValueError: If an entry of ``callbacks`` is not a callback.
    """
    folder_of_weights = folder / "checkpoints"
    checkpoint = partial(ModelCheckpoint, folder_of_weights, enable_version_counter=False)
    # Not every epoch has a value of the metric if not every epoch is validated.
    at_epoch_end = True if cfg.trainer.get("check_val_every_n_epoch", 1) == 1 else None
    best = checkpoint(
        "best",
        monitor=cfg.monitor,
        mode=direction(cfg.monitor),
        save_weights_only=True,
        save_on_train_epoch_end=at_epoch_end,
    )
    # Lightning calls callbacks in this order, but all Checkpoint subclasses after the others. Early stopping reads what
    # the other ones log.
    configured = configured_callbacks(cfg.callbacks, folder_of_weights)
    trial_id, _, storage = os.environ.get(TRIAL, "").partition("@")  # set in jobs that are trials
    return [
        *sorted(configured, key=lambda callback: isinstance(callback, EarlyStopping)),
        TrainingTime(model_line(cfg, folder), console),
        EpochTable(folder / "metrics.csv", cfg.monitor, console),
        *([EpochPruning(int(trial_id), storage, compared)] if storage else []),
        best,
        checkpoint("last", save_on_train_epoch_end=True),
    ]


def refit(task: SystemTask, cfg: DictConfig, epochs: int, folder: Path, console: Console, alone: bool = False) -> None:
    """Trains from the start for a number of epochs without validation, and writes ``checkpoints/refit.ckpt``.

    An interrupted training continues from its last epoch; a finished one is not repeated. The callbacks of the section
    ``callbacks`` are used, except early stopping; they write to ``refit/`` in the run folder. A training that is
    ``alone``, with no other before it, writes the run's options and a row of ``metrics.csv`` for each epoch too.

    Raises:
        KeyboardInterrupt: If Ctrl-C was pressed; the last finished epoch is saved.
    """
    check_last_training(configured_callbacks(cfg.callbacks, folder))
    weights = folder / "checkpoints" / "refit.ckpt"
    if weights.is_file() and trained_epochs(weights) == epochs:
        return
    if is_first() and not alone:
        print_detail(console, f"train again, on the training and validation sets; epochs: {epochs}")
    setup = task.build(cfg, console, ())
    # A folder for each number of epochs: a run that is trained further may find another epoch best.
    refit_folder = folder / "refit" / f"{epochs}_epochs"
    last = ModelCheckpoint(
        refit_folder / "checkpoints", filename="last", save_on_train_epoch_end=True, enable_version_counter=False
    )
    configured = configured_callbacks(cfg.callbacks, refit_folder / "checkpoints")
    callbacks = [callback for callback in configured if not isinstance(callback, EarlyStopping)]
    if alone:
        callbacks += [
            TrainingTime(model_line(cfg, folder), console),
            EpochTable(folder / "metrics.csv", cfg.monitor, console),
        ]
        if is_first():
            print_detail(console, data_line(cfg, setup))
            save_run(folder, cfg, setup.corpus)
    with keyboard_interrupts():
        trainer = make_trainer(
            cfg,
            refit_folder,
            console,
            [*callbacks, last],
            max_epochs=epochs,
            logger=steps_logger(callbacks, refit_folder),
            default_root_dir=folder,
            limit_val_batches=0,
            bar=EpochProgressBar() if alone else None,
        )
        with all_end_together(trainer):
            trainer.fit(setup.system, setup.data, ckpt_path=readable_checkpoint(refit_folder))
            trainer.save_checkpoint(weights, weights_only=True)


def steps_logger(callbacks: Sequence[Callback], folder: Path) -> list[Logger]:
    """A logger that writes ``steps/metrics.csv`` into a folder, if a callback needs one; an empty list otherwise."""
    needs_logger = any(isinstance(callback, LearningRateMonitor | DeviceStatsMonitor) for callback in callbacks)
    return [CSVLogger(folder, name="", version="steps")] if needs_logger else []


def make_trainer(
    cfg: DictConfig,
    folder: Path,
    console: Console,
    callbacks: Sequence[Callback],
    bar: Callback | None = None,
    **options: Any,
) -> pl.Trainer:
    """The configured trainer, with the callbacks that every training has.

    A profiler writes ``fit-profile.txt`` into ``folder``, unless its options name another path.
    """
    shows_progress = cfg.trainer.get("enable_progress_bar", True) and not (console.quiet or is_quiet())
    bars = [bar] if bar is not None and shows_progress else []
    trainer: pl.Trainer = instantiate(
        cfg.trainer,
        callbacks=[FiniteValues(), TerminationHandler(), *callbacks, *bars],
        use_distributed_sampler=False,  # the batch samplers distribute batches over processes themselves
        enable_progress_bar=shows_progress,
        **options,
    )
    save_whole(trainer)
    if cfg.trainer.get("profiler"):
        # Without a folder and a name, Lightning's profilers write to its log, which is not shown.
        profiler: Profiler = trainer.profiler  # type: ignore[attr-defined]
        profiler.dirpath = profiler.dirpath or folder
        profiler.filename = profiler.filename or "profile"
    return trainer


def check_last_training(callbacks: Sequence[Callback]) -> None:
    """Raises ValueError if a callback needs validations, of which the last training (``refit``) has none."""
    instead = ", of which the last training has none: set task.refit=false"
    for callback in callbacks:
        if isinstance(callback, AveragedWeights):
            raise ValueError(f"callbacks=swa averages at validations{instead}")
        monitor = callback.monitor if isinstance(callback, ModelCheckpoint) else None
        if monitor and monitor.startswith("val/"):
            raise ValueError(f"callbacks=model_checkpoint: monitor={monitor} is measured at validations{instead}")


def train_system(
    task: SystemTask, cfg: DictConfig, folder: Path, console: Console, objects: GivenObjects = NO_OBJECTS
) -> float:
    """Trains a task's system, writes the run folder, and returns the best checkpoint's validation F1.

    Raises:
        KeyboardInterrupt: If Ctrl-C was pressed; the last finished epoch is saved in ``checkpoints/last.ckpt``.
        ValueError: If options contradict each other.
    """
    check_ranking(cfg.ranking)
    check_whole_evaluation(cfg.trainer)
    ranker_metrics: tuple[str, ...] = ()
    if cfg.ranking.ranker:
        from gedbd.retrieval.report_ranking.report_training import METRICS

        ranker_metrics = METRICS
    # Checked before the data is read, and again once it is known which protocols rank.
    may_log_more = bool(objects.callbacks) or may_be_own(cfg)
    protocols = cfg.ranking.protocols if cfg.ranking.parts == AUTO or "val" in cfg.ranking.parts else ()
    check_monitor(cfg.monitor, (*metric_names(cfg.ranking.top_k, protocols), *ranker_metrics), may_log_more)
    callbacks = [*training_callbacks(cfg, folder, console), *objects.callbacks]
    if cfg.task.get("refit"):
        check_last_training(configured_callbacks(cfg.callbacks, folder))
    setup = task.build(cfg, console)
    print_detail(console, data_line(cfg, setup))
    check_monitor(
        cfg.monitor, (*metric_names(cfg.ranking.top_k, setup.ranked_protocols), *ranker_metrics), may_log_more
    )
    with trained(setup.system, setup.data, setup.corpus, cfg, folder, callbacks, console, objects.loggers) as loggers:
        if is_first():
            result = task.result(setup)
            tables = report(folder, result, console, loggers, cfg.encoder.name)
    if is_first():
        show_verdict(console, result, tables)
    return value_of_best(folder, cfg.monitor, "val/f1")
