"""Writes a table or figure of the paper at the end of a sweep. Hydra loads this module when it starts."""

from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig


class BesidePublished(Callback):
    """Sets the finished runs of a sweep beside the paper's numbers: CSV, Markdown and figures in the sweep's folder.

    Args:
        name: ``table4``, ``table5``, ``figures34`` or ``sensitivity``.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Writes them, and says where."""
        from gedbd.experiments.distributed import is_first
        from gedbd.tasks.duplicates.reproduction.writing import write_item

        if is_first():
            options = tuple(config.hydra.sweeper.params or ())
            write_item(self.name, Path(config.hydra.sweep.dir), options)
