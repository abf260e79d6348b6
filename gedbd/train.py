"""Train, validate and test: ``python -m gedbd.train``."""

from functools import partial
from pathlib import Path

import rich
from hydra import compose
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from gedbd.configuration.command import command, gc_paused
from gedbd.experiments.sweeps.jobs import resumable_job


@command("train")
@resumable_job
def main(cfg: DictConfig) -> float:
    """Trains, tests the best checkpoint, leaves a run folder, and returns that checkpoint's validation F1.

    With ``seeds=5`` it does so for five seeds, each in a folder of its own, and returns the mean; given the same
    ``hydra.run.dir`` again, it goes on where it was interrupted.
    """
    with gc_paused():
        import torch

        from gedbd.experiments.distributed import is_first
        from gedbd.experiments.interruption import exit_when_interrupted
        from gedbd.experiments.resume import resumed_options
        from gedbd.experiments.run import train_once
        from gedbd.experiments.seeds import summarise_seeds, train_seed
        from gedbd.experiments.tracking.runs import check_login
    folder = Path(HydraConfig.get().runtime.output_dir)
    rich.reconfigure(quiet=not is_first())  # progress bars too, which share the console
    console = rich.get_console()
    check_login(cfg.logger)
    if cfg.ckpt_path:
        hydra_cfg = HydraConfig.get()
        given, choices = hydra_cfg.overrides.task, hydra_cfg.runtime.choices
        cfg = resumed_options(cfg, given, choices, defaults=partial(compose, "train"))
    if cfg.trainer.accelerator == "gpu" and not torch.accelerator.is_available():
        raise ValueError("trainer.accelerator=gpu, but torch finds no GPU on this machine: choose trainer=default")
    if cfg.seeds > 1 and cfg.ckpt_path:
        raise ValueError(f"seeds={cfg.seeds} with ckpt_path=: continue several seeds by hydra.run.dir= instead")
    with exit_when_interrupted(cfg.seeds):
        if cfg.seeds == 1:
            return train_once(cfg, folder, console)
        for seed in range(cfg.seed, cfg.seed + cfg.seeds):
            train_seed(cfg, seed, folder / f"seed_{seed}", console)
        return float(summarise_seeds(folder, console)["val_f1"].mean())


if __name__ == "__main__":
    main()
