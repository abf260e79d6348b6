"""Create a Weights & Biases workspace or sweep for runs with logger=wandb."""

from pathlib import Path

from omegaconf import DictConfig

from gedbd.configuration.command import command


@command("dashboard")
def main(cfg: DictConfig) -> None:
    """Saves a workspace on the server, or writes the workspace or a sweep to a file."""
    if cfg.sweep:
        from gedbd.experiments.loggers import write_sweep

        write_sweep(cfg.project, Path(cfg.sweep))
        print(f"written: {cfg.sweep}; start it with: wandb sweep {cfg.sweep}")
        if not cfg.out:
            return
    try:
        from gedbd.experiments.loggers import make_workspace, save_workspace, write_specification
    except ModuleNotFoundError as error:
        if error.name != "wandb_workspaces":
            raise
        raise ValueError("dashboard: wandb-workspaces is not installed: pip install 'gedbd[wandb]'") from error
    if cfg.out:
        write_specification(make_workspace(cfg.entity or "", cfg.project, cfg.name), Path(cfg.out))
        print(f"written: {cfg.out}")
    else:
        print(save_workspace(cfg.entity, cfg.project, cfg.name))


if __name__ == "__main__":
    main()
