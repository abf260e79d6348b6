"""Pre-training of the encoder of changes as the first step of a run, as the paper's Table 3 compares it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from gedbd.configuration.command_words import quoted_text
from gedbd.experiments.resuming import readable_checkpoint
from gedbd.experiments.run_folder import OWN_PAGE
from gedbd.experiments.training_task import Task

FOLDER = "pretraining"
ENCODER = "encoder"  # folder of a run that pre-trains, with its encoder


@dataclass(frozen=True)
class FirstPretraining:
    """A training in the folder ``pretraining`` of the run, which leaves an encoder there.

    It starts from the section ``encoder`` of the run, which also reads the reports.

    Attributes:
        methods: Java sources that it reads, see ``dataset=java_sources``.
        row: One of ``rows``.
        rows: By the name of each row of the table, the options of ``gedbd train`` that it sets, by section.
        options: Likewise the options of all rows.
        groups: The options of groups, such as ``task=pretraining``.

    Raises:
        ValueError: If the row is unknown.
    """

    methods: str
    row: str
    rows: Mapping[str, Mapping[str, Any]]
    options: Mapping[str, Any]
    groups: Sequence[str]

    def __post_init__(self) -> None:
        if self.row not in self.rows:
            raise ValueError(f"task.pretraining.row={self.row} is unknown: choose from {', '.join(self.rows)}")

    def encoder(self, cfg: DictConfig, folder: Path, console: Console) -> Path:
        """The folder of the encoder; a training that has finished is not repeated, an interrupted one goes on.

        Args:
            cfg: The options of the run, of which the seed, the device and the cache are those of this training too.
            folder: The run folder.
            console: Where results and warnings go.
        """
        own = folder / FOLDER
        if not (own / OWN_PAGE).is_file():
            given = compose(
                "train", overrides=[*self.groups, f"dataset.path={quoted_text(str(Path(self.methods).absolute()))}"]
            )
            composed = OmegaConf.merge(given, dict(self.options), dict(self.rows[self.row]))
            assert isinstance(composed, DictConfig)
            for name in ("accelerator", "devices", "precision", "enable_progress_bar"):
                composed.trainer[name] = cfg.trainer[name]
            for name in ("encoder", "cache_dir", "seed"):
                composed[name] = cfg[name]
            composed.ckpt_path = readable_checkpoint(own)
            task: Task = instantiate(composed.task)
            own.mkdir(exist_ok=True)
            task.train(composed, own, console)
        return own / ENCODER
