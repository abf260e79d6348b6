"""The figures of a run: each function takes tables or arrays and returns a matplotlib figure."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gedbd.evaluation.display_names import display_name
from gedbd.evaluation.figures import MARGINS, SIZE
from gedbd.evaluation.palette import DUPLICATE, GREY, OTHER

DECILES = 10
MAX_BARS = 15


def predicted_against_true(predicted: np.ndarray, true: np.ndarray) -> Figure:
    """A point for each test anchor, in log10 of the hours."""
    figure = Figure(figsize=SIZE)
    axis = figure.subplots(gridspec_kw=MARGINS)
    axis.scatter(predicted, true, s=8, alpha=0.4, color=DUPLICATE)
    ends = [float(predicted.min()), float(predicted.max())]
    axis.plot(ends, ends, color=GREY, linestyle="--", linewidth=1, label="equal")
    axis.set(title="Test anchors", xlabel="predicted log10 hours", ylabel="true log10 hours")
    axis.grid(alpha=0.25)
    axis.legend(frameon=False)
    return figure


def decile_table(predicted: np.ndarray, true: np.ndarray) -> pd.DataFrame:
    """Anchors in ten parts by predicted time: their number, and means and the median of log10 hours."""
    order = np.argsort(predicted, kind="stable")
    rows = []
    for number, chosen in enumerate(np.array_split(order, min(DECILES, len(order))), start=1):
        means = {"predicted": float(predicted[chosen].mean()), "true": float(true[chosen].mean())}
        rows.append({"decile": number, "anchors": len(chosen), **means, "true_median": float(np.median(true[chosen]))})
    return pd.DataFrame(rows)


def calibration(deciles: pd.DataFrame) -> Figure:
    """Mean truth over mean prediction, a point for each decile of the predictions."""
    figure = Figure(figsize=SIZE)
    axis = figure.subplots(gridspec_kw=MARGINS)
    ends = [float(deciles["predicted"].min()), float(deciles["predicted"].max())]
    axis.plot(ends, ends, color=GREY, linestyle="--", linewidth=1, label="equal")
    axis.plot(deciles["predicted"], deciles["true"], marker="o", color=DUPLICATE, label="mean")
    axis.plot(deciles["predicted"], deciles["true_median"], marker="s", color=OTHER, label="median")
    axis.set(title="Calibration by decile", xlabel="predicted log10 hours", ylabel="true log10 hours")
    axis.grid(alpha=0.25)
    axis.legend(frameon=False)
    return figure


def rho_by_method(table: pd.DataFrame) -> Figure:
    """Spearman's rho of each method with its 95% interval; a constant has none and is left out."""
    shown = table[table["spearman"].notna()].iloc[::-1]
    figure = Figure(figsize=SIZE, layout="constrained")  # names of any length are on the left
    axis = figure.subplots()
    ends = np.stack([shown["spearman"] - shown["spearman_low"], shown["spearman_high"] - shown["spearman"]])
    names = [display_name(name) for name in shown["method"]]
    axis.errorbar(shown["spearman"], names, xerr=ends.clip(0), fmt="o", color=DUPLICATE, capsize=3)
    axis.axvline(0, color=GREY, linestyle="--", linewidth=1)
    axis.set(title="Rank correlation on test", xlabel="Spearman's rho")
    axis.grid(alpha=0.25)
    return figure


def importance(table: pd.DataFrame) -> Figure:
    """Permutation importance of the most important features."""
    shown = table.head(MAX_BARS).iloc[::-1]
    figure = Figure(figsize=SIZE, layout="constrained")  # names of any length are on the left
    axis = figure.subplots()
    axis.barh([name.replace("_", " ") for name in shown["feature"]], shown["importance"], color=DUPLICATE)
    axis.set(title="Importance of features on validation", xlabel="fall of Spearman's rho")
    axis.locator_params(axis="x", nbins=5)
    axis.grid(alpha=0.25, axis="x")
    return figure
