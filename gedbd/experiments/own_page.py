"""What a run leaves that makes a page of its own instead of scoring pairs."""

import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd
from hydra.core.hydra_config import HydraConfig
from matplotlib.figure import Figure
from pytorch_lightning.loggers import Logger, WandbLogger

from gedbd.evaluation.figure_files import name_subject, save_figure
from gedbd.evaluation.run_folders import OWN_PAGE
from gedbd.io.files import write_text
from gedbd.io.plain_text import printable


def save_figures(folder: Path, drawn: Mapping[str, Figure], subject: str) -> None:
    """Writes ``figures/<name>.png`` and ``.svg`` of each figure, with what it is about: the corpus."""
    (folder / "figures").mkdir(exist_ok=True)
    for name, figure in drawn.items():
        save_figure(name_subject(figure, subject), folder / "figures" / name)


def training_command() -> str | None:
    """The command line of the running job; None outside of Hydra."""
    if not HydraConfig.initialized():
        return None
    return shlex.join(["gedbd", "train", *HydraConfig.get().overrides.task])


def log_files(
    loggers: Iterable[Logger], folder: Path, tables: Mapping[str, pd.DataFrame], figures: Iterable[str]
) -> None:
    """Logs tables, and figures that ``save_figures`` has written, to Weights & Biases."""
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            for name in figures:
                logger.log_image(f"figures/{name}", [str(folder / "figures" / f"{name}.png")])
            for name, table in tables.items():
                shown = table.map(lambda cell: printable(cell, keep="\n") if isinstance(cell, str) else cell)
                logger.log_table(name, dataframe=shown)


def mark_finished(folder: Path, summary: str) -> None:
    """Writes the last file of the run, with which it counts as finished; ``summary`` is shown in lists of runs."""
    write_text(folder / OWN_PAGE, json.dumps({"summary": summary}) + "\n")
