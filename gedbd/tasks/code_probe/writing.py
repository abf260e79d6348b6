"""Writes a run: tables, figures and page in the run folder, tables on the console, metrics on the dashboard."""

import json
import shlex
from datetime import datetime
from pathlib import Path

import pandas as pd
from hydra.core.hydra_config import HydraConfig
from matplotlib.figure import Figure
from pytorch_lightning.loggers import Logger, WandbLogger
from rich.console import Console

from gedbd.evaluation.report.page import markdown, show, write_report
from gedbd.evaluation.run_folders import OWN_PAGE
from gedbd.experiments.results import as_table, with_intervals
from gedbd.io.files import replacing, write_text
from gedbd.io.tables import write_csv
from gedbd.tasks.code_probe.figures import draw
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
    _save_figures(folder, drawn)
    page = write_report(
        folder,
        f"Code probes: {result.name}",
        result.summary,
        sections(result, drawn),
        command=_command(),
        date=datetime.now().astimezone(),
    )
    _show(console, result, page)
    _log(loggers, folder, tables, list(drawn))
    # Last: with it the run counts as finished.
    write_text(folder / OWN_PAGE, json.dumps({"summary": result.summary}) + "\n")


def _markdown(result: ProbeResult, tables: dict[str, pd.DataFrame]) -> str:
    lines = [result.summary, ""]
    for name in ("results", "differences"):
        if name in tables:
            lines += [*markdown(show(tables[name])), ""]
    return "\n".join(lines)


def _save_figures(folder: Path, drawn: dict[str, Figure]) -> None:
    (folder / "figures").mkdir(exist_ok=True)
    for name, figure in drawn.items():
        with replacing(folder / "figures" / f"{name}.png") as unfinished:
            figure.savefig(unfinished, dpi=120)


def _command() -> str | None:
    """The command line of the running job; None outside of Hydra."""
    if not HydraConfig.initialized():
        return None
    return shlex.join(["python", "-m", "gedbd.train", *HydraConfig.get().overrides.task])


def _show(console: Console, result: ProbeResult, page: Path) -> None:
    """Prints a table of values, one of differences, and where the page is."""
    values = result.table.pivot(index="method", columns="measure", values="value")
    order = [list(dict.fromkeys(result.table[name])) for name in ("method", "measure")]
    # Measures are rows: there are more of them than methods, and their names are long.
    shown = values.loc[order[0], order[1]].T.reset_index()
    console.print(as_table(shown, f"{result.name}, test part"))
    if len(result.differences):
        columns = [name for name in result.differences if not str(name).startswith("seeds")]
        console.print(as_table(with_intervals(result.differences[columns], 3), "paired differences"))
    console.print(result.summary, markup=False, highlight=False, soft_wrap=True)
    console.print(f"page: {page}", markup=False, highlight=False, soft_wrap=True)


def _log(loggers: list[Logger], folder: Path, tables: dict[str, pd.DataFrame], names: list[str]) -> None:
    """Logs all values and, to Weights & Biases, tables and figures."""
    rows = tables["results"].to_dict("records")
    values = {f"test/{row['method']}/{row['measure']}": float(row["value"]) for row in rows}
    for logger in loggers:
        logger.log_metrics(values)
        if isinstance(logger, WandbLogger):
            for name in names:
                logger.log_image(f"figures/{name}", [str(folder / "figures" / f"{name}.png")])
            for name, table in tables.items():
                logger.log_table(name, dataframe=table)
