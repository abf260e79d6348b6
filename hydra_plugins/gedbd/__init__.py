"""What Hydra instantiates from packages under ``hydra_plugins`` only."""

from gedbd import optuna_sweeper


class OptunaSweeper(optuna_sweeper.OptunaSweeper):
    """``hydra/sweeper=optuna``."""
