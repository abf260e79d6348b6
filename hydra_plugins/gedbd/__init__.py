"""What Hydra instantiates from packages under ``hydra_plugins`` only."""
