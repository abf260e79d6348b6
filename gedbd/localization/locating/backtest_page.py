"""Runs a backtest of ``gedbd locate``, and writes and prints its results."""

import os
import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from omegaconf import DictConfig
from rich.console import Console

from gedbd.corpora.corpus import ChangeCorpus
from gedbd.evaluation.figures import DUPLICATE, GREY, OTHER, draw_band, finish_figure, finish_ranks, start_figure
from gedbd.evaluation.result_tables import right_and_wrong
from gedbd.experiments.report.report_page import Section, write_report
from gedbd.experiments.run_folder import save_run
from gedbd.experiments.run_results import mark_finished, with_intervals
from gedbd.io.command_output import print_table, record
from gedbd.io.console import print_line, print_next_step, print_path
from gedbd.io.files import write_text
from gedbd.io.table_files import write_csv, write_parquet
from gedbd.localization.locating.labelled_reports import read_changes, without_merges
from gedbd.localization.locating.locating_backtest import (
    BM25,
    BM25_CHANGES,
    CONTROL,
    DEFAULT,
    LEARNED,
    NUM_FILES,
    RECENCY,
    LocatingBacktest,
    run_replay,
)
from gedbd.localization.locating.tracker_ranker import FIXES, HIT_RATE, RANKER, TOP, fixes_as_json

STYLES = {
    LEARNED: (DUPLICATE, "-"),
    DEFAULT: (OTHER, "-"),
    BM25: (GREY, "--"),
    NUM_FILES: (GREY, ":"),
    BM25_CHANGES: (GREY, "--"),
    RECENCY: (GREY, ":"),
    CONTROL: (GREY, "-."),
}
FILES = "a file that the fix changed"
COMMITS = "an inducing commit"
FILES_TEXT = (
    "Hit@k is the share of the tested reports with a file that the fix changed among the first k; MRR is the mean of"
    " 1 / rank of the first such file; MAP is the mean over reports of the average precision of all such files."
    " Brackets hold 95% intervals. Only source files that existed before the report count, not tests; a file that a"
    " system does not rank is a miss. BM25 over changes compares words with all changes of a file. Last changed ranks"
    " files by the date of their last change. Another report's text is the first ranker given the text of another"
    " tested report: its figures show how far a ranker gets without the text of the report."
)
NAMED_TEXT = (
    "A report names a file if an identifier of code, a qualified name or a frame of a stack trace is the name of a"
    " source file that exists at its date. A word that only begins with a capital does not count."
)
METRICS_TEXT = (
    "Hit@k is the share of the tested reports with an inducing commit among the first k suspects; MRR is the mean of"
    " 1 / rank of the first inducing commit. Brackets hold 95% intervals. Candidates are the commits before the report."
    " BM25 over diffs compares words and the parts of identifiers; the number of changed files ignores the report and"
    " shows how far commit size alone gets, since large commits are often blamed."
)
LEARNED_TEXT = (
    " The learnt ranker measured here was trained on the older half of the reports only. The one in ranker.json was"
    " trained on all of them, so its own figures are not known."
)
DEFAULT_TEXT = (
    " The default ranker was trained on the histories of Apache Tomcat and AspectJ: when these are replayed, it is left"
    " out, or, if no other ranker is trained, its figures are too high."
)
DIFFERENCES_TEXT = (
    "Differences between the {system} and each other system on the same reports. Brackets hold paired 95% intervals."
)
FILE_COUNTS_TEXT = (
    "The files are those that the fixing commits changed, or that the data names. A fix that only changes tests, other"
    " files, or files that did not exist yet, cannot be tested."
)
COUNTS_TEXT = (
    "Fixes are found by the reports that commit messages name, or are listed in a table. The commits that last changed"
    " the lines that a fix removes count as inducing ones; a fix that only adds lines has none. All figures about"
    " commits cover the reports that have one; nothing is known about the others."
)
FILE_EXAMPLES_TEXT = (
    "The first files with the largest margin: the score of the first minus that of the tenth. A fix need not be where"
    " the bug was: look at the wrong ones before you trust the figures above."
)
EXAMPLES_TEXT = (
    "The first suspects with the largest margin: the score of the first minus that of the tenth. Blame is not"
    " always right: look at the wrong ones before you trust the figures above."
)


def run_locate_backtest(cfg: DictConfig, folder: Path, options: Sequence[str], console: Console) -> float:
    """Runs a backtest, writes the run folder, and prints the results.

    Returns the hit rate of files, or of commits if no report is tested for files.
    """
    corpus = read_changes(cfg)
    ranked, counts = (corpus, ()) if cfg.merges else without_merges(corpus)
    for warning in (*corpus.warnings, *counts):
        print_line(console, f"{corpus.name}: {warning}")
    backtest = run_replay(ranked, cfg.target, cfg.min_reports, cfg.max_replayed, cfg.max_learnt, cfg.seed)
    for warning in backtest.warnings:
        print_line(console, f"{corpus.name}: {warning}")
    save_run(folder, cfg, corpus)
    words = [f"repo={cfg.repo or 'PATH'}", f"run={os.path.relpath(folder)}", "text of the report"]
    command = shlex.join(["gedbd", "locate", *words])
    step = "Find the files of a new report:", command
    page = write_backtest(folder, ranked, backtest, step, options)
    record(folder=folder, corpus=corpus.name, page=page, statement=backtest.hit_rate.statements, **backtest.tables)
    print_tables(console, backtest)
    print_line(console, summary(backtest))
    print_next_step(console, *step)
    print_path(console, "page:", page)
    rates = backtest.hit_rate
    return (rates.commits.share if rates.files.share is None else rates.files.share) or 0.0


def write_backtest(
    folder: Path, corpus: ChangeCorpus, backtest: LocatingBacktest, step: tuple[str, str], options: Sequence[str]
) -> Path:
    """Writes ranker, figures, tables and page, with the command line, into the run folder; returns the page's path."""
    for name, table in backtest.tables.items():
        write_csv(folder / f"{name}.csv", table)
    write_parquet(folder / "files_replayed.parquet", backtest.files.ranks)
    write_parquet(folder / "replayed.parquet", backtest.commits.ranks)
    write_text(folder / RANKER, backtest.ranker.to_text())
    write_text(folder / FIXES, fixes_as_json(backtest.fixes))
    write_text(folder / HIT_RATE, backtest.hit_rate.as_json())
    page = write_report(
        folder,
        f"Backtest of locating: {corpus.name}",
        summary(backtest),
        sections(backtest),
        command=shlex.join(["gedbd", "locate-backtest", *options]),
        date=datetime.now().astimezone(),
        next_steps=[step],
    )
    mark_finished(folder, backtest.hit_rate.statements)
    return page


def summary(backtest: LocatingBacktest) -> str:
    """The result in a few sentences."""
    sentences = [backtest.hit_rate.statements]
    measured = {
        "files": (backtest.files, "a fixed file that existed before them"),
        "commits": (backtest.commits, "an earlier inducing commit"),
    }
    for what, (replayed, _) in measured.items():
        if replayed.system == LEARNED:
            count = f"{replayed.split.num_labelled:,} older reports"
            sentences.append(f"The ranker measured on {what} was trained on {count}.")
    for replayed, label in measured.values():
        if len(replayed.reports) and replayed.system != LEARNED:
            sentences.append(
                f"The {len(replayed.reports):,} reports with {label} are too few to learn from, so the default ranker"
                " is measured on all of them, and used."
            )
    total = backtest.commits.reports.num_reports
    sentences.append(
        f"{total - len(backtest.files.reports):,} of {total:,} reports have no such file, and"
        f" {total - len(backtest.commits.reports):,} of {total:,} reports have no such commit and cannot be tested; the"
        " figures cover the others."
    )
    return " ".join(sentences)


def sections(backtest: LocatingBacktest) -> list[Section]:
    """The sections of the page, files first; the page omits sections without rows."""
    tables = backtest.tables
    page = []
    if "files_metrics" in tables:
        page += _metric_sections(tables, "files_", FILES, FILES_TEXT, backtest.files.system)
        page.insert(1, Section("Reports that name a file, and others", NAMED_TEXT, [tables["files_named"]]))
    page.append(Section("Which reports are tested for files?", FILE_COUNTS_TEXT, [tables["files_counts"]]))
    if "files_metrics" in tables:
        examples = right_and_wrong(tables["files_right"], tables["files_wrong"], "first file", by="margin")
        page.append(Section("Right and wrong files", FILE_EXAMPLES_TEXT, [examples]))
    if "metrics" in tables:
        page += _metric_sections(tables, "", COMMITS, METRICS_TEXT, backtest.commits.system)
    page.append(Section("Which reports are tested for commits?", COUNTS_TEXT, [tables["counts"]]))
    if "metrics" in tables:
        examples = right_and_wrong(tables["right"], tables["wrong"], "suspicion", by="margin")
        page.append(Section("Right and wrong suspects", EXAMPLES_TEXT, [examples]))
    return page


def _metric_sections(tables: dict[str, pd.DataFrame], prefix: str, what: str, text: str, system: str) -> list[Section]:
    """The metrics of all systems, and the differences and years of one of them."""
    noun = "files" if prefix else "commits"
    learned_text = LEARNED_TEXT if system == LEARNED else ""
    figure = hit_figure(tables[f"{prefix}curve"], what)
    curve = [(f"{prefix}hits", f"Share of reports with {what} among the first k", figure)]
    heading = f"How often is {what} among the first?"
    by_year = f"The {system}, by the year of the report."
    return [
        Section(heading, f"{text}{learned_text}{DEFAULT_TEXT}", [tables[f"{prefix}metrics"]], curve),
        Section(f"Differences of {noun}", DIFFERENCES_TEXT.format(system=system), [tables[f"{prefix}differences"]]),
        Section(f"{noun.capitalize()} by year", by_year, [tables[f"{prefix}years"]]),
    ]


def hit_figure(curve: pd.DataFrame, what: str) -> Figure:
    """Hit@k against k for each system, with the interval of the first system; ``what`` names a relevant document."""
    figure, axis = start_figure()
    for number, (system, rows) in enumerate(curve.groupby("system", sort=False)):
        color, line = STYLES[str(system)]
        drawn = rows if number == 0 else rows.drop(columns=["hit_low", "hit_high"])
        draw_band(axis, drawn["k"], drawn, "hit", color=color, linestyle=line, label=system)
    axis.axvline(TOP, color="black", linewidth=0.8, alpha=0.4)
    finish_ranks(axis, f"{what[0].upper()}{what[1:]} among the first k", "share of reports")
    return finish_figure(figure)


def print_tables(console: Console, backtest: LocatingBacktest) -> None:
    """Prints hit@k, MRR and MAP of files, of reports that name a file and reports that do not, and of commits."""
    tables = backtest.tables
    if "files_metrics" in tables:
        _print_metrics(console, tables["files_metrics"], FILES)
        named = tables["files_named"]
        of_system = named[named["system"] == backtest.files.system].drop(columns="system")
        title = f"the {backtest.files.system} on reports that name a file, and others"
        print_table(console, _readable(of_system), title)
    if "metrics" in tables:
        _print_metrics(console, tables["metrics"], COMMITS)


def _print_metrics(console: Console, metrics: pd.DataFrame, what: str) -> None:
    title = f"{what} among the first k, {int(metrics['reports'].iloc[0]):,} reports"
    print_table(console, _readable(metrics.drop(columns="reports")), title)


def _readable(metrics: pd.DataFrame) -> pd.DataFrame:
    """Metrics with the interval of hit@10 alone, so that a row fits 80 columns."""
    left_out = [name for name in metrics if str(name).endswith(("_low", "_high")) and f"hit@{TOP}" not in str(name)]
    return with_intervals(metrics.drop(columns=left_out), 3)
