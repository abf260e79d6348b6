"""What a report is made of."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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
        figures: Names, captions (also the alternative text) and figures.
    """

    title: str
    text: str
    tables: list[pd.DataFrame] = field(default_factory=list)
    figures: list[tuple[str, str, Figure]] = field(default_factory=list)


def pick(values: Mapping[str, float], names: Iterable[str]) -> dict[str, float]:
    """Those of some values that are there, in the order of the names."""
    return {name: values[name] for name in names if name in values}


def with_models(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> pd.DataFrame:
    """A table of rows that tell their ``model``, a column that is shown only if others do not tell the rows apart.

    Args:
        rows: The rows.
        columns: The columns that name a row.
    """
    table = pd.DataFrame(rows)
    return table if table.duplicated(list(columns)).any() else table.drop(columns="model")


def first_of(values: list[T], count: int = MAX_DRAWN) -> tuple[list[T], str]:
    """The first values, to be drawn, and a sentence that says so where there are more."""
    notice = f" Figures show the first {count} of {len(values)} settings." if len(values) > count else ""
    return values[:count], notice
