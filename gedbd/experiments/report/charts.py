"""Figures of a report: each function takes settings or tables and returns a matplotlib figure."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gedbd.evaluation.display_names import metric_name
from gedbd.evaluation.figure_files import SERIES, colour
from gedbd.evaluation.figures import SIZE, draw_confusion_matrix, finish_figure, line_options, start_figure
from gedbd.experiments.report.run_settings import Setting


def confusion_matrices(settings: list[Setting]) -> Figure:
    """Confusion matrix of each setting at its own thresholds, all seeds together (the paper's Figure 2)."""
    columns = min(4, len(settings))
    rows = -(-len(settings) // columns)  # rounded up
    figure = Figure(figsize=(2.7 * columns, 2.7 * rows), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns)).flatten()
    for axis in axes[len(settings) :]:
        axis.axis("off")
    for axis, setting in zip(axes, settings, strict=False):
        tables = [run.predictions[run.predictions["part"] == run.part] for run in setting.runs]
        every = pd.concat(tables)
        draw_confusion_matrix(axis, every["label"].to_numpy(), every["predicted"].to_numpy(), fontsize=10)
        axis.set_title("\n".join(setting.label.split(", ")), fontsize=8)
        axis.set(xticks=[0, 1], yticks=[0, 1], xticklabels=["other", "dup."], yticklabels=["other", "dup."])
        axis.set_xlabel("predicted", fontsize=8)
        axis.set_ylabel("true", fontsize=8)
    return figure


def scarcity_curve(table: pd.DataFrame, metric: str) -> Figure:
    """A metric over the share of known groups, one line a kind; error bars are intervals over test reports.

    Args:
        table: ``fraction``, ``kind``, and the metric with ``_low`` and ``_high``.
        metric: Name of the metric.
    """
    figure, axis = start_figure(wide=True)
    for place, (kind, mine) in enumerate(table.groupby("kind", sort=False)):
        mine = mine.sort_values("fraction")
        _interval_line(axis, mine["fraction"] * (1 + 0.04 * place), mine, metric, str(kind), place)
    shares = sorted(table["fraction"].unique())
    axis.set(title="Label scarcity", xlabel="share of the training groups that are known", xscale="log")
    axis.set(ylabel=metric_name(metric))
    axis.set_xticks(shares, labels=[f"{share:g}" for share in shares])
    axis.minorticks_off()
    return finish_figure(figure, wide=True)


def year_curve(table: pd.DataFrame, metric: str) -> Figure:
    """A metric over the test years, one line a method; error bars are intervals over test reports.

    Args:
        table: ``year``, ``model``, and the metric with ``_low`` and ``_high``.
        metric: Name of the metric.
    """
    figure, axis = start_figure(wide=True)
    years = sorted(table["year"].unique())
    for place, (model, mine) in enumerate(table.groupby("model", sort=False)):
        _interval_line(axis, mine["year"].map(years.index) + 0.02 * place, mine, metric, str(model), place)
    axis.set(title="Trained on the years before", xlabel="test year", ylabel=metric_name(metric))
    axis.set_xticks(range(len(years)), labels=years)
    return finish_figure(figure, wide=True)


def _interval_line(axis: Axes, x: pd.Series, table: pd.DataFrame, metric: str, label: str, place: int) -> None:
    """A line with its intervals; each line is shifted a little, or the error bars would cover each other."""
    bars = np.stack([table[metric] - table[f"{metric}_low"], table[f"{metric}_high"] - table[metric]])
    axis.errorbar(x, table[metric], yerr=bars, capsize=3, marker="o", label=label, **line_options(place))


def sensitivity_grid(table: pd.DataFrame, first: str, second: str | None, metric: str) -> Figure:
    """A metric over one option, or over two as a grid of numbers; empty cells were not run.

    Over one option with numeric values it draws a line for each ``model``; over any other option bars side by side.

    Args:
        table: The options, the metric and, optionally, ``model`` and ``<metric>_deviation``, half an error bar.
        first: Option on the x axis.
        second: Option on the y axis of a grid, or None.
        metric: Name of the metric.
    """
    figure = Figure(figsize=SIZE, layout="constrained")
    axis = figure.subplots()
    if second is None:
        table = table.assign(model=table.get("model", metric))
        # For pandas, bool is numeric.
        if pd.api.types.is_numeric_dtype(table[first]) and not pd.api.types.is_bool_dtype(table[first]):
            _lines(axis, table, first, metric)
        else:
            _bars(axis, table, first, metric)
        axis.set(xlabel=first, ylabel=metric_name(metric))
        return finish_figure(figure, wide=True) if table["model"].nunique() > 1 else figure
    _grid(figure, axis, table.pivot_table(index=second, columns=first, values=metric, aggfunc="mean"), metric)
    return figure


def _grid(figure: Figure, axis: Axes, grid: pd.DataFrame, metric: str) -> None:
    """A metric over two options, with its value in each cell."""
    values = grid.to_numpy()
    image = axis.imshow(values, cmap="viridis", aspect="auto", origin="lower")
    middle = np.nanmean([np.nanmin(values), np.nanmax(values)])
    for (y, x), value in np.ndenumerate(values):
        if np.isfinite(value):
            tone = "white" if value < middle else "black"  # low values are dark in viridis
            axis.text(x, y, f"{value:.3f}", ha="center", va="center", color=tone, fontsize=9)
    axis.set(xlabel=grid.columns.name, ylabel=grid.index.name)
    axis.set_xticks(range(grid.shape[1]), labels=[str(value) for value in grid.columns])
    axis.set_yticks(range(grid.shape[0]), labels=[str(value) for value in grid.index])
    figure.colorbar(image, ax=axis, label=metric_name(metric))


def _lines(axis: Axes, table: pd.DataFrame, option: str, metric: str) -> None:
    for place, (model, mine) in enumerate(table.groupby("model", sort=False)):
        # Settings that differ in an option not shown here have the same x.
        mean = mine.groupby(option)[[name for name in (metric, f"{metric}_deviation") if name in mine]].mean()
        bars = mean.get(f"{metric}_deviation")
        axis.errorbar(mean.index, mean[metric], yerr=bars, capsize=3, marker="o", label=model, **line_options(place))
    values = sorted(table[option].unique())
    if values[0] > 0 and values[-1] >= 10 * values[0]:
        axis.set_xscale("log")
    axis.set_xticks(values, labels=[f"{value:g}" for value in values])
    axis.minorticks_off()
    axis.grid(alpha=0.25)


def _bars(axis: Axes, table: pd.DataFrame, option: str, metric: str) -> None:
    values = list(dict.fromkeys(table[option].astype(str)))
    models = list(table.groupby("model", sort=False))
    width = 0.8 / len(models)
    for place, (model, mine) in enumerate(models):
        x = np.array([values.index(value) for value in mine[option].astype(str)])
        # Side by side around x: for three models at -width, 0 and +width.
        shifted = x + width * (place - (len(models) - 1) / 2)
        bars = mine.get(f"{metric}_deviation")
        axis.bar(shifted, mine[metric], width=0.9 * width, yerr=bars, capsize=3, label=model, color=colour(place))
    axis.set_xticks(range(len(values)), labels=values)
    axis.grid(alpha=0.25, axis="y")


def tsne_projection(table: pd.DataFrame) -> Figure:
    """t-SNE projection of reports; duplicates share a colour and a marker, other reports are grey."""
    figure = Figure(figsize=(7, 5.4), layout="constrained")
    axis = figure.subplots()
    singletons = table[table["group"] < 0]
    axis.scatter(singletons["x"], singletons["y"], s=8, color="#c8c8c8")
    for place, (_, mine) in enumerate(table[table["group"] >= 0].groupby("group")):
        marker = "os^DvP"[place // len(SERIES) % 6]  # the next marker after all colours
        tone = colour(place)
        axis.scatter(mine["x"], mine["y"], s=26, color=tone, marker=marker, edgecolors="white", linewidths=0.4)
        axis.plot(mine["x"], mine["y"], color=tone, alpha=0.25, linewidth=0.8)
    axis.set(xticks=[], yticks=[], title="Reports by their vectors (t-SNE)")
    return figure
