"""The end of a run, shared by the doors: predictions, tables and figures, on disk, on screen and on the dashboard."""

from pathlib import Path
from typing import Literal

import pandas as pd
import pytorch_lightning as pl
from pytorch_lightning.loggers import WandbLogger
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gedbd.data.datamodule import DuplicateDataModule
from gedbd.evaluation.figures import training_curves
from gedbd.evaluation.outputs import compare_methods, draw_figures, example_pairs, write_outputs
from gedbd.systems.duplicate import DuplicateSystem

LONGEST_WHOLE = 26


def report(
    folder: Path, trainer: pl.Trainer, system: DuplicateSystem, data: DuplicateDataModule, console: Console
) -> pd.DataFrame:
    """Writes and shows the results of the pairs that were just scored; gives the table of methods."""
    part, threshold, with_graph = data.evaluated[-1], round(float(system.threshold), 6), system.branch is not None
    predictions = data.name_reports(pd.concat(system.scores.values()), "earlier", "later")
    predictions["predicted"] = (predictions["score"] >= threshold).astype(int)
    methods = compare_methods(predictions, part, threshold, with_graph)
    examples = example_pairs(predictions, part)
    drawn = draw_figures(predictions, part, threshold, with_graph)
    if (folder / "metrics.csv").exists():
        drawn["training_curves"] = training_curves(pd.read_csv(folder / "metrics.csv"))
    write_outputs(folder, predictions, methods, examples, drawn)
    chosen = predictions[predictions["part"] == part]["label"]
    console.print(
        as_table(methods, f"{data.corpus.name}, {part}: {chosen.sum()} duplicate and {(chosen == 0).sum()} other pairs")
    )
    console.print(as_table(examples, "example pairs"))
    console.print(f"predictions, tables and figures: {folder}")
    for logger in trainer.loggers:
        if isinstance(logger, WandbLogger):
            for name in drawn:
                logger.log_image(f"figures/{name}", [str(folder / "figures" / f"{name}.png")])
            logger.log_table("results", dataframe=methods)
            logger.log_table("examples", dataframe=examples)
    return methods


def as_table(frame: pd.DataFrame, title: str) -> Table:
    """A table for the terminal: numbers with three decimals; only long texts such as titles give way to fit."""
    table = Table(title=title, box=SIMPLE_HEAD, padding=0)
    cells = [[f"{value:.3f}" if isinstance(value, float) else str(value) for value in row] for row in frame.to_numpy()]
    for place, name in enumerate(frame.columns):
        heading = str(name).replace("_", " ")
        widest = max(len(text) for text in [*heading.split(), *(row[place] for row in cells)])
        justify: Literal["left", "right"] = "right" if pd.api.types.is_numeric_dtype(frame[name]) else "left"
        table.add_column(heading, justify=justify, width=widest if widest <= LONGEST_WHOLE else None)
    for row in cells:
        table.add_row(*map(escape, row))
    return table
