"""One backtest: learn, replay, measure, and write the run folder."""

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.splits import TEST, TRAIN, VAL
from gedbd.evaluation.run_folders import MATCHING
from gedbd.experiments.checkpoint import save_run
from gedbd.io.files import write_text
from gedbd.io.json_output import record
from gedbd.io.printing import print_line, print_next_step, print_path
from gedbd.io.tables import write_parquet
from gedbd.retrieval.reports.trained_on import SEEN
from gedbd.retrieval.reports.training import RankerOptions
from gedbd.triage.assembly import EncodedCorpus, encode_corpus
from gedbd.triage.backtesting.backtest import Backtest, measure
from gedbd.triage.backtesting.learning import learn
from gedbd.triage.backtesting.page import fill_targets, next_step, print_targets, summary, targets_markdown
from gedbd.triage.backtesting.sections import same_title_sentence
from gedbd.triage.backtesting.suggestions import keep_suggestions
from gedbd.triage.backtesting.weights import RunWeights
from gedbd.triage.backtesting.writing import PageFacts, keep_facts, write_page, write_tables, write_to_judge


class Measured(NamedTuple):
    """What a backtest learnt and measured.

    Attributes:
        replayed: See ``Learnt``.
        backtest: The result.
    """

    replayed: pd.DataFrame
    backtest: Backtest


def run_backtest(
    cfg: DictConfig,
    corpus: Corpus,
    parts: np.ndarray,
    pairs: pd.DataFrame,
    weights: RunWeights | None,
    folder: Path,
    command: Sequence[str],
    console: Console,
) -> float:
    """Learns on the parts before test, replays all, writes the run folder, and prints the results.

    Args:
        cfg: The composed configuration of ``conf/backtest.yaml``.
        corpus: N reports.
        parts: ``(N,)`` the part of each report.
        pairs: Pairs of reports with their labels and parts.
        weights: Those of a trained encoder; None for the encoder as it was downloaded.
        folder: The run folder.
        command: The command's name and its options, for the page.
        console: Where results and warnings go.

    Returns:
        The precision of the suggestions on the test part at the target; 0 without a threshold.
    """
    if cfg.fill:
        fill_targets(Path(cfg.fill).read_text(), corpus.name, "")  # a missing mark fails before the long work

    def tell(warning: str) -> None:
        print_line(console, f"{corpus.name}: {warning}")

    measured = measure_history(cfg, corpus, parts, weights, partial(encode_corpus, cfg, corpus), tell)
    backtest = measured.backtest
    page, warning = keep_backtest(folder, cfg, corpus, measured, shlex.join(["gedbd", *command]))
    if cfg.fill:
        table = targets_markdown(corpus.name, backtest)
        write_text(Path(cfg.fill), fill_targets(Path(cfg.fill).read_text(), corpus.name, table))
    print_results(console, backtest, next_step(backtest.matching, os.path.relpath(folder)))
    record_backtest(folder, corpus.name, page, backtest)
    if warning:
        print_line(console, warning)
    print_path(console, "page:", page)
    return backtest.matching.target.precision or 0.0


def measure_history(
    cfg: DictConfig,
    corpus: Corpus,
    parts: np.ndarray,
    weights: RunWeights | None,
    encode: Callable[[Path | None], EncodedCorpus],
    tell: Callable[[str], None],
) -> Measured:
    """Learns on the parts before test, replays all, and measures suggestions.

    Args:
        cfg: See ``run_backtest``.
        corpus: N reports.
        parts: ``(N,)`` the part of each report.
        weights: See ``run_backtest``.
        encode: Encodes the reports with some weights; None for the encoder as it was downloaded.
        tell: Receives warnings as they are found.
    """
    encoded = encode(weights.test if weights else None)
    for warning in encoded.warnings:
        tell(warning)
    ranker: RankerOptions = instantiate(cfg.ranker)
    if ranker.without_seen(corpus.reports) != ranker:
        tell(f"{SEEN}: trained without it")
    vectors = {TEST: encoded.vectors}
    if weights is not None:
        # A trained encoder scores the duplicates that it has learnt from too high.
        vectors[TRAIN] = encode(None).vectors
    if weights is not None and weights.val != weights.test:
        vectors[VAL] = encode(weights.val).vectors
    learnt = learn(corpus, parts, vectors, cfg.max_replayed, ranker)
    targets = (cfg.target_precision, cfg.confidence_level)
    return Measured(learnt.replayed, measure(learnt.replayed, corpus, learnt.ranker, *targets, cfg.seed, cfg.judge))


def keep_backtest(folder: Path, cfg: DictConfig, corpus: Corpus, measured: Measured, command: str) -> tuple[Path, str]:
    """Writes the run folder.

    Args:
        folder: The run folder.
        cfg: See ``run_backtest``.
        corpus: The reports.
        measured: What was learnt and measured.
        command: What the page says has measured.

    Returns:
        See ``write_backtest``.
    """
    save_run(folder, cfg, corpus)
    write_parquet(folder / "matches.parquet", measured.replayed)
    facts = PageFacts(corpus.name, command, f"{datetime.now().astimezone()}", cfg.judge)
    return write_backtest(folder, corpus, measured.backtest, facts)


def write_backtest(folder: Path, corpus: Corpus, backtest: Backtest, facts: PageFacts) -> tuple[Path, str]:
    """Writes the ranker and calibrator, the tables and the page into the run folder.

    Args:
        folder: The run folder.
        corpus: The reports.
        backtest: What was learnt and measured.
        facts: What else the page says.

    Returns:
        The page's path, and a sentence for the user if a file stays as it is.
    """
    write_tables(folder, corpus.name, backtest)
    keep_suggestions(folder, backtest.val, backtest.test, corpus)
    keep_facts(folder, facts)
    warning = write_to_judge(folder, backtest, facts.max_examples)
    write_text(folder / MATCHING, backtest.matching.as_json())  # last: with it the backtest counts as finished
    return write_page(folder, backtest, facts), warning


def print_results(console: Console, backtest: Backtest, step: tuple[str, str]) -> None:
    """Prints the table of targets, the results in sentences, and the next step, see ``next_step``."""
    print_targets(console, backtest.tables["targets"])
    print_line(console, f"{summary(backtest)} {same_title_sentence(backtest)}".rstrip())
    print_line(console, f"calibration error on test: {backtest.calibration_error:.4f}")
    print_next_step(console, *step)


def record_backtest(folder: Path, name: str, page: Path, backtest: Backtest) -> None:
    """Adds a backtest to the JSON document of the command: the tables of the CSV files, and what an index takes over.

    Args:
        folder: The run folder.
        name: Name of the corpus.
        page: The page's path.
        backtest: What was learnt and measured.
    """
    target = asdict(backtest.matching.target) | {"statement": backtest.matching.target.statement}
    about = {"folder": folder, "corpus": name, "page": page, "target": target}
    record(**about, calibration_error=backtest.calibration_error, **backtest.tables)
