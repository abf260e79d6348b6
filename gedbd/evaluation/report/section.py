"""What a report is made of."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pandas as pd
from matplotlib.figure import Figure


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
