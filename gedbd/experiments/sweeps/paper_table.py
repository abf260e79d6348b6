"""Tables of a sweep beside published numbers: what they look like on a page and in the terminal."""

import os
import re
from collections.abc import Mapping

import pandas as pd
import torch
from rich.console import Console

from gedbd.evaluation.report.section import show
from gedbd.io.command_output import print_table


def readable(table: pd.DataFrame, headings: Mapping[str, str] | None = None) -> pd.DataFrame:
    """A table to show: short headings, and no empty columns such as intervals of a single seed.

    Args:
        table: The table.
        headings: Parts of column names and what replaces them.
    """
    shown = table.copy()
    if headings:
        pattern = re.compile("|".join(headings))
        shown = shown.rename(columns=lambda name: pattern.sub(lambda match: headings[match[0]], str(name)))
    for name in shown.select_dtypes("bool").columns:
        shown[name] = shown[name].map({True: "yes", False: ""})
    empty = [name for name in shown.columns if (shown[name].isna() | (shown[name].astype(str) == "")).all()]
    return shown.drop(columns=empty)


def print_paper_table(
    console: Console, table: pd.DataFrame, title: str, headings: Mapping[str, str] | None = None
) -> None:
    """Prints a table without its intervals, to fit 80 columns."""
    narrow = table[[column for column in table.columns if not str(column).endswith(("_low", "_high"))]]
    shown = show(readable(narrow, headings))
    cells = [[cell.text for cell in row] for row in shown.rows]
    print_table(console, pd.DataFrame(cells, columns=shown.header), title)


def device() -> str:
    """The GPU, or how many CPU cores there are."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{os.cpu_count()} CPU cores"
