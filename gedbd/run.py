"""One training run: train, test the best checkpoint, leave a run folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytorch_lightning as pl
import rich
from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console

from gedbd.build import build, check_ranking
from gedbd.callbacks import check_monitor, direction, training_callbacks
from gedbd.checkpoint import save_run
from gedbd.evaluation.ranking import metric_names
from gedbd.interruption import keyboard_interrupts
from gedbd.outcome import trained_outcome
from gedbd.results import report, show_verdict
from gedbd.systems.processes import is_first
from gedbd.tracking.runs import open_loggers

LOG_WIDTH = 120


def train_once(cfg: DictConfig, folder: Path, console: Console) -> float:
    """Trains as configured, in a folder of its own; returns the best checkpoint's validation F1.

    A quiet console hides the progress bar too; what would have been printed is written to ``log.txt`` in the folder.

    Raises:
        KeyboardInterrupt: If Ctrl-C was pressed; the last finished epoch is saved in ``checkpoints/last.ckpt``.
    """
    check_ranking(cfg.ranking)
    check_monitor(cfg.monitor, metric_names(cfg.ranking.top_k, cfg.ranking.protocols))
    with log_if_quiet(console, folder) as told:
        callbacks = training_callbacks(folder, cfg.monitor, cfg.patience, told)
        data, system = build(cfg, told)
        check_monitor(cfg.monitor, metric_names(cfg.ranking.top_k, tuple(data.queries.get("val", {}))))
        with open_loggers(cfg, folder, "train", console.quiet) as loggers, keyboard_interrupts():
            trainer: pl.Trainer = instantiate(
                cfg.trainer,
                logger=loggers,
                callbacks=callbacks,
                default_root_dir=folder,
                num_sanity_val_steps=0,
                use_distributed_sampler=False,
                enable_progress_bar=cfg.trainer.get("enable_progress_bar", True) and not console.quiet,
            )
            if trainer.is_global_zero:
                save_run(folder, cfg, data.corpus)
                told.print(f"run folder: {folder}", markup=False, highlight=False, soft_wrap=True)
                best = "lowest" if direction(cfg.monitor) == "min" else "highest"
                told.print(f"the best epoch has the {best} {cfg.monitor}", markup=False, highlight=False)
            trainer.fit(system, data, ckpt_path=cfg.ckpt_path)
            trainer.test(system, data, ckpt_path=folder / "checkpoints" / "best.ckpt", verbose=False)
            if trainer.is_global_zero:
                outcome = trained_outcome(data, system)
                tables = report(folder, outcome, told, loggers)
            trainer.strategy.barrier()  # what follows reads the results
        if trainer.is_global_zero:
            show_verdict(told, outcome, tables)
    return best_f1(folder, cfg.monitor)


@contextmanager
def log_if_quiet(console: Console, folder: Path) -> Iterator[Console]:
    """The console itself or, if it is quiet in the process that writes, one that writes to ``log.txt``.

    A quiet console quietens rich's own one, where progress is shown, as long as the block runs.
    """
    if not console.quiet:
        yield console
        return
    shared = rich.get_console()
    before = shared.quiet
    shared.quiet = True
    try:
        if is_first():
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / "log.txt").open("a") as file:
                yield Console(file=file, width=LOG_WIDTH)
        else:
            yield console
    finally:
        shared.quiet = before


def best_f1(folder: Path, monitor: str) -> float:
    """Validation F1 of a run's best checkpoint."""
    epochs = pd.read_csv(folder / "metrics.csv")
    best = epochs[monitor].argmin() if direction(monitor) == "min" else epochs[monitor].argmax()
    return float(epochs["val/f1"][best])
