"""Sweeps: their jobs, launchers and sweepers."""
