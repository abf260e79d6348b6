"""Launchers and sweepers: Hydra instantiates these only from packages under ``hydra_plugins``."""

from gedbd.experiments.sweeps import optuna_sweeper, ray_launcher


class OptunaSweeper(optuna_sweeper.OptunaSweeper):
    """``hydra/sweeper=optuna``."""


class RayLauncher(ray_launcher.RayLauncher):
    """``hydra/launcher=ray``."""
