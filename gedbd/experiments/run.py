"""One training run: train, test the best checkpoint, leave a run folder."""

from pathlib import Path

import pytorch_lightning as pl
from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console

from gedbd.experiments.callbacks import check_monitor, direction, training_callbacks
from gedbd.experiments.checkpoint import save_run
from gedbd.experiments.checkpoint_io import save_whole
from gedbd.experiments.interruption import keyboard_interrupts
from gedbd.experiments.prepare import check_ranking
from gedbd.experiments.results import report, show_verdict
from gedbd.experiments.tracking.runs import open_loggers
from gedbd.experiments.training_task import SystemTask, Task
from gedbd.io.tables import read_csv
from gedbd.retrieval.ranking import metric_names


def train_once(cfg: DictConfig, folder: Path, console: Console) -> float:
    """Trains the configured task, see ``Task.train``."""
    task: Task = instantiate(cfg.task)
    return task.train(cfg, folder, console)


def train_system(task: SystemTask, cfg: DictConfig, folder: Path, console: Console) -> float:
    """Trains a task's system, writes the run folder, and returns the best checkpoint's validation F1.

    Raises:
        KeyboardInterrupt: If Ctrl-C was pressed; the last finished epoch is saved in ``checkpoints/last.ckpt``.
    """
    check_ranking(cfg.ranking)
    # Once before the data is read, and again when it is known what there is to rank.
    check_monitor(cfg.monitor, metric_names(cfg.ranking.top_k, cfg.ranking.protocols))
    callbacks = training_callbacks(folder, cfg.monitor, cfg.patience, console)
    setup = task.build(cfg, console)
    check_monitor(cfg.monitor, metric_names(cfg.ranking.top_k, setup.ranked_protocols))
    with open_loggers(cfg, folder, "train") as loggers, keyboard_interrupts():
        trainer: pl.Trainer = instantiate(
            cfg.trainer,
            logger=loggers,
            callbacks=callbacks,
            default_root_dir=folder,
            num_sanity_val_steps=0,  # the threshold would be chosen on a part of the pairs
            use_distributed_sampler=False,  # the batch samplers share out batches themselves
            enable_progress_bar=cfg.trainer.get("enable_progress_bar", True) and not console.quiet,
        )
        save_whole(trainer)
        if trainer.is_global_zero:
            save_run(folder, cfg, setup.corpus)
            console.print(f"run folder: {folder}", markup=False, highlight=False, soft_wrap=True)
            best = "lowest" if direction(cfg.monitor) == "min" else "highest"
            console.print(f"the best epoch has the {best} {cfg.monitor}", markup=False, highlight=False)
        trainer.fit(setup.system, setup.data, ckpt_path=cfg.ckpt_path)
        trainer.test(setup.system, setup.data, ckpt_path=folder / "checkpoints" / "best.ckpt", verbose=False)
        if trainer.is_global_zero:
            result = task.result(setup)
            tables = report(folder, result, console, loggers)
        trainer.strategy.barrier()  # the other processes read the files that the first one has written
    if trainer.is_global_zero:
        show_verdict(console, result, tables)
    return best_f1(folder, cfg.monitor)


def best_f1(folder: Path, monitor: str) -> float:
    """Validation F1 of a run's best checkpoint."""
    epochs = read_csv(folder / "metrics.csv", "val/f1", monitor)
    best = epochs[monitor].argmin() if direction(monitor) == "min" else epochs[monitor].argmax()
    return float(epochs["val/f1"][best])
