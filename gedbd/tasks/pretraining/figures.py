"""Curves of a pre-training."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

MARGINS = {"left": 0.075, "right": 0.985, "bottom": 0.14, "top": 0.9, "wspace": 0.2}


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
