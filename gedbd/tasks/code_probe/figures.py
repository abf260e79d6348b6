"""The figures of a run: bars with intervals, and differences."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gedbd.evaluation.display_names import display_name, metric_name
from gedbd.evaluation.figure_files import DUPLICATE, GREY, OTHER

FAMILIES = {
    "types_and_roles": ("type_accuracy", "type_macro_f1", "role_accuracy", "role_macro_f1"),
    "flow_of_data": ("flow_accuracy", "flow_average_precision"),
    "search": ("zero_shot_mrr", "zero_shot_mrr_hidden_name", "search_mrr", "search_mrr_hidden_name"),
}
CAPTIONS = {
    "types_and_roles": "Types and roles of variables from the code alone; lines are 95% intervals over methods",
    "flow_of_data": "Whether data flow between two variables, from the code alone; chance is 0.5",
    "search": "Mean reciprocal rank of the method that a comment belongs to",
    "differences": "Differences to the other methods with 95% intervals over methods",
}


def measure_bars(table: pd.DataFrame, measures: tuple[str, ...]) -> Figure | None:
    """A panel of horizontal bars for each measure that the table has; None if it has none.

    Args:
        table: See ``results_table``.
        measures: What to show.
    """
    shown = [name for name in measures if name in set(table["measure"])]
    if not shown:
        return None
    rows = -(-len(shown) // 2)
    figure = Figure(figsize=(9.6, 0.9 + 2.6 * rows), layout="constrained")
    panels = figure.subplots(rows, 2, squeeze=False).ravel()
    for panel, name in zip(panels, shown, strict=False):
        _bars(panel, table[table["measure"] == name].iloc[::-1], metric_name(name))
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    return figure


def difference_bars(table: pd.DataFrame) -> Figure | None:
    """A point with its interval for each measure and pair of methods; None without any. See ``differences_table``."""
    if not len(table):
        return None
    shown = table.iloc[::-1]
    names = [
        f"{metric_name(row['measure'])}: {display_name(row['method'])} minus {display_name(row['against'])}"
        for row in shown.to_dict("records")
    ]
    figure = Figure(figsize=(9.6, 1.2 + 0.22 * len(shown)), layout="constrained")
    panel = figure.subplots()
    ends = _ends(shown, "difference")
    panel.errorbar(shown["difference"], np.arange(len(shown)), xerr=ends, fmt="o", color=DUPLICATE, capsize=2)
    panel.set_yticks(np.arange(len(shown)), names, fontsize=7)
    panel.axvline(0, color=GREY, linestyle="--", linewidth=1)
    panel.grid(alpha=0.25)
    panel.set(xlabel="difference")
    return figure


def draw(table: pd.DataFrame, differences: pd.DataFrame) -> dict[str, Figure]:
    """The figures, by name."""
    drawn = {name: measure_bars(table, measures) for name, measures in FAMILIES.items()}
    drawn["differences"] = difference_bars(differences)
    return {name: figure for name, figure in drawn.items() if figure is not None}


def _bars(panel: Axes, rows: pd.DataFrame, title: str) -> None:
    names = [display_name(name) for name in rows["method"]]
    panel.barh(names, rows["value"], xerr=_ends(rows, "value"), color=OTHER, alpha=0.8, capsize=2)
    panel.set_title(title, fontsize=9)
    panel.tick_params(labelsize=7)
    panel.grid(alpha=0.25, axis="x")


def _ends(rows: pd.DataFrame, name: str) -> np.ndarray:
    """``(2, N)`` lengths of the lines left and right of each value."""
    left = rows[name] - rows[f"{name}_low"]
    right = rows[f"{name}_high"] - rows[name]
    return np.stack([left, right]).clip(0)
