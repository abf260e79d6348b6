"""Writes a run: tables, figures and page in the run folder, tables on the console, metrics on the dashboard."""

from datetime import datetime
from pathlib import Path

import pandas as pd
from pytorch_lightning.loggers import Logger
from rich.console import Console

from gedbd.evaluation.report.page import markdown, write_report
from gedbd.evaluation.report.section import show
from gedbd.experiments.evaluation_result import log_files, mark_finished, save_figures, training_command
from gedbd.experiments.results import with_intervals
from gedbd.io.console import print_line, print_path
from gedbd.io.console_tables import print_table
from gedbd.io.files import write_text
from gedbd.io.json_output import record
from gedbd.io.plain_text import escape_markdown
from gedbd.io.tables import write_csv
from gedbd.tasks.code_probe.figures import FAMILIES, draw
from gedbd.tasks.code_probe.page import sections
from gedbd.tasks.code_probe.result import ProbeResult


def write_result(folder: Path, result: ProbeResult, loggers: list[Logger], console: Console) -> None:
    """Writes, shows and logs a run.

    Args:
        folder: The run folder.
        result: What the run has measured.
        loggers: Loggers of the run.
        console: Where tables are shown.
    """
    tables = {"results": result.table, "differences": result.differences, "runs": result.runs}
    tables = {name: table for name, table in tables.items() if len(table)}
    for name, table in tables.items():
        write_csv(folder / f"{name}.csv", table)
    write_text(folder / "results.md", _markdown(result, tables))
    drawn = draw(result.table, result.differences)
    save_figures(folder, drawn, result.name)
    page = write_report(
        folder,
        f"Code probes: {result.name}",
        result.summary,
        sections(result, drawn),
        command=training_command(),
        date=datetime.now().astimezone(),
    )
    record(folder=folder, corpus=result.name, page=page, summary=result.summary, **tables)
    _show(console, result, page)
    _log(loggers, folder, tables, list(drawn))
    mark_finished(folder, result.summary)


def _markdown(result: ProbeResult, tables: dict[str, pd.DataFrame]) -> str:
    lines = [escape_markdown(result.summary), ""]
    for name in ("results", "differences"):
        if name in tables:
            lines += [*markdown(show(tables[name])), ""]
    return "\n".join(lines)


def _show(console: Console, result: ProbeResult, page: Path) -> None:
    """Prints a table of values for each family of measures, one of differences, and where the page is."""
    values = result.table.pivot(index="method", columns="measure", values="value")
    values = values.loc[list(dict.fromkeys(result.table["method"]))]
    for name, measures in FAMILIES.items():
        # Each family is measured of other methods: a table of all would be wider than a terminal.
        shown = values[[measure for measure in measures if measure in values]].dropna(how="all").reset_index()
        if len(shown):
            print_table(console, shown, f"{result.name}, test part: {name.replace('_', ' ')}")
    if len(result.differences):
        columns = [name for name in result.differences if not str(name).startswith("seeds")]
        print_table(console, with_intervals(result.differences[columns], 3), "paired differences")
    print_line(console, result.summary)
    print_path(console, "page:", page)


def _log(loggers: list[Logger], folder: Path, tables: dict[str, pd.DataFrame], names: list[str]) -> None:
    """Logs all values and, to Weights & Biases, tables and figures."""
    rows = tables["results"].to_dict("records")
    values = {f"test/{row['method']}/{row['measure']}": float(row["value"]) for row in rows}
    for logger in loggers:
        logger.log_metrics(values)
    log_files(loggers, folder, tables, names)
