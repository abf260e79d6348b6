"""Writes the paper's retrieval table at the end of a sweep."""

from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig


class BesidePublished(Callback):
    """Compares the finished runs of a sweep with the paper's Table 4: ``table4.csv`` and ``.md`` in its folder."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Writes the files and prints where they are."""
        # Hydra loads this module with every command that names the callback: heavy imports wait until here.
        from gedbd.experiments.distributed import is_first
        from gedbd.tasks.questions.reproduction.table4 import write_table4

        if is_first():
            write_table4(Path(config.hydra.sweep.dir))
