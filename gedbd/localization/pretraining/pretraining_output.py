"""Writes a pre-training: tables, figures and page in the run folder, a table on the console."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pytorch_lightning.loggers import Logger
from rich.console import Console

from gedbd.corpora.corpus import Corpus
from gedbd.experiments.report.section import Section
from gedbd.experiments.run_page import RunPage
from gedbd.io.console import print_path
from gedbd.io.table_files import read_csv
from gedbd.localization.pretraining.base_rates import BaseRates
from gedbd.localization.pretraining.pretraining_data import PretrainingDataModule
from gedbd.localization.pretraining.pretraining_system import PretrainingSystem

METHOD = "semantic_codebert"
MAX_COUNTED = 3_000  # training methods that base rates are counted in
MARGINS = {"left": 0.075, "right": 0.985, "bottom": 0.14, "top": 0.9, "wspace": 0.2}
OBJECTIVES_TEXT = (
    "Of each test method, {tokens:.0%} of the tokens of code and comment are predicted (mlm), and for {nodes:.0%} of"
    " the nodes the edges to their tokens of code (alignment), to other nodes (edge), to their types and to their"
    " roles: edges against as many non-edges. The base rate is the accuracy without a model: of the most frequent"
    " token; and of the majority by type, role or distance among training methods, or 0.5."
)


def write_result(
    folder: Path,
    corpus: Corpus,
    data: PretrainingDataModule,
    system: PretrainingSystem,
    loggers: list[Logger],
    console: Console,
) -> None:
    """Writes, shows and logs what the last test has measured.

    Args:
        folder: The run folder.
        corpus: The methods.
        data: The data of the run.
        system: The system after its test.
        loggers: Loggers of the run.
        console: Where the table is shown.
    """
    objectives = objectives_table(data, system)
    epochs = read_csv(folder / "metrics.csv")
    num_tested = len(data.rows["test"])
    above = (objectives["accuracy"] > objectives["base_rate"]).sum()
    summary = (
        f"{corpus.name}: on {num_tested:,} test methods, {above} of {len(objectives)} objectives are predicted better"
        " than by frequencies and distances alone"
    )
    text = OBJECTIVES_TEXT.format(**vars(data.dataset.sampler.shares))
    curves = [
        ("total_loss", "Weighted sum of the losses by epoch", loss_curve(epochs)),
        (
            "objectives",
            "Loss and accuracy of each objective on validation by epoch",
            objective_curves(epochs, objectives["objective"].tolist()),
        ),
    ]
    sections = [Section("Objectives", text, [objectives]), Section("Training", "By epoch.", [], curves)]
    tables = {"results": results_of_run(objectives), "objectives": objectives}
    shown = {f"{corpus.name}, {num_tested:,} test methods": objectives}
    RunPage("Pre-training", corpus.name, summary, tables, shown, sections).write(folder, loggers, console)
    print_path(console, "encoder:", folder / "encoder")


def objectives_table(data: PretrainingDataModule, system: PretrainingSystem) -> pd.DataFrame:
    """``objective``, ``weight``, ``loss``, ``accuracy``, ``base_rate`` and ``predictions`` of the last test."""
    train = data.rows["train"]
    if len(train) > MAX_COUNTED:
        train = np.random.default_rng(0).choice(train, MAX_COUNTED, replace=False)
    # Samples as an evaluation draws them.
    counted, tested = ((data.dataset.sample(int(row)) for row in rows) for rows in (train, data.rows["test"]))
    base_rates = BaseRates(counted).accuracies(tested, system.weights)
    rows = []
    for name, weight in system.weights.items():
        measured = system.tested[name]
        row = {"objective": name, "weight": weight, "loss": measured["loss"], "accuracy": measured["accuracy"]}
        rows.append(row | {"base_rate": base_rates[name], "predictions": int(measured["count"])})
    return pd.DataFrame(rows)


def results_of_run(objectives: pd.DataFrame) -> pd.DataFrame:
    """One row: the run's method, its total loss and mean accuracy, and loss, accuracy and base rate of each."""
    row: dict[str, object] = {
        "method": METHOD,
        "mean_accuracy": objectives["accuracy"].mean(),
        "mean_base_rate": objectives["base_rate"].mean(),
        "loss": (objectives["weight"] * objectives["loss"]).sum(),
    }
    for line in objectives.to_dict("records"):
        row |= {f"{line['objective']}_{name}": line[name] for name in ("accuracy", "base_rate", "loss")}
    return pd.DataFrame([row])


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
