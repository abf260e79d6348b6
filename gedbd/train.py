"""Train, validate and test: ``python -m gedbd.train``."""

import os
from datetime import datetime
from functools import partial
from pathlib import Path

import pytorch_lightning as pl
import torch
from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import Callback, EarlyStopping, ModelCheckpoint
from rich.console import Console

from gedbd.build import build
from gedbd.callbacks import EpochTable
from gedbd.checkpoint import check_resumable, save_run
from gedbd.config import door
from gedbd.data.readers.tabular import corpus_name
from gedbd.results import report


def run_dir(ckpt_path: str | None, dataset: str | None, path: str | None, encoder: str) -> str:
    """Folder of a new run, or of the run whose checkpoint is taken up."""
    if ckpt_path:
        return str(Path(ckpt_path).parent.parent)
    name = dataset or corpus_name(Path(str(path)))
    return f"outputs/{name}/{encoder}/{datetime.now():%Y-%m-%d_%H-%M-%S}"


def auto_precision() -> str:
    """Bfloat16 on a GPU that has it; CPUs without matrix units are slower in it."""
    return "bf16-mixed" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "32-true"


OmegaConf.register_new_resolver("run_dir", run_dir, use_cache=True)
OmegaConf.register_new_resolver("auto_precision", auto_precision)


@door("train")
def main(cfg: DictConfig) -> float:
    """Trains as configured, tests the best checkpoint, leaves a run folder, and returns the best validation F1."""
    folder, console = (
        Path(HydraConfig.get().runtime.output_dir),
        Console(quiet=os.environ.get("LOCAL_RANK", "0") != "0"),
    )
    if cfg.ckpt_path:
        check_resumable(cfg)
    if cfg.trainer.accelerator == "gpu" and not torch.accelerator.is_available():
        raise ValueError("trainer.accelerator=gpu, but torch finds no GPU on this machine: choose trainer=default")
    data, system = build(cfg, console)
    trainer: pl.Trainer = instantiate(
        cfg.trainer,
        logger=instantiate(cfg.logger) or False,
        callbacks=callbacks(folder, cfg.patience),
        default_root_dir=folder,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
    )
    if trainer.is_global_zero:
        save_run(folder, cfg, data.corpus)
        console.print(f"run folder: {folder} (interrupted? go on with ckpt_path={folder}/checkpoints/last.ckpt)")
    settings = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(settings, dict)
    for logger in trainer.loggers:
        logger.log_hyperparams({str(key): value for key, value in settings.items()})
    trainer.fit(system, data, ckpt_path=cfg.ckpt_path)
    best = float(trainer.callback_metrics["val/f1"])
    trainer.test(system, data, ckpt_path=folder / "checkpoints" / "best.ckpt", verbose=False)
    if trainer.is_global_zero:
        report(folder, trainer, system, data, console)
    return best


def callbacks(folder: Path, patience: int) -> list[Callback]:
    """Early stopping, the epoch table, and the best and the last checkpoint, all at the end of an epoch."""
    checkpoint = partial(
        ModelCheckpoint, folder / "checkpoints", save_on_train_epoch_end=True, enable_version_counter=False
    )
    return [
        EarlyStopping("val/loss", patience=patience, check_on_train_epoch_end=True),
        EpochTable(folder / "metrics.csv"),
        checkpoint("best", monitor="val/loss", save_weights_only=True),
        checkpoint("last"),
    ]


if __name__ == "__main__":
    main()
