"""Training of any system by Lightning: its trainer, loggers and checkpoints, and the end of an interrupted run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytorch_lightning as pl
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import Logger
from rich.console import Console

from gedbd.corpora.changes import ChangeCorpus
from gedbd.corpora.corpus import Corpus
from gedbd.experiments.callbacks import FiniteValues, direction
from gedbd.experiments.checkpoint import check_continues, save_run
from gedbd.experiments.checkpoint_io import save_whole
from gedbd.experiments.distributed import all_end_together
from gedbd.experiments.interruption import TerminationHandler, keyboard_interrupts
from gedbd.experiments.progress_bar import EpochProgressBar
from gedbd.experiments.tracking.runs import open_loggers
from gedbd.io.printing import print_detail, print_path
from gedbd.io.tables import read_csv
from gedbd.io.verbosity import is_quiet, stage


class Trained(NamedTuple):
    """A training that has ended, while its loggers are open.

    Attributes:
        is_first: Whether this process is the one that writes results.
        loggers: Loggers of the run.
    """

    is_first: bool
    loggers: list[Logger]


@contextmanager
def trained(
    system: pl.LightningModule,
    data: pl.LightningDataModule,
    corpus: Corpus | ChangeCorpus,
    cfg: DictConfig,
    folder: Path,
    callbacks: list[Callback],
    console: Console,
) -> Iterator[Trained]:
    """Trains a system and tests its best checkpoint; the block writes the results.

    Afterwards the processes of a distributed run wait for the one that writes.

    Args:
        system: The model; it holds the weights of the best checkpoint in the block.
        data: Serves the batches.
        corpus: Its fingerprint is stored with the run.
        cfg: The composed configuration of ``conf/train.yaml``.
        folder: The run folder.
        callbacks: See ``training_callbacks``.
        console: Where the run folder is said.

    Raises:
        KeyboardInterrupt: If Ctrl-C was pressed; the last finished epoch is saved in ``checkpoints/last.ckpt``.
        ValueError: If a loss or a weight is no longer finite, another process of a distributed run has ended, or the
            checkpoint to continue from belongs to another model or corpus.
    """
    with open_loggers(cfg, folder, "train") as loggers, keyboard_interrupts():
        shows_progress = cfg.trainer.get("enable_progress_bar", True) and not (console.quiet or is_quiet())
        progress = [EpochProgressBar()] if shows_progress else []
        trainer: pl.Trainer = instantiate(
            cfg.trainer,
            logger=loggers,
            callbacks=[FiniteValues(), TerminationHandler(), *callbacks, *progress],
            default_root_dir=folder,
            num_sanity_val_steps=0,  # the threshold would be chosen on a part of the pairs
            use_distributed_sampler=False,  # the batch samplers share out batches themselves
            enable_progress_bar=shows_progress,
        )
        save_whole(trainer)
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
            yield Trained(trainer.is_global_zero, loggers)
            trainer.strategy.barrier()  # the other processes read the files that the first one has written


def value_of_best(folder: Path, monitor: str, metric: str) -> float:
    """A metric of a run's best checkpoint, which is the epoch with the best value of ``monitor``."""
    epochs = read_csv(folder / "metrics.csv", metric, monitor)
    return float(epochs[metric][epochs_of_best(folder, monitor) - 1])


def epochs_of_best(folder: Path, monitor: str) -> int:
    """For how many epochs a run's best checkpoint was trained."""
    values = read_csv(folder / "metrics.csv", monitor)[monitor]
    best = values.argmin() if direction(monitor) == "min" else values.argmax()
    return int(best) + 1
