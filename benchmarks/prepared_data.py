"""The corpus that the benchmark runs on, as the commands build it."""

import os

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from rich.console import Console

from gedbd.configuration.options import register_resolvers
from gedbd.duplicates.bug_reports import BugReports
from gedbd.duplicates.duplicate_detector import DuplicateDetector
from gedbd.duplicates.duplicates_task import DuplicatesTask
from gedbd.io.files import CONF_DIR


def options(*more: str) -> list[str]:
    """Options of the corpus that was asked for, and more."""
    path = os.environ["BENCHMARK_CORPUS"]
    mine = ["dataset=csv", f"dataset.path={path}"] if path else []
    return [*mine, "ranking.parts=[]", *more]


def configuration(*more: str) -> DictConfig:
    """The composed configuration of training."""
    register_resolvers()
    with initialize_config_dir(CONF_DIR, version_base=None):
        return compose("train", options(*more))


def built(*more: str) -> tuple[BugReports, DuplicateDetector]:
    """Data and system, ready for a step."""
    data, system, *_ = DuplicatesTask().build(configuration(*more), Console(quiet=True))
    assert isinstance(data, BugReports)
    assert isinstance(system, DuplicateDetector)
    attach(data, system)
    return data, system


def attach(data: BugReports, system: DuplicateDetector, accelerator: str = "cpu") -> None:
    """Makes steps possible without ``fit``; nothing is logged."""
    import pytorch_lightning as pl

    system.trainer = pl.Trainer(accelerator=accelerator, logger=False, enable_checkpointing=False)
    system.trainer.datamodule = data  # type: ignore[attr-defined]
    system.log = lambda *_, **__: None  # type: ignore[method-assign]
