"""One backtest of the ranking of commits: reads, measures, and writes the run folder."""

import os
import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from omegaconf import DictConfig
from rich.console import Console

from gedbd.corpora.changes import ChangeCorpus
from gedbd.evaluation.figure_files import DUPLICATE, GREY, OTHER
from gedbd.evaluation.figures import MARGINS, SIZE
from gedbd.evaluation.report.report_page import write_report
from gedbd.evaluation.report.section import Section
from gedbd.experiments.checkpoint import save_run
from gedbd.experiments.run_page import mark_finished
from gedbd.io.command_output import print_table, record
from gedbd.io.console import print_line, print_next_step, print_path
from gedbd.io.files import write_text
from gedbd.io.table_files import write_csv, write_parquet
from gedbd.triage.backtesting.suggestions import right_and_wrong
from gedbd.triage.locating.backtesting.labelled_reports import read_changes, without_merges
from gedbd.triage.locating.backtesting.locating_replay import (
    BM25,
    DEFAULT,
    LEARNT,
    NUM_FILES,
    LocatingBacktest,
    run_replay,
)
from gedbd.triage.locating.backtesting.locating_tables import HIT_RATE, TOP
from gedbd.triage.locating.tracker_ranker import FIXES, RANKER, fixes_as_json

STYLES = {LEARNT: (DUPLICATE, "-"), DEFAULT: (OTHER, "-"), BM25: (GREY, "--"), NUM_FILES: (GREY, ":")}
METRICS_TEXT = (
    "Hit@k is the share of the tested reports with an inducing commit among the first k suspects; MRR is the mean of"
    " 1 / rank of the first inducing commit. Brackets hold 95% intervals. Candidates are the commits before the report."
    " BM25 over diffs compares words and the parts of identifiers; the number of changed files ignores the report and"
    " shows how far commit size alone gets, since large commits are often blamed."
)
LEARNT_TEXT = (
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
COUNTS_TEXT = (
    "Fixes are found by the reports that commit messages name, or are listed in a table. The commits that last changed"
    " the lines that a fix removes count as inducing ones; a fix that only adds lines has none. All figures cover the"
    " reports that have one; nothing is known about the others."
)
EXAMPLES_TEXT = (
    "The first suspects with the largest margin: the score of the first minus that of the tenth. Blame is not"
    " always right: look at the wrong ones before you trust the figures above."
)


def run_locate_backtest(cfg: DictConfig, folder: Path, options: Sequence[str], console: Console) -> float:
    """Reads commits and reports, measures, writes the run folder, and prints the results.

    Args:
        cfg: The composed configuration of ``conf/locate_backtest.yaml``.
        folder: The run folder.
        options: The command line, for the page.
        console: Where results and warnings go.

    Returns:
        The share of reports with an inducing commit among the first 10.
    """
    corpus = read_changes(cfg)
    for warning in corpus.warnings:
        print_line(console, f"{corpus.name}: {warning}")
    ranked, told = (corpus, ()) if cfg.merges else without_merges(corpus)
    for warning in told:
        print_line(console, f"{corpus.name}: {warning}")
    backtest = run_replay(ranked, cfg.target, cfg.min_reports, cfg.max_replayed, cfg.max_learnt, cfg.seed)
    for warning in backtest.warnings:
        print_line(console, f"{corpus.name}: {warning}")
    save_run(folder, cfg, corpus)
    step = next_step(os.path.relpath(folder), cfg.repo)
    page = write_backtest(folder, ranked, backtest, step, options)
    record(folder=folder, corpus=corpus.name, page=page, statement=backtest.hit_rate.statement, **backtest.tables)
    print_metrics(console, backtest.tables["metrics"])
    print_line(console, summary(backtest))
    print_next_step(console, *step)
    print_path(console, "page:", page)
    return backtest.hit_rate.share or 0.0


def write_backtest(
    folder: Path, corpus: ChangeCorpus, backtest: LocatingBacktest, step: tuple[str, str], options: Sequence[str]
) -> Path:
    """Writes ranker, figures, tables and page into the run folder; returns the page's path.

    Args:
        folder: The run folder.
        corpus: Commits and reports.
        backtest: What was learnt and measured.
        step: What the reader can do next, see ``next_step``.
        options: The command line, for the page.
    """
    for name, table in backtest.tables.items():
        write_csv(folder / f"{name}.csv", table)
    write_parquet(folder / "replayed.parquet", backtest.replayed)
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
    mark_finished(folder, backtest.hit_rate.statement)
    return page


def summary(backtest: LocatingBacktest) -> str:
    """The result in a few sentences."""
    labelled = backtest.labelled
    without = labelled.num_reports - len(labelled)
    sentences = [backtest.hit_rate.statement]
    if backtest.hit_rate.learnt:
        sentences.append(f"The measured ranker was trained on {backtest.parts.num_labelled:,} older reports.")
    else:
        sentences.append(
            f"The {len(labelled):,} reports with an earlier inducing commit are too few to learn from, so the default"
            " ranker is measured on all of them, and used."
        )
    sentences.append(
        f"{without:,} of {labelled.num_reports:,} reports have no such commit and cannot be tested; the figures cover"
        " the others."
    )
    return " ".join(sentences)


def next_step(folder: str, repo: str | None) -> tuple[str, str]:
    """The next step for the user: a sentence and a command, which reads the run folder."""
    place = repo or "PATH"
    return "Find the suspect commits for a new report:", f'gedbd locate repo={place} run={folder} "text of the report"'


def sections(backtest: LocatingBacktest) -> list[Section]:
    """The sections of the page; those without rows are left out by the page."""
    tables = backtest.tables
    listed = right_and_wrong(tables["right"], tables["wrong"], "suspicion", by="margin")
    learnt = LEARNT_TEXT if backtest.hit_rate.learnt else ""
    curve = [("hits", "Share of reports with an inducing commit among the first k", hit_figure(tables["curve"]))]
    return [
        Section(
            "How often is an inducing commit among the first?",
            f"{METRICS_TEXT}{learnt}{DEFAULT_TEXT}",
            [tables["metrics"]],
            curve,
        ),
        Section("Differences", DIFFERENCES_TEXT.format(system=backtest.system), [tables["differences"]]),
        Section("By year", f"The {backtest.system}, by the year of the report.", [tables["years"]]),
        Section("Which reports are tested?", COUNTS_TEXT, [tables["counts"]]),
        Section("Right and wrong suspects", EXAMPLES_TEXT, [listed]),
    ]


def hit_figure(curve: pd.DataFrame) -> Figure:
    """Hit@k against k for each system, with the interval of the first one."""
    figure = Figure(figsize=SIZE)
    axis = figure.subplots(gridspec_kw=MARGINS)
    systems = list(dict.fromkeys(curve["system"]))
    for name in systems:
        mine = curve[curve["system"] == name]
        colour, line = STYLES[name]
        axis.plot(mine["k"], mine["hit"], color=colour, linestyle=line, label=name)
    first = curve[curve["system"] == systems[0]]
    axis.fill_between(first["k"], first["hit_low"], first["hit_high"], color=STYLES[systems[0]][0], alpha=0.15)
    axis.axvline(TOP, color="black", linewidth=0.8, alpha=0.4)
    axis.set_xscale("log")
    axis.set_xticks([1, 5, 10, 50, 100], ["1", "5", "10", "50", "100"])
    axis.set(title="An inducing commit among the first k", xlabel="k", ylabel="share of reports", ylim=(0, 1.02))
    axis.grid(alpha=0.25)
    axis.legend(frameon=False)
    return figure


def print_metrics(console: Console, metrics: pd.DataFrame) -> None:
    """Prints hit@k and MRR of each system; of the intervals only that of hit@10, so that a row fits 80 columns."""
    from gedbd.experiments.run_results import with_intervals

    count = int(metrics["reports"].iloc[0])
    left_out = [name for name in metrics if str(name).endswith(("_low", "_high")) and f"hit@{TOP}" not in str(name)]
    table = with_intervals(metrics.drop(columns=["reports", *left_out]), 3)
    print_table(console, table, f"an inducing commit among the first k, {count:,} reports")
