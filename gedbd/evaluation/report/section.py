"""A section of a report: title, text, tables and figures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from matplotlib.figure import Figure

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
    """

    title: str
    text: str
    tables: list[pd.DataFrame] = field(default_factory=list)
    figures: Sequence[tuple[str, str, Figure | Path]] = field(default_factory=list)
    asks_verdicts: bool = False


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
