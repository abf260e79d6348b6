"""Figures of a report: each function takes settings or tables and returns a matplotlib figure."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.metrics import precision_recall_curve

from gedbd.evaluation.display_names import metric_name
from gedbd.evaluation.figure_files import DUPLICATE, OTHER, SERIES, colour, line_style
from gedbd.evaluation.figures import SIZE, draw_confusion_matrix
from gedbd.evaluation.report.run_settings import Setting

LONGEST_IN_TWO_COLUMNS = 45  # characters of a legend's entry
LONGEST_ENTRY = 100  # characters that fit beside the colour in a single column


def rank_curves(settings: list[Setting], protocol: str) -> Figure:
    """RR@k over k of each setting's own method, and of the first setting's other methods."""
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    axis = figure.subplots()
    k = np.arange(1, 101)
    lines = [(setting.label, setting.ranks(setting.methods[0], protocol)) for setting in settings]
    first = settings[0]
    lines += [(first.name_of(method), first.ranks(method, protocol)) for method in first.methods[1:]]
    for place, (label, table) in enumerate(lines):
        if table is not None and len(table):
            rank = table["rank"].to_numpy()
            share = [np.mean((rank > 0) & (rank <= top)) for top in k]
            axis.step(k, share, where="post", label=label, **_style(place))
    ceiling = np.mean([table["reachable"].mean() for _, table in lines if table is not None and len(table)])
    axis.axhline(float(ceiling), color="black", linestyle=":", linewidth=1)
    counted = first.words_of(protocol).unit
    axis.set(
        title=f"Duplicates found among the first k {counted}", xlabel="k", ylabel="RR@k", xscale="log", ylim=(0, 1.02)
    )
    axis.set_xticks([1, 5, 10, 20, 100], labels=["1", "5", "10", "20", "100"])
    return _with_legend(figure)


def precision_recall(settings: list[Setting]) -> Figure:
    """Precision over recall on pairs, of each setting's own method."""
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    axis = figure.subplots()
    for place, setting in enumerate(settings):
        scores, labels = setting.scores(setting.methods[0])
        precision, recall, _ = precision_recall_curve(labels, scores)
        axis.step(recall, precision, where="post", label=setting.label, **_style(place))
    axis.set(title="Precision and recall on pairs", xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
    return _with_legend(figure)


def training_curves(setting: Setting) -> Figure:
    """Loss and F1 by epoch, one line a seed (the paper's Figures 3 and 4)."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    for axis, name, title in zip(figure.subplots(1, 2), ("loss", "f1"), ("Loss", "F1"), strict=True):
        for part, tone, marker in (("train", DUPLICATE, "o"), ("val", OTHER, "s")):
            for number, run in enumerate(setting.runs):
                epochs = run.epochs
                if epochs is not None:
                    label = part if number == 0 else None
                    axis.plot(epochs["epoch"] + 1, epochs[f"{part}/{name}"], marker=marker, color=tone, label=label)
        axis.set(title=title, xlabel="epoch")
        axis.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        axis.grid(alpha=0.25)
        axis.legend(frameon=False)
    return figure


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
    figure = Figure(figsize=SIZE, layout="constrained")
    axis = figure.subplots()
    for place, (kind, mine) in enumerate(table.groupby("kind", sort=False)):
        mine = mine.sort_values("fraction")
        shifted = mine["fraction"] * (1 + 0.04 * place)  # or the error bars would cover each other
        bars = np.stack([mine[metric] - mine[f"{metric}_low"], mine[f"{metric}_high"] - mine[metric]])
        axis.errorbar(shifted, mine[metric], yerr=bars, capsize=3, marker="o", label=kind, **_style(place))
    shares = sorted(table["fraction"].unique())
    axis.set(title="Label scarcity", xlabel="share of the training groups that are known", xscale="log")
    axis.set(ylabel=metric_name(metric))
    axis.set_xticks(shares, labels=[f"{share:g}" for share in shares])
    axis.minorticks_off()
    return _with_legend(figure)


def year_curve(table: pd.DataFrame, metric: str) -> Figure:
    """A metric over the test years, one line a method; error bars are intervals over test reports.

    Args:
        table: ``year``, ``model``, and the metric with ``_low`` and ``_high``.
        metric: Name of the metric.
    """
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    axis = figure.subplots()
    years = sorted(table["year"].unique())
    for place, (model, mine) in enumerate(table.groupby("model", sort=False)):
        x = [years.index(year) + 0.02 * place for year in mine["year"]]  # or the error bars would cover each other
        bars = np.stack([mine[metric] - mine[f"{metric}_low"], mine[f"{metric}_high"] - mine[metric]])
        axis.errorbar(x, mine[metric], yerr=bars, capsize=3, marker="o", label=model, **_style(place))
    axis.set(title="Trained on the years before", xlabel="test year", ylabel=metric_name(metric))
    axis.set_xticks(range(len(years)), labels=years)
    return _with_legend(figure)


def sensitivity_grid(table: pd.DataFrame, first: str, second: str | None, metric: str) -> Figure:
    """A metric over one option, or over two as a grid of numbers; empty cells were not run.

    Over one option with numeric values it draws a line for each ``model``; over any other option bars side by side.

    Args:
        table: The options, the metric and, optionally, ``model`` and ``<metric>_deviation``, half an error bar.
        first: Option on the x axis.
        second: Option on the y axis of a grid, or None.
        metric: Name of the metric.
    """
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axis = figure.subplots()
    if second is None:
        table = table.assign(model=table.get("model", metric))
        # For pandas, bool is numeric.
        if pd.api.types.is_numeric_dtype(table[first]) and not pd.api.types.is_bool_dtype(table[first]):
            _lines(axis, table, first, metric)
        else:
            _bars(axis, table, first, metric)
        axis.set(xlabel=first, ylabel=metric_name(metric))
        return _with_legend(figure) if table["model"].nunique() > 1 else figure
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
        axis.errorbar(mean.index, mean[metric], yerr=bars, capsize=3, marker="o", label=model, **_style(place))
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


def cut_labels(labels: list[str], max_length: int = LONGEST_ENTRY) -> list[str]:
    """Long labels with an ellipsis in their middle; all of them in full if two would become equal."""
    half = max_length // 2
    cut = [f"{label[:half]}…{label[-half:]}" if len(label) > max_length else label for label in labels]
    return cut if len(set(cut)) == len(set(labels)) else labels


def _style(place: int) -> dict[str, Any]:
    return {"color": colour(place), "linestyle": line_style(place)}


def _with_legend(figure: Figure) -> Figure:
    axis = figure.axes[0]
    axis.grid(alpha=0.25)
    handles, labels = axis.get_legend_handles_labels()
    labels = cut_labels(labels)
    columns = 1 if max(map(len, labels)) > LONGEST_IN_TWO_COLUMNS else 2
    figure.legend(handles, labels, loc="outside lower center", frameon=False, fontsize=8, ncols=columns)
    return figure
