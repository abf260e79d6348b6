"""One backtest: learn, replay, measure, and write the run folder."""

import os
import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console

from gedbd.corpora.corpus import Corpus
from gedbd.evaluation.report.page import write_report
from gedbd.evaluation.run_folders import MATCHING
from gedbd.experiments.checkpoint import save_run
from gedbd.io.files import write_text
from gedbd.io.spreadsheet import safe_cells
from gedbd.io.tables import write_csv, write_parquet
from gedbd.triage.assembly import encode_corpus
from gedbd.triage.backtesting.backtest import Backtest, measure
from gedbd.triage.backtesting.learning import learn
from gedbd.triage.backtesting.page import fill_targets, next_step, print_targets, sections, summary, targets_markdown


def run_backtest(
    cfg: DictConfig,
    corpus: Corpus,
    parts: np.ndarray,
    pairs: pd.DataFrame,
    weights: Path | None,
    folder: Path,
    options: Sequence[str],
    console: Console,
) -> float:
    """Learns on the training part, replays the later parts, writes the run folder, and prints the results.

    Args:
        cfg: The composed configuration of ``conf/backtest.yaml``.
        corpus: N reports.
        parts: ``(N,)`` the part of each report.
        pairs: Pairs of reports with their labels and parts.
        weights: The checkpoint of a trained encoder; None for the encoder as it was downloaded.
        folder: The run folder.
        options: The command line, for the page.
        console: Where results and warnings go.

    Returns:
        The precision of the suggestions on the test part at the target; 0 without a threshold.
    """
    if cfg.fill:
        fill_targets(Path(cfg.fill).read_text(), corpus.name, "")  # a missing mark fails before the long work
    encoded = encode_corpus(cfg, corpus, weights)
    for warning in encoded.warnings:
        console.print(f"{corpus.name}: {warning}", markup=False, highlight=False)
    learnt = learn(corpus, parts, encoded.vectors, cfg.max_replayed, instantiate(cfg.ranker))
    backtest = measure(learnt.replayed, corpus, learnt.ranker, cfg.target_precision, cfg.confidence_level, cfg.seed)
    save_run(folder, cfg, corpus)
    write_parquet(folder / "matches.parquet", learnt.replayed)
    step = next_step(backtest.matching, os.path.relpath(folder))
    page = write_backtest(folder, corpus, backtest, step, options)
    if cfg.fill:
        table = targets_markdown(corpus.name, backtest)
        write_text(Path(cfg.fill), fill_targets(Path(cfg.fill).read_text(), corpus.name, table))
    print_targets(console, backtest.tables["targets"])
    console.print(summary(backtest), highlight=False)
    console.print(f"calibration error on test: {backtest.calibration_error:.4f}", highlight=False)
    for line in (f"Next: {step[0]}", f"  {step[1]}", f"page: {page}"):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return backtest.matching.target.precision or 0.0


def write_backtest(
    folder: Path, corpus: Corpus, backtest: Backtest, step: tuple[str, str], options: Sequence[str]
) -> Path:
    """Writes the ranker and calibrator, the tables and the page into the run folder; returns the page's path.

    Args:
        folder: The run folder.
        corpus: The reports.
        backtest: What was learnt and measured.
        step: What the reader can do next, see ``next_step``.
        options: The command line, for the page.
    """
    for name, table in backtest.tables.items():
        write_csv(folder / f"{name}.csv", safe_cells(table))
    write_text(folder / "targets.md", targets_markdown(corpus.name, backtest) + "\n")
    write_text(folder / MATCHING, backtest.matching.as_json())  # last: with it the backtest counts as finished
    return write_report(
        folder,
        f"Backtest: {corpus.name}",
        summary(backtest),
        sections(backtest),
        command=shlex.join(["python", "-m", "gedbd.backtest", *options]),
        date=datetime.now().astimezone(),
        next_steps=[step],
    )
