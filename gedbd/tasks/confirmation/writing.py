"""Writes a run: tables, figures and page in the run folder, a table on the console, metrics on the dashboard."""

from datetime import datetime
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from pytorch_lightning.loggers import Logger
from rich.console import Console

from gedbd.evaluation.report.page import write_report
from gedbd.experiments.own_page import log_files, mark_finished, save_figures, training_command
from gedbd.experiments.results import with_intervals
from gedbd.io.console_tables import print_table
from gedbd.io.files import write_text
from gedbd.io.json_output import record
from gedbd.io.printing import print_line, print_path
from gedbd.io.tables import write_csv, write_parquet
from gedbd.tasks.confirmation import figures
from gedbd.tasks.confirmation.page import sections
from gedbd.tasks.confirmation.published import beside_published, table7_markdown
from gedbd.tasks.confirmation.result import ConfirmationResult

RESULTS = ("method", "spearman", "spearman_low", "spearman_high", "rmse", "rmse_low", "rmse_high")


def write_result(
    folder: Path, result: ConfirmationResult, published: bool, loggers: list[Logger], console: Console
) -> None:
    """Writes, shows and logs a run.

    Args:
        folder: The run folder.
        result: What the run has measured.
        published: Write the paper's Table 7 beside the measured numbers, ``table7.csv`` and ``table7.md``.
        loggers: Loggers of the run.
        console: Where tables are shown.
    """
    tables = _tables(result)
    if published:
        tables["table7"] = beside_published(result.table)
        write_text(folder / "table7.md", table7_markdown(result.corpus.name, tables["table7"]))
    for name, table in tables.items():
        write_csv(folder / f"{name}.csv", table)
    write_parquet(folder / "confirmation.parquet", _predicted(result))
    drawn = draw(result)
    save_figures(folder, drawn, result.corpus.name)
    page = write_report(
        folder,
        f"Confirmation time: {result.corpus.name}",
        result.summary,
        sections(result, drawn, tables.get("table7")),
        command=training_command(),
        date=datetime.now().astimezone(),
    )
    record(folder=folder, corpus=result.corpus.name, page=page, summary=result.summary, **tables)
    _show(console, result, tables, page)
    _log(loggers, folder, result, tables, list(drawn))
    mark_finished(folder, result.summary)


def draw(result: ConfirmationResult) -> dict[str, Figure]:
    """The figures, by name."""
    predicted = result.predictions[result.best].test
    true = result.data.y[result.data.test]
    drawn = {
        "rho_by_method": figures.rho_by_method(result.table),
        "predicted_against_true": figures.predicted_against_true(predicted, true),
        "calibration": figures.calibration(figures.decile_table(predicted, true)),
    }
    for name, prediction in result.predictions.items():
        if prediction.importance is not None:
            drawn[f"importance_{name}"] = figures.importance(prediction.importance)
    return drawn


def _tables(result: ConfirmationResult) -> dict[str, pd.DataFrame]:
    """The tables that hold rows, by name."""
    predicted = result.predictions[result.best].test
    tables = {
        "results": result.table[list(RESULTS)],
        "confirmation": result.table,
        "network": result.network,
        "pending": result.pending,
        "calibration": figures.decile_table(predicted, result.data.y[result.data.test]),
    }
    for name, prediction in result.predictions.items():
        if prediction.importance is not None:
            tables[f"importance_{name}"] = prediction.importance
    return {name: table for name, table in tables.items() if len(table)}


def _predicted(result: ConfirmationResult) -> pd.DataFrame:
    """Predicted log10 hours of all methods on the test anchors."""
    anchors = result.data.anchors[result.data.test]
    ids = result.corpus.reports["id"].iloc[anchors["anchor"]].to_numpy()
    columns = {name: prediction.test for name, prediction in result.predictions.items()}
    return pd.DataFrame({"id": ids, "target": anchors["target"].to_numpy()} | columns)


def _show(console: Console, result: ConfirmationResult, tables: dict[str, pd.DataFrame], page: Path) -> None:
    """Prints the comparison of methods and where the page is."""
    # To fit 80 columns; the page and confirmation.csv have all.
    shown = result.table.drop(columns=["features", "rmse_low", "rmse_high", "val_spearman", "val_rmse"])
    shown = shown.rename(columns=lambda name: name.replace("rmse_difference", "rmse_less_median"))
    title = f"{result.corpus.name}, {result.data.test.sum():,} test anchors: log10 hours until confirmation"
    print_table(console, with_intervals(shown), title)
    if len(result.network):
        print_table(console, with_intervals(result.network), "with the tag network and without")
    if "table7" in tables:
        print_table(console, tables["table7"], "beside the paper's Table 7")
    print_line(console, result.summary)
    print_path(console, "page:", page)


def _log(
    loggers: list[Logger], folder: Path, result: ConfirmationResult, tables: dict[str, pd.DataFrame], names: list[str]
) -> None:
    """Logs the best method's metrics and, to Weights & Biases, tables and figures."""
    first = result.table.iloc[0].drop(["method", "features"])
    for logger in loggers:
        logger.log_metrics({f"test/{name}": float(value) for name, value in first.items()})
    log_files(loggers, folder, tables, names)
