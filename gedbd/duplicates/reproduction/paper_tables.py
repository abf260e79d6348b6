"""Tables of runs next to the published numbers.

Each row is a model on a corpus. If the paper has this model and corpus, its numbers are in the same row, in columns
that begin with ``paper``; the paper's other models follow in rows of their own.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gedbd.evaluation.display_names import TEXT, TEXT_GRAPH, display_name
from gedbd.evaluation.figures import colour
from gedbd.experiments.report.run_settings import Setting
from gedbd.io.files import locate
from gedbd.io.table_files import read_csv

PAIR_METRICS = ("precision", "recall", "f1")
CURVES = ("train/loss", "val/loss", "train/f1", "val/f1")
Rows = list[dict[str, Any]]


def is_published(setting: Setting) -> bool:
    """Whether a setting has the paper's corpus: the reports of a published training file."""
    return setting.runs[0].config.dataset.get("subset") == "train" and setting.corpus in {"eclipse", "thunderbird"}


def table5(settings: Sequence[Setting]) -> pd.DataFrame:
    """Precision, recall and F1 on test pairs, means over seeds; F1 with its interval over test pairs."""

    def rows(setting: Setting) -> Rows:
        values = setting.pair_metrics(setting.methods[0])
        return [{name: values[name] for name in (*PAIR_METRICS, "f1_low", "f1_high")}]

    return _beside(settings, "table5", rows, PAIR_METRICS)


def table4(settings: Sequence[Setting]) -> pd.DataFrame:
    """Minutes of a training epoch, means over epochs and seeds, and their ratio to BERT's text alone on that corpus.

    Without such a run, the ratio is to the corpus' first run of text alone; without any, it is missing.
    """
    minutes = {id(setting): minutes_per_epoch(setting) for setting in settings}

    def rows(setting: Setting) -> Rows:
        alone = [other for other in settings if other.corpus == setting.corpus and not _has_graph(other)]
        alone.sort(key=lambda other: _encoder(other) != "bert")  # stable: BERT first, the others in their order
        relative = minutes[id(setting)] / minutes[id(alone[0])] if alone else np.nan
        return [{"minutes": minutes[id(setting)], "relative": relative}]

    return _beside(settings, "table4", rows, ("minutes", "relative"))


def minutes_per_epoch(setting: Setting) -> float:
    """Mean over the epochs of all runs; NaN if they recorded no time."""
    seconds = [run.epochs["train/seconds"].mean() for run in setting.runs if run.epochs is not None]
    return float(np.mean(seconds)) / 60 if seconds else float("nan")


def figures34(settings: Sequence[Setting]) -> pd.DataFrame:
    """Loss and F1 of training and validation after each epoch, means over seeds."""

    def rows(setting: Setting) -> Rows:
        means = mean_epochs(setting)
        return [
            {"epoch": int(row["epoch"]), **{name: row[name] for name in CURVES}} for row in means.to_dict("records")
        ]

    return _beside(settings, "figures34", rows, CURVES)


def mean_epochs(setting: Setting) -> pd.DataFrame:
    """Means over a setting's seeds of the curves after each epoch; ``epoch`` counts from 1."""
    every = pd.concat([run.epochs for run in setting.runs if run.epochs is not None])
    means = every.groupby("epoch")[list(CURVES)].mean().reset_index()
    return means.assign(epoch=means["epoch"] + 1)


def _beside(
    settings: Sequence[Setting], item: str, rows: Callable[[Setting], Rows], metrics: Sequence[str]
) -> pd.DataFrame:
    """The rows of each setting with the paper's numbers, followed by the paper's other rows."""
    published = read_published(item)
    left = set(published.index)  # rows of the paper without a run
    found = []
    for setting in settings:
        first = {"corpus": setting.corpus, "model": setting.label, "seeds": str(len(setting.runs))}
        for row in rows(setting):
            match = _find(published, setting, row.get("epoch"))
            left -= {match}
            paper = {} if match is None else published.loc[match].to_dict()
            found.append(first | row | {f"paper {name}": paper.get(name, np.nan) for name in metrics})
    for place in sorted(left):  # in the order of the paper
        paper = published.loc[place].to_dict()
        method = TEXT_GRAPH if paper["graph"] else TEXT
        model = f"{paper['encoder']}, {display_name(method)}"
        row = {"corpus": paper["corpus"], "model": model, "seeds": ""}
        row |= {} if paper["epoch"] is None else {"epoch": int(paper["epoch"])}
        found.append(row | {f"paper {name}": paper.get(name, np.nan) for name in metrics})
    return pd.DataFrame(found)


def _find(published: pd.DataFrame, setting: Setting, epoch: int | None) -> int | None:
    """The published row of a setting's model, corpus and, in figures, epoch."""
    if not is_published(setting):
        return None
    same = (published["corpus"] == setting.corpus) & (published["encoder"] == _encoder(setting))
    same &= published["graph"] == _has_graph(setting)
    if epoch is not None:
        same &= published["epoch"] == epoch
    return int(published.index[same][0]) if same.any() else None


def _encoder(setting: Setting) -> str:
    return str(setting.runs[0].config.encoder.name)


def _has_graph(setting: Setting) -> bool:
    return setting.methods[0] == TEXT_GRAPH


def read_published(item: str) -> pd.DataFrame:
    """The published numbers of one table or figure.

    Args:
        item: ``table4``, ``table5`` or ``figures34``.

    Returns:
        One row a model, in the paper's order: ``corpus``, ``encoder``, ``graph`` (bool), ``epoch`` (from 1; null in
        tables), and one column a metric. The paper's own model is BERT with the graph, as in the authors' code.
    """
    table = read_csv(locate("pkg://gedbd.duplicates.reproduction/published.csv"), "value")
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in table[table["item"] == item].to_dict("records"):  # the file has one row a metric
        epoch = row["epoch"] if pd.notna(row["epoch"]) else None
        first = {"corpus": row["corpus"], "encoder": row["encoder"], "graph": bool(row["graph"]), "epoch": epoch}
        rows.setdefault(tuple(first.values()), first)[row["metric"]] = row["value"]
    return pd.DataFrame(list(rows.values()))


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
