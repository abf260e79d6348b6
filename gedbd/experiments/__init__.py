"""Training runs, seeds and sweeps: from a configuration to a run folder."""
