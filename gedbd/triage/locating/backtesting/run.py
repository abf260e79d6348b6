"""One backtest of the ranking of commits: reads, measures, and writes the run folder."""

import os
import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from gedbd.corpora.changes import ChangeCorpus
from gedbd.evaluation.report.page import write_report
from gedbd.experiments.checkpoint import save_run
from gedbd.experiments.own_page import mark_finished
from gedbd.io.files import write_text
from gedbd.io.json_output import record
from gedbd.io.printing import print_line, print_next_step, print_path
from gedbd.io.tables import write_csv, write_parquet
from gedbd.triage.locating.backtesting.backtest import LocatingBacktest, run_replay
from gedbd.triage.locating.backtesting.hit_rate import HIT_RATE
from gedbd.triage.locating.backtesting.merges import without_merges
from gedbd.triage.locating.backtesting.page import next_step, print_metrics, sections, summary
from gedbd.triage.locating.backtesting.reading import read_changes
from gedbd.triage.locating.fixed_reports import FIXES, fixes_as_json
from gedbd.triage.locating.trained import RANKER


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
