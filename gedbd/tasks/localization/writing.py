"""Writes a run: tables, rankings, figures and page in the run folder, tables on the console, metrics to loggers."""

from datetime import datetime
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from pytorch_lightning.loggers import Logger
from rich.console import Console

from gedbd.evaluation.report.page import markdown, write_report
from gedbd.evaluation.report.shown_tables import show
from gedbd.evaluation.trec import write_qrels, write_run
from gedbd.experiments.own_page import log_files, mark_finished, save_figures, training_command
from gedbd.experiments.results import with_intervals
from gedbd.io.console_tables import print_table
from gedbd.io.files import write_text
from gedbd.io.json_output import record
from gedbd.io.plain_text import escape_markdown
from gedbd.io.printing import print_line, print_path
from gedbd.io.tables import write_csv, write_parquet
from gedbd.tasks.localization import figures
from gedbd.tasks.localization.page import sections
from gedbd.tasks.localization.published import beside_published, table3_markdown
from gedbd.tasks.localization.result import LocalizationResult

SHOWN = ("method", "mrr", "mrr_low", "mrr_high", "map", "p@1", "rr@10", "rr@10_low", "rr@10_high")


def write_result(
    folder: Path, result: LocalizationResult, published: bool, loggers: list[Logger], console: Console
) -> None:
    """Writes, shows and logs a run.

    Args:
        folder: The run folder.
        result: What the run has measured.
        published: Write the paper's numbers beside the measured ones, ``table3.csv`` and ``table3.md``.
        loggers: Loggers of the run.
        console: Where tables are shown.
    """
    ranking = result.ranking
    tables = {"results": result.results, "ranking": ranking, "known": result.known}
    if published:
        tables["table3"] = beside_published(ranking, result.corpus.name)
        write_text(folder / "table3.md", table3_markdown(result.corpus.name, tables["table3"]))
    for name, table in tables.items():
        write_csv(folder / f"{name}.csv", table)
    write_text(folder / "results.md", "\n".join([escape_markdown(result.summary), "", *markdown(show(ranking)), ""]))
    write_queries(folder, result)
    drawn = draw(result, ranking)
    save_figures(folder, drawn, result.corpus.name)
    page = write_report(
        folder,
        f"Bug localization: {result.corpus.name}",
        result.summary,
        sections(result, drawn, tables.get("table3")),
        command=training_command(),
        date=datetime.now().astimezone(),
    )
    record(folder=folder, corpus=result.corpus.name, page=page, summary=result.summary, **tables)
    _show(console, result, ranking, page)
    _log(loggers, folder, ranking, tables, list(drawn))
    mark_finished(folder, result.summary)


def draw(result: LocalizationResult, ranking: pd.DataFrame) -> dict[str, Figure]:
    """The figures, by name."""
    rows = ranking[ranking["granularity"] == result.levels[0].granularity]
    best = rows.sort_values("mrr", ascending=False, kind="stable")["method"]
    chosen = list(dict.fromkeys([*result.first[:2], result.baseline, *best]))
    drawn = {
        "mrr_by_method": figures.mrr_bars(ranking, result.first, result.baseline),
        "hit_curves": figures.hit_curves(result.measured, chosen),
    }
    if len(result.epochs):
        drawn["training"] = figures.training_curves(result.epochs)
    return drawn


def write_queries(folder: Path, result: LocalizationResult) -> None:
    """Writes ``queries.parquet``, every query's metrics by method and granularity, and TREC files in ``trec/``."""
    (folder / "trec").mkdir(exist_ok=True)
    frames = []
    tasks = {level.granularity: level for level in result.levels}
    for level in result.levels:
        ids = level.inputs.queries["id"], level.inputs.documents["id"]
        write_qrels(folder / "trec" / f"{level.granularity}.qrels", level.task, *ids)
    for one in result.measured:
        level = tasks[one.granularity]
        reports, changes = level.inputs.queries["id"], level.inputs.documents["id"]
        path = folder / "trec" / f"{one.granularity}.{one.method}.run"
        write_run(path, one.ranking, reports, one.method, changes)
        named = {"granularity": one.granularity, "method": one.method}
        frames.append(one.values.assign(id=reports.to_numpy()[level.task.queries], **named))
    write_parquet(folder / "queries.parquet", pd.concat(frames, ignore_index=True))


def _show(console: Console, result: LocalizationResult, ranking: pd.DataFrame, page: Path) -> None:
    """Prints a table for each granularity, the summary, and where the page is."""
    for level in result.levels:
        rows = ranking[ranking["granularity"] == level.granularity]
        title = f"{result.corpus.name}, {len(level.task):,} test reports: {level.granularity}s"
        print_table(console, with_intervals(rows[list(SHOWN)]), title)
    print_line(console, result.summary)
    print_path(console, "page:", page)


def _log(
    loggers: list[Logger], folder: Path, ranking: pd.DataFrame, tables: dict[str, pd.DataFrame], names: list[str]
) -> None:
    """Logs MRR and RR@10 of all methods and, to Weights & Biases, tables and figures."""
    values = {
        f"test/{row['granularity']}/{row['method']}/{name}": float(row[name])
        for row in ranking.to_dict("records")
        for name in ("mrr", "map", "rr@10")
    }
    for logger in loggers:
        logger.log_metrics(values)
    log_files(loggers, folder, tables, names)
