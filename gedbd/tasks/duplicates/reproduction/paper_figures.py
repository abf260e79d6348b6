"""Figures 3 and 4 of the paper, with all methods."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from gedbd.evaluation.palette import colour
from gedbd.evaluation.report.settings import Setting
from gedbd.tasks.duplicates.reproduction.paper_tables import is_published, mean_epochs
from gedbd.tasks.duplicates.reproduction.published import read_published


def convergence(settings: Sequence[Setting]) -> Figure:
    """Loss and F1 by epoch of all methods on one corpus, means over seeds; numbers of the paper as crosses.

    Args:
        settings: Settings of one corpus.
    """
    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    axes = figure.subplots(1, 2)
    for number, setting in enumerate(settings):
        tone = colour(number)
        means = mean_epochs(setting)
        for axis, metric in zip(axes, ("loss", "f1"), strict=True):
            for part, line in (("train", "-"), ("val", "--")):
                label = f"{setting.label}: {part}"
                axis.plot(means["epoch"], means[f"{part}/{metric}"], line, marker="o", color=tone, label=label)
    if is_published(settings[0]):
        published = read_published("figures34")
        _cross(axes, published[published["corpus"] == settings[0].corpus])
    for axis, title in zip(axes, ("Loss", "F1"), strict=True):
        axis.set(title=f"{title}: {settings[0].corpus}", xlabel="epoch")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.25)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def _cross(axes: Sequence[Any], published: pd.DataFrame) -> None:
    """Marks the numbers in the paper's text; its figures print none."""
    marks = {"train": "x", "val": "+"}
    for graph, tone in ((True, "black"), (False, "grey")):
        mine = published[published["graph"] == graph]
        for axis, metric in zip(axes, ("loss", "f1"), strict=True):
            for part, mark in marks.items():
                stated = mine[mine[f"{part}/{metric}"].notna()]
                if len(stated):
                    label = f"paper, {stated['encoder'].iloc[0]}{' + graph' if graph else ''}: {part}"
                    axis.plot(stated["epoch"], stated[f"{part}/{metric}"], mark, color=tone, label=label)
