"""The figures of a run."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gedbd.evaluation.display_names import display_name
from gedbd.evaluation.palette import DUPLICATE, GREY, OTHER
from gedbd.tasks.localization.rankings import MAX_RANK, Measured

MAX_CURVES = 6
TICKS = (1, 5, 10, 20, 100)


def mrr_bars(table: pd.DataFrame, trained: Sequence[str], baseline: str) -> Figure:
    """MRR of every method with its interval, a panel for each granularity.

    Args:
        table: See ``ranking_table``.
        trained: Methods in the first colour.
        baseline: A line shows its MRR.
    """
    names = list(dict.fromkeys(table["granularity"]))
    longest = table.groupby("granularity").size().max()
    figure = Figure(figsize=(4.4 * len(names) + 1, 1.4 + 0.24 * longest), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for panel, name in zip(panels, names, strict=True):
        rows = table[table["granularity"] == name].sort_values("mrr", kind="stable")
        _bars(panel, rows, trained)
        panel.set(title=f"{name}s", xlabel="MRR")
        of_baseline = rows.loc[rows["method"] == baseline, "mrr"]
        for value in of_baseline:
            panel.axvline(value, color=GREY, linestyle="--", linewidth=1)
    return figure


def _bars(panel: Axes, rows: pd.DataFrame, trained: Sequence[str]) -> None:
    colours = [DUPLICATE if name in trained else OTHER for name in rows["method"]]
    ends = np.stack([rows["mrr"] - rows["mrr_low"], rows["mrr_high"] - rows["mrr"]]).clip(0)
    labels = [display_name(name) for name in rows["method"]]
    panel.barh(labels, rows["mrr"], xerr=ends, color=colours, alpha=0.8, capsize=2)
    panel.tick_params(labelsize=7)
    panel.grid(alpha=0.25, axis="x")


def hit_curves(measured: Sequence[Measured], shown: Sequence[str]) -> Figure:
    """The share of reports with an inducing change among the first k, over k, a panel for each granularity.

    Args:
        measured: What the methods have reached.
        shown: Methods; of more than ``MAX_CURVES`` the first ones are drawn.
    """
    names = list(dict.fromkeys(one.granularity for one in measured))
    figure = Figure(figsize=(4.4 * len(names) + 1, 3.8), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    k = np.arange(1, MAX_RANK + 1)
    for panel, name in zip(panels, names, strict=True):
        of_level = {one.method: one for one in measured if one.granularity == name}
        for method in [method for method in shown if method in of_level][:MAX_CURVES]:
            rank = of_level[method].ranking.queries["rank"].to_numpy()
            shares = [np.mean((rank > 0) & (rank <= top)) for top in k]
            panel.step(k, shares, where="post", label=display_name(method))
        panel.set(title=f"{name}s", xlabel="k", ylabel="RR@k (hit@k)", xscale="log", ylim=(0, 1.02))
        panel.set_xticks(TICKS, labels=[str(tick) for tick in TICKS])
        panel.grid(alpha=0.25)
        panel.legend(frameon=False, fontsize=7, loc="upper left")
    return figure


def training_curves(epochs: pd.DataFrame) -> Figure:
    """Losses of training and validation, and MRR on validation, by epoch."""
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name in ("train/loss", "val/loss"):
        left.plot(epochs["epoch"] + 1, epochs[name], marker="o", markersize=3, label=name.partition("/")[0])
    right.plot(epochs["epoch"] + 1, epochs["val/mrr"], marker="o", markersize=3, label="val")
    for axis, title in ((left, "loss"), (right, "MRR on validation")):
        axis.set(title=title, xlabel="epoch")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(alpha=0.25)
        axis.legend(frameon=False)
    return figure
