"""The last training, on the validation part too, after every choice was made on it."""

from pathlib import Path

import pytorch_lightning as pl
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning.callbacks import ModelCheckpoint
from rich.console import Console

from gedbd.experiments.callbacks import FiniteValues
from gedbd.experiments.checkpoint import readable_checkpoint, trained_epochs
from gedbd.experiments.checkpoint_io import save_whole
from gedbd.experiments.distributed import all_end_together, is_first
from gedbd.experiments.interruption import TerminationHandler, keyboard_interrupts
from gedbd.experiments.training_task import SystemTask
from gedbd.io.printing import print_detail
from gedbd.io.verbosity import is_quiet


def refit(task: SystemTask, cfg: DictConfig, epochs: int, folder: Path, console: Console) -> None:
    """Trains from the start for a number of epochs, and writes ``checkpoints/refit.ckpt``; nothing is validated.

    An interrupted training goes on from its last epoch; a finished one is not repeated.

    Args:
        task: Trains on training and validation part.
        cfg: The composed configuration of ``conf/train.yaml``.
        epochs: How long the best epoch of the first training was trained.
        folder: The run folder.
        console: Where it is said.

    Raises:
        KeyboardInterrupt: If Ctrl-C was pressed; the last finished epoch is saved.
    """
    weights = folder / "checkpoints" / "refit.ckpt"
    if weights.is_file() and trained_epochs(weights) == epochs:
        return
    if is_first():
        print_detail(console, f"train again, on training and validation part; epochs: {epochs}")
    setup = task.build(cfg, console, ())
    # A folder for each number of epochs: a run that is trained further may find another epoch best.
    kept = folder / "refit" / f"{epochs}_epochs"
    last = ModelCheckpoint(
        kept / "checkpoints", filename="last", save_on_train_epoch_end=True, enable_version_counter=False
    )
    with keyboard_interrupts():
        trainer: pl.Trainer = instantiate(
            cfg.trainer,
            max_epochs=epochs,
            logger=False,
            callbacks=[FiniteValues(), TerminationHandler(), last],
            default_root_dir=folder,
            limit_val_batches=0,
            use_distributed_sampler=False,  # the batch samplers share out batches themselves
            enable_progress_bar=cfg.trainer.get("enable_progress_bar", True) and not (console.quiet or is_quiet()),
        )
        save_whole(trainer)
        with all_end_together(trainer):
            trainer.fit(setup.system, setup.data, ckpt_path=readable_checkpoint(kept))
            trainer.save_checkpoint(weights, weights_only=True)
