"""Launchers and sweepers: Hydra instantiates these only from packages under ``hydra_plugins``."""
