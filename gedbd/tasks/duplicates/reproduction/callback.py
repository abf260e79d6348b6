"""Writes a table or figure of the paper at the end of a sweep."""

from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig


class BesidePublished(Callback):
    """Compares the finished runs of a sweep with the paper's numbers: CSV, Markdown and figures in the sweep's folder.

    Args:
        name: ``table4``, ``table5``, ``figures34`` or ``sensitivity``.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Writes the files and prints where they are."""
        # Hydra loads this module with every command that names the callback: heavy imports wait until here.
        from gedbd.experiments.distributed import is_first
        from gedbd.tasks.duplicates.reproduction.writing import write_item

        if is_first():
            options = tuple(config.hydra.sweeper.params or ())
            write_item(self.name, Path(config.hydra.sweep.dir), options)
