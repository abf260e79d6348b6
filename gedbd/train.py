"""Train, validate and test: ``python -m gedbd.train``."""

from pathlib import Path

import rich
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from gedbd.config import door, uncollected
from gedbd.jobs import resumable_job


@door("train")
@resumable_job
def main(cfg: DictConfig) -> float:
    """Trains, tests the best checkpoint, leaves a run folder, and returns that checkpoint's validation F1.

    With ``seeds=5`` it does so for five seeds, each in a folder of its own, and returns the mean; given the same
    ``hydra.run.dir`` again, it goes on where it was interrupted.
    """
    with uncollected():
        import torch

        from gedbd.checkpoint import check_resumable
        from gedbd.run import train_once
        from gedbd.seeds import summarise_seeds, train_seed
        from gedbd.systems.processes import is_first
    folder = Path(HydraConfig.get().runtime.output_dir)
    console = Console(quiet=not is_first())
    if console.quiet:
        rich.reconfigure(quiet=True)  # progress bars
    if cfg.ckpt_path:
        check_resumable(cfg)
    if cfg.trainer.accelerator == "gpu" and not torch.accelerator.is_available():
        raise ValueError("trainer.accelerator=gpu, but torch finds no GPU on this machine: choose trainer=default")
    if cfg.seeds == 1:
        return train_once(cfg, folder, console)
    if cfg.seeds < 1 or cfg.ckpt_path:
        raise ValueError(f"seeds={cfg.seeds} must be 1 or more, and goes on by hydra.run.dir=, not by ckpt_path=")
    for seed in range(cfg.seed, cfg.seed + cfg.seeds):
        train_seed(cfg, seed, folder / f"seed_{seed}", console)
    return float(summarise_seeds(folder, console)["val_f1"].mean())


if __name__ == "__main__":
    main()
