"""The figures of a backtest."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gedbd.evaluation.figures import MARGINS, SIZE
from gedbd.evaluation.palette import DUPLICATE, GREY, OTHER
from gedbd.triage.backtesting.backtest import GRID

STEPS = np.round(np.arange(0.1, 1.0, 0.1), 2)


def precision_and_coverage(thresholds: pd.DataFrame, chosen: float | None) -> Figure:
    """Both curves with their intervals.

    Args:
        thresholds: See ``at_thresholds``.
        chosen: The threshold to mark, if there is one.
    """
    figure = Figure(figsize=SIZE)
    axis = figure.subplots(gridspec_kw=MARGINS)
    table = thresholds[thresholds["threshold"].isin(GRID)]  # without the chosen one, which is between two of them
    for name, colour in (("precision", DUPLICATE), ("coverage", OTHER)):
        axis.plot(table["threshold"], table[name], color=colour, label=name)
        axis.fill_between(table["threshold"], table[f"{name}_low"], table[f"{name}_high"], color=colour, alpha=0.15)
    axis.plot(table["threshold"], table["suggestion_rate"], color=GREY, linestyle=":", label="suggestion rate")
    if chosen is not None:
        axis.axvline(chosen, color="black", linestyle="--", linewidth=1, label="chosen")
    axis.set(title="Suggesting the best match", xlabel="from probability", ylabel="share", xlim=(0, 1), ylim=(0, 1.02))
    axis.grid(alpha=0.25)
    axis.legend(frameon=False)
    return figure


def reliability_diagram(table: pd.DataFrame) -> Figure:
    """Predicted against observed probability; the size of a point is the logarithm of its number of reports.

    scikit-learn's ``CalibrationDisplay`` draws points of one size, without the numbers of reports.
    """
    figure = Figure(figsize=SIZE)
    axis = figure.subplots(gridspec_kw=MARGINS)
    axis.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1)
    axis.plot(table["predicted"], table["right"], color=DUPLICATE, linewidth=1)
    axis.scatter(table["predicted"], table["right"], s=20 * (1 + np.log(table["reports"])), color=DUPLICATE)
    for _, row in table.iterrows():
        point = (row["predicted"], row["right"])
        axis.annotate(f"{row['reports']:,.0f}", point, xytext=(7, -11), textcoords="offset points")
    axis.set(title="Calibration on test", xlabel="predicted probability", ylabel="share right")
    axis.set(xlim=(-0.02, 1.04), ylim=(-0.07, 1.04))  # space for the numbers below points at 0
    axis.grid(alpha=0.25)
    return figure
