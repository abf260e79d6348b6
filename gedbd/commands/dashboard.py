"""Create a Weights & Biases workspace or sweep for runs with logger=wandb."""

from importlib.util import find_spec
from pathlib import Path

from omegaconf import DictConfig

from gedbd.configuration.command import command


@command("dashboard")
def main(cfg: DictConfig) -> None:
    """Saves a workspace on the server, or writes the workspace or a sweep to a file."""
    if find_spec("wandb_workspaces") is None:
        raise ValueError("dashboard: wandb-workspaces is not installed: pip install 'gedbd[wandb]'")
    from gedbd.experiments.wandb_workspace import make_workspace, save_workspace, write_specification, write_sweep

    if cfg.sweep:
        write_sweep(cfg.project, Path(cfg.sweep))
        print(f"written: {cfg.sweep}; start it with: wandb sweep {cfg.sweep}")
    if cfg.out:
        write_specification(make_workspace(cfg.entity or "", cfg.project, cfg.name), Path(cfg.out))
        print(f"written: {cfg.out}")
    elif not cfg.sweep:
        print(save_workspace(cfg.entity, cfg.project, cfg.name))
