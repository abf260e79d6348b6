"""A section of a report: title, text, tables and figures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gedbd.corpora.urls import URL_OF, web_url
from gedbd.evaluation.display_names import column_name, format_p_value, is_option, is_p_value
from gedbd.experiments.report.judging import VERDICT

BEST = ("f1", "average precision", "rr@1", "rr@5", "rr@10", "rr@20", "rr@100", "mrr", "map", "map@10")
MIN_LONG_CELL = 24  # characters
MAX_DRAWN = 24  # settings in a figure, or figures of a kind
T = TypeVar("T")


@dataclass(frozen=True)
class Section:
    """A part of the report.

    Attributes:
        title: Heading.
        text: One paragraph.
        tables: Tables.
        figures: Names, captions (also the alternative text) and figures, drawn or as PNG files.
        asks_verdicts: Whether the rows of the tables, which have the columns ``report``, ``suggested`` and ``verdict``,
            get buttons for a verdict; see ``Judging``.
        subject: Corpus and model, which its figures name that do not name theirs; empty for those of the page.
    """

    title: str
    text: str
    tables: list[pd.DataFrame] = field(default_factory=list)
    figures: Sequence[tuple[str, str, Figure | Path]] = field(default_factory=list)
    asks_verdicts: bool = False
    subject: str = ""


def pick(values: Mapping[str, float], names: Iterable[str]) -> dict[str, float]:
    """The values that exist, in the order of the names."""
    return {name: values[name] for name in names if name in values}


def with_models(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> pd.DataFrame:
    """A table of rows; the column ``model`` is shown only if the other columns do not identify each row.

    Args:
        rows: The rows, each with ``model``.
        columns: The columns that identify a row.
    """
    table = pd.DataFrame(rows)
    return table if table.duplicated(list(columns)).any() else table.drop(columns="model")


def first_of(values: list[T], count: int = MAX_DRAWN) -> tuple[list[T], str]:
    """The first values, which are drawn, and a sentence that says so if there are more."""
    notice = f" Figures show the first {count} of {len(values)} settings." if len(values) > count else ""
    return values[:count], notice


@dataclass(frozen=True)
class Cell:
    """A formatted cell; ``best`` if it has the highest value of a metric, ``url`` if it is a link."""

    text: str
    best: bool = False
    url: str = ""


@dataclass(frozen=True)
class FormattedTable:
    """A formatted table; ``pairs`` are the ids of each row that gets buttons for a verdict."""

    header: list[str]
    numeric: list[bool]
    rows: list[list[Cell]]
    pairs: Sequence[tuple[str, str]] = ()

    @property
    def kinds(self) -> list[str]:
        """The CSS class of each column: ``number``, ``long`` for wide columns of text, or empty."""
        kinds = []
        for place, is_number in enumerate(self.numeric):
            longest = max((len(row[place].text) for row in self.rows), default=0)
            kinds.append("number" if is_number else "long" if longest > MIN_LONG_CELL else "")
        if self.pairs:
            kinds[self.header.index(VERDICT)] = VERDICT
        return kinds


def show(table: pd.DataFrame) -> FormattedTable:
    """Formats a table: three decimals, intervals after values, best metrics marked, ids linked (``with_urls``)."""
    linking = {f"{URL_OF}{name}" for name in table.columns}
    names = [name for name in table.columns if not str(name).endswith(("_low", "_high")) and name not in linking]
    header = [column_name(str(name)) for name in names]
    numeric = [bool(pd.api.types.is_numeric_dtype(table[name])) for name in names]
    columns = [_cells(table, str(name)) for name in names]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return FormattedTable(header, numeric, rows)


def _cells(table: pd.DataFrame, name: str) -> list[Cell]:
    values = table[name]
    is_metric = name.replace("_", " ").removeprefix("pool ") in BEST
    highest = values.max() if is_metric and len(values) > 1 else np.nan  # equal to no value
    write = format_p_value if is_p_value(name) else partial(_text, form="g" if is_option(name) else ".3f")
    cells = []
    for place, value in enumerate(values):
        text = "" if pd.isna(value) else write(value)
        if text and f"{name}_low" in table:
            low, high = (_text(table[f"{name}_{end}"].iloc[place], ".3f") for end in ("low", "high"))
            text += f" [{low}, {high}]"
        cells.append(Cell(text, is_metric and bool(value == highest), _url(table, name, place)))
    return cells


def _text(value: object, form: str) -> str:
    """A float in a format, never as minus zero; anything else as it is."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:z{form}}"


def _url(table: pd.DataFrame, name: str, place: int) -> str:
    """The address that a cell links to, empty if the table has none."""
    urls = table.get(f"{URL_OF}{name}")
    return "" if urls is None or pd.isna(urls.iloc[place]) else web_url(str(urls.iloc[place]))
