"""The section of a report about swept options: settings that differ only in one or two of them."""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gedbd.evaluation.display_names import metric_name
from gedbd.evaluation.figure_files import name_subject
from gedbd.evaluation.report import charts
from gedbd.evaluation.report.options import setting_key
from gedbd.evaluation.report.section import Section
from gedbd.evaluation.report.settings import Setting

SWEPT = ("fusion.lambda_text", "loss.margin", "graph.pca_dim", "encoder.dim", "trainer.max_epochs")
REPEATED_BY = {"encoder.dim": "fusion.dim"}  # an option that takes its value from a swept one
METRICS = ("f1", "rr@10")
TEXT = (
    "How results depend on swept options. The settings of a line or grid differ in nothing else; values are means over"
    " seeds, error bars one standard deviation to either side."
)


def sensitivity(corpus: str, settings: list[Setting]) -> Section | None:
    """A line over each option that varies alone, a grid over two that vary together; None if no option varies."""
    trained = [setting for setting in settings if not setting.runs[0].is_baseline]
    grids = {pair: _grids(trained, pair) for pair in combinations(SWEPT, 2)}
    in_grids = {name for pair, found in grids.items() if found for name in pair}
    lines = {name: _groups(trained, (name,)) for name in SWEPT if name not in in_grids}
    shown = [group for found in (*grids.values(), *lines.values()) for group in found]
    if not shown:
        return None
    chosen = {setting.label for group in shown for setting in group}
    swept = [name for name in SWEPT if name in in_grids or lines.get(name)]
    table = pd.DataFrame([_row(setting, swept) for setting in trained if setting.label in chosen])
    metrics = [name for name in METRICS if name in table]
    figures = [
        figure
        for metric in metrics
        for figure in (*_line_charts(lines, metric, corpus), *_grid_charts(grids, metric, corpus))
    ]
    table = table.dropna(axis="columns", how="all")
    return Section(f"Sensitivity: {corpus}", TEXT, [table], figures)


def _groups(settings: list[Setting], names: tuple[str, ...]) -> list[list[Setting]]:
    """Groups of settings that differ only in some options; each group has two values or more of each option."""
    ignored = {*names, *(REPEATED_BY[name] for name in names if name in REPEATED_BY)}
    groups: dict[Any, list[Setting]] = {}
    for setting in settings:
        if all(name in setting.counted for name in names):
            rest = {name: value for name, value in setting.counted.items() if name not in ignored}
            groups.setdefault((setting.base, setting_key(rest)), []).append(setting)
    return [group for group in groups.values() if all(_count_values(group, name) > 1 for name in names)]


def _grids(settings: list[Setting], pair: tuple[str, str]) -> list[list[Setting]]:
    """Groups in which two options vary together, not only one at a time."""
    # Three and four values, one at a time around a common point, are 3 + 4 - 1 settings; a grid has more.
    groups = _groups(settings, pair)
    return [group for group in groups if len(group) > sum(_count_values(group, name) for name in pair) - 1]


def _count_values(group: list[Setting], name: str) -> int:
    return len({setting.counted[name] for setting in group})


def _row(setting: Setting, swept: list[str]) -> dict[str, object]:
    row: dict[str, object] = {"model": setting.label_without(*swept)}
    row |= {name: setting.counted.get(name) for name in swept}
    row["seeds"] = len(setting.runs)
    for metric in METRICS:
        values = setting.by_seed(metric)
        if values is not None:
            row |= {metric: float(np.mean(values)), f"{metric} deviation": _deviation(values)}
    return row


def _deviation(values: list[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def _line_charts(lines: dict[str, list[list[Setting]]], metric: str, corpus: str) -> list[tuple[str, str, Figure]]:
    figures = []
    for name, groups in lines.items():
        table = _table(groups, (name,), metric)
        if len(table):
            caption = f"{metric_name(metric)} over {name}"
            subject = f"{corpus}: {table['model'].iloc[0]}" if table["model"].nunique() == 1 else corpus
            figure = name_subject(charts.sensitivity_grid(table, name, None, metric), subject)
            figures.append((f"line_{metric}_{name}_{corpus}", caption, figure))
    return figures


def _grid_charts(
    grids: dict[tuple[str, str], list[list[Setting]]], metric: str, corpus: str
) -> list[tuple[str, str, Figure]]:
    figures = []
    for (first, second), groups in grids.items():
        for number, group in enumerate(groups):
            table = _table([group], (first, second), metric)
            if len(table):
                caption = f"{metric_name(metric)} over {first} and {second}: {table['model'].iloc[0]}"
                subject = f"{corpus}: {table['model'].iloc[0]}"
                figure = name_subject(charts.sensitivity_grid(table, first, second, metric), subject)
                figures.append((f"grid_{metric}_{first}_{second}_{number}_{corpus}", caption, figure))
    return figures


def _table(groups: list[list[Setting]], names: tuple[str, ...], metric: str) -> pd.DataFrame:
    """A row for each setting that has the metric: the group's name, the options, mean and standard deviation."""
    rows = []
    for setting in (setting for group in groups for setting in group):
        values = setting.by_seed(metric)
        if values is not None:
            row = {"model": setting.label_without(*names), **{name: setting.counted[name] for name in names}}
            rows.append(row | {metric: float(np.mean(values)), f"{metric}_deviation": _deviation(values)})
    return pd.DataFrame(rows)
