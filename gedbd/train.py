"""Train, validate and test: ``python -m gedbd.train``."""

import os
from pathlib import Path

import pandas as pd
import pytorch_lightning as pl
import torch
from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from gedbd.build import build
from gedbd.callbacks import training_callbacks
from gedbd.checkpoint import check_resumable, save_run
from gedbd.config import door
from gedbd.results import report


@door("train")
def main(cfg: DictConfig) -> float:
    """Trains, tests the best checkpoint, leaves a run folder, and returns that checkpoint's validation F1."""
    folder = Path(HydraConfig.get().runtime.output_dir)
    console = Console(quiet=os.environ.get("LOCAL_RANK", "0") != "0")
    if cfg.ckpt_path:
        check_resumable(cfg)
    if cfg.trainer.accelerator == "gpu" and not torch.accelerator.is_available():
        raise ValueError("trainer.accelerator=gpu, but torch finds no GPU on this machine: choose trainer=default")
    callbacks = training_callbacks(folder, cfg.monitor, cfg.patience)
    data, system = build(cfg, console)
    trainer: pl.Trainer = instantiate(
        cfg.trainer,
        logger=instantiate(cfg.logger) or False,
        callbacks=callbacks,
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
    trainer.test(system, data, ckpt_path=folder / "checkpoints" / "best.ckpt", verbose=False)
    if trainer.is_global_zero:
        report(folder, trainer, system, data, console)
    epochs = pd.read_csv(folder / "metrics.csv")
    best = epochs[cfg.monitor].argmin() if cfg.monitor == "val/loss" else epochs[cfg.monitor].argmax()
    return float(epochs["val/f1"][best])


if __name__ == "__main__":
    main()
