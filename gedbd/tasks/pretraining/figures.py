"""Curves of a pre-training."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

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
        axis.set(title=f"{measure} on validation", xlabel="epoch")
        axis.grid(alpha=0.25)
        axis.legend(frameon=False)
    return figure


def loss_curve(epochs: pd.DataFrame) -> Figure:
    """The weighted sum of the losses of training and validation by epoch."""
    figure = Figure(figsize=(5.4, 3.8))
    axis = figure.subplots(gridspec_kw={**MARGINS, "left": 0.12})
    for part in ("train", "val"):
        axis.plot(epochs["epoch"] + 1, epochs[f"{part}/loss"], marker="o", markersize=3, label=part)
    axis.set(title="total loss", xlabel="epoch")
    axis.grid(alpha=0.25)
    axis.legend(frameon=False)
    return figure
