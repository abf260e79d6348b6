"""Writes a pre-training: tables, figures and page in the run folder, a table on the console."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pytorch_lightning.loggers import Logger
from rich.console import Console

from gedbd.evaluation.report.section import Section
from gedbd.experiments.run_page import RunPage
from gedbd.io.console import print_path
from gedbd.tasks.pretraining.result import PretrainingResult

MARGINS = {"left": 0.075, "right": 0.985, "bottom": 0.14, "top": 0.9, "wspace": 0.2}
OBJECTIVES_TEXT = (
    "Of each test method, {tokens:.0%} of the tokens of code and comment are predicted (mlm), and for {nodes:.0%} of"
    " the nodes the edges to their tokens of code (alignment), to other nodes (edge), to their types and to their"
    " roles: edges against as many non-edges. The base rate is the accuracy without a model: of the most frequent"
    " token; and of the majority by type, role or distance among training methods, or 0.5."
)


def write_result(folder: Path, result: PretrainingResult, loggers: list[Logger], console: Console) -> None:
    """Writes, shows and logs a run.

    Args:
        folder: The run folder.
        result: What the run has measured.
        loggers: Loggers of the run.
        console: Where the table is shown.
    """
    name = result.corpus.name
    objectives = result.objectives
    curves = objective_curves(result.epochs, objectives["objective"].tolist())
    sections = [
        Section("Objectives", OBJECTIVES_TEXT.format(**vars(result.shares)), [objectives]),
        Section(
            "Training",
            "By epoch.",
            [],
            [
                ("total_loss", "Weighted sum of the losses by epoch", loss_curve(result.epochs)),
                ("objectives", "Loss and accuracy of each objective on validation by epoch", curves),
            ],
        ),
    ]
    tables = {"results": result.results, "objectives": objectives}
    shown = {f"{name}, {result.num_tested:,} test methods": objectives}
    RunPage("Pre-training", name, result.summary, tables, shown, sections).write(folder, loggers, console)
    print_path(console, "encoder:", folder / "encoder")


def objective_curves(epochs: pd.DataFrame, objectives: Sequence[str]) -> Figure:
    """Loss and accuracy of each objective on validation by epoch, side by side.

    Args:
        epochs: One row an epoch, with the columns that the system logs.
        objectives: Their names.
    """
    figure = Figure(figsize=(9.6, 3.8))
    axes = figure.subplots(1, 2, gridspec_kw=MARGINS)
    for axis, measure in zip(axes, ("loss", "accuracy"), strict=True):
        for name in objectives:
            axis.plot(epochs["epoch"] + 1, epochs[f"val/{name}_{measure}"], marker="o", markersize=3, label=name)
        _finish(axis, f"{measure} on validation")
    return figure


def loss_curve(epochs: pd.DataFrame) -> Figure:
    """The weighted sum of the losses of training and validation by epoch."""
    figure = Figure(figsize=(5.4, 3.8))
    axis = figure.subplots(gridspec_kw={**MARGINS, "left": 0.12})
    for part in ("train", "val"):
        axis.plot(epochs["epoch"] + 1, epochs[f"{part}/loss"], marker="o", markersize=3, label=part)
    _finish(axis, "total loss")
    return figure


def _finish(axis: Axes, title: str) -> None:
    """Titles of a curve by epoch, whose number is whole."""
    axis.set(title=title, xlabel="epoch")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid(alpha=0.25)
    axis.legend(frameon=False)
