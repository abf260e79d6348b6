"""Published numbers beside measured ones: read from the ``published.csv`` of a package, written after a sweep."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from rich.console import Console

from gedbd.experiments.report.report_page import markdown, show
from gedbd.experiments.report.run_settings import Setting
from gedbd.experiments.run_folder import Run, find_runs
from gedbd.io.command_output import print_table
from gedbd.io.console import escape_markdown, print_line, print_path
from gedbd.io.files import locate, write_text
from gedbd.io.table_files import read_csv

KEYS = ("item", "corpus", "method", "condition")  # identify a row of a published table
Row = dict[str, Any]


class BesidePublished(Callback):
    """Compares the finished runs of a sweep with a paper's numbers when the sweep ends, in the sweep's folder."""

    def __init__(self, write: Callable[[Path], None]) -> None:
        self.write = write

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Writes the files."""
        # Hydra loads this module with every command that names the callback: heavy imports wait until here.
        from gedbd.experiments.distributed import is_first

        if is_first():
            self.write(Path(config.hydra.sweep.dir))


def read_published(package: str, *items: str) -> pd.DataFrame:
    """The published numbers of some tables or figures.

    Args:
        package: The package whose ``published.csv`` is read: one row per number, with ``item`` (the table), ``corpus``,
            ``method``, ``name`` (as the paper calls it), ``condition`` (an epoch, or what is ranked), ``metric``,
            ``value`` and ``source``. An optional ``remark``, the same for all numbers of a row, says what is wrong
            with them or what the paper tested.
        items: Names of tables and figures.

    Returns:
        One row for each item, corpus, method and condition, in the paper's order, with one column per metric;
        numbers that the paper does not give are missing.
    """
    table = read_csv(locate(f"pkg://gedbd.{package}/published.csv"), "value")
    rows: dict[tuple[Any, ...], Row] = {}
    words = [str(name) for name in table.columns if name not in ("metric", "value")]
    table = table[table["item"].isin(items)].astype({name: object for name in words})
    table[words] = table[words].fillna("")
    for number in table.to_dict("records"):
        key_columns = {name: number[name] for name in words}
        key = tuple(key_columns[name] for name in KEYS)
        rows.setdefault(key, key_columns)[number["metric"]] = number["value"]
    return pd.DataFrame(list(rows.values()))


def beside(
    measured: Iterable[tuple[object, Row]], published: Mapping[object, Row], metrics: Sequence[str]
) -> tuple[list[Row], list[Row]]:
    """Measured rows with the paper's numbers in columns that begin with ``paper``.

    Args:
        measured: The key of each row in the paper's table, None for what the paper does not have, and the row.
        published: The paper's rows by key, with their names and metrics.
        metrics: The metrics that are compared.

    Returns:
        The rows, and the paper's rows without a measured one, in the paper's order.
    """
    measured = list(measured)
    keys = {key for key, _ in measured}
    rows = [row | _paper_columns(published.get(key, {}), metrics) for key, row in measured]
    only_paper = [
        {name: value for name, value in row.items() if name not in metrics} | _paper_columns(row, metrics)
        for key, row in published.items()
        if key not in keys
    ]
    return rows, only_paper


def _paper_columns(row: Mapping[str, Any], metrics: Sequence[str]) -> Row:
    return {f"paper {metric}": row.get(metric, float("nan")) for metric in metrics}


def finished_runs(name: str, sweep_dir: Path, console: Console) -> list[Run]:
    """The finished runs of a sweep; if there are none, prints that there is no table ``name``."""
    try:
        return find_runs([sweep_dir]).finished
    except ValueError:
        print_line(console, f"{name}: no table, because no run of {sweep_dir} has finished")
        return []


def corpus_note(settings: Sequence[Setting], measured: str = "") -> str:
    """What was measured on a corpus, by which encoders, where and when.

    ``measured`` names what else was the same in all runs.
    """
    first = settings[0]
    encoders = ", ".join(dict.fromkeys(str(setting.runs[0].config.encoder.name) for setting in settings))
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{os.cpu_count()} CPU cores"
    note = f"Ours: corpus {first.corpus}, encoder {encoders}, split={first.split}{measured}; {device}, {date.today()}."
    if "tiny" in encoders.split(", "):
        note += " The encoder tiny is random: its numbers only show that everything runs."
    return note


def readable(table: pd.DataFrame, headings: Mapping[str, str] | None = None) -> pd.DataFrame:
    """A table to show: short headings, and no empty columns such as intervals of a single seed.

    ``headings`` maps substrings of column names to replacements.
    """
    renamed = table.copy()
    if headings:
        pattern = re.compile("|".join(headings))
        renamed = renamed.rename(columns=lambda name: pattern.sub(lambda match: headings[match[0]], str(name)))
    for name in renamed.select_dtypes("bool").columns:
        renamed[name] = renamed[name].map({True: "yes", False: ""})
    empty = [name for name in renamed.columns if (renamed[name].isna() | (renamed[name].astype(str) == "")).all()]
    return renamed.drop(columns=empty)


def print_paper_table(
    console: Console, table: pd.DataFrame, title: str, headings: Mapping[str, str] | None = None
) -> None:
    """Prints a table without its intervals, to fit 80 columns."""
    narrow = table[[column for column in table.columns if not str(column).endswith(("_low", "_high"))]]
    formatted = show(readable(narrow, headings))
    cells = [[cell.text for cell in row] for row in formatted.rows]
    print_table(console, pd.DataFrame(cells, columns=formatted.header), title)


def paper_markdown(title: str, notes: Sequence[str], tables: Sequence[pd.DataFrame]) -> str:
    """A page in Markdown."""
    lines = [f"# {escape_markdown(title)}", "", *(f"- {escape_markdown(note)}" for note in notes)]
    for table in tables:
        lines += ["", *markdown(show(table))]
    return "\n".join(lines) + "\n"


def write_paper_page(
    sweep_dir: Path, name: str, title: str, tables: Sequence[pd.DataFrame], notes: Sequence[str], console: Console
) -> None:
    """Writes ``<name>.md``, see ``paper_markdown``; prints the notes and where the page is."""
    write_text(sweep_dir / f"{name}.md", paper_markdown(title, notes, tables))
    for note in notes:
        print_line(console, note)
    print_path(console, "table:", sweep_dir / f"{name}.md")
