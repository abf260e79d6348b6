"""Runs a backtest: trains, replays, measures, and writes the run folder."""

import json
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from functools import partial
from pathlib import Path

import numpy as np
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf, open_dict
from rich.console import Console

from gedbd.corpora.corpus import Corpus
from gedbd.experiments.prepare import EncodedCorpus, PreparedData, encode_corpus
from gedbd.experiments.report.judging import Judging, Verdict
from gedbd.experiments.report.report_page import write_report
from gedbd.experiments.run_folder import CONFIG, MATCHING, RunWeights, read_config, save_run, saved_options
from gedbd.io.command_output import record
from gedbd.io.console import print_line, print_next_step, print_path
from gedbd.io.files import read_object, write_text
from gedbd.io.table_files import write_csv, write_parquet
from gedbd.retrieval.reports.report_ranker import SEEN
from gedbd.retrieval.reports.report_training import RankerOptions
from gedbd.sampling.splits import TEST, TRAIN, VAL
from gedbd.triage.backtesting.backtest_page import (
    fill_targets,
    next_step,
    print_targets,
    sections,
    summary,
    targets_markdown,
    unknown_sentence,
)
from gedbd.triage.backtesting.judgements import JUDGEMENTS, TO_JUDGE, read_judgements, with_accepted
from gedbd.triage.backtesting.replay import learn
from gedbd.triage.backtesting.suggestions import Backtest, keep_suggestions, measure, to_judge

PAGE = "page.json"


def check_backtest(cfg: DictConfig) -> None:
    """Raises ValueError for invalid options of a backtest."""
    if OmegaConf.is_missing(cfg.dataset, "path"):
        raise ValueError("no reports given: set dataset.path=bugs.csv, or dataset=demo for the bundled reports")
    if not cfg.split._target_.endswith("TimeSplit"):
        raise ValueError("a backtest replays reports in chronological order: set split=time")
    if cfg.weights not in ("best", "refit"):
        raise ValueError(f"weights={cfg.weights} is unknown: choose best or refit")
    if cfg.verdicts and not Path(cfg.verdicts).is_file():
        raise ValueError(f"verdicts={cfg.verdicts}: no such file; give judgements.csv of an earlier backtest")
    if cfg.fill and not Path(cfg.fill).is_file():
        raise ValueError(f"fill={cfg.fill}: no such file")


def run_backtest(
    cfg: DictConfig,
    prepared: PreparedData,
    weights: RunWeights | None,
    folder: Path,
    command: Sequence[str],
    console: Console,
) -> float:
    """Runs a backtest, writes the run folder, and prints the results.

    Args:
        cfg: The composed configuration of ``conf/backtest.yaml``.
        prepared: The reports and their splits.
        weights: Weights of a trained encoder; None for the downloaded encoder.
        folder: The run folder.
        command: The command and its options, for the page.
        console: Console for results and warnings.

    Returns:
        The precision of the suggestions on the test split at the target; 0 without a threshold.
    """
    corpus = prepared.corpus
    if cfg.fill:
        fill_targets(Path(cfg.fill).read_text(), corpus.name, "")  # fails early if the comment is missing

    def tell(warning: str) -> None:
        print_line(console, f"{corpus.name}: {warning}")

    if cfg.verdicts:
        corpus, text = with_accepted(corpus, prepared.parts, Path(cfg.verdicts))
        print_line(console, text)
    tell(
        f"encodes {len(corpus):,} reports, trains rankers, then replays up to {cfg.max_replayed:,} reports of each"
        " part, which takes longest"
    )
    backtest = measure_history(cfg, corpus, prepared.parts, weights, partial(encode_corpus, cfg, corpus), tell)
    page, warning = keep_backtest(folder, cfg, corpus, backtest, shlex.join(["gedbd", *command]))
    if cfg.fill:
        table = targets_markdown(corpus.name, backtest)
        write_text(Path(cfg.fill), fill_targets(Path(cfg.fill).read_text(), corpus.name, table))
    print_targets(console, backtest.tables["targets"])
    print_line(console, f"{summary(backtest)} {unknown_sentence(backtest)}".rstrip())
    quality = f"calibration error {backtest.calibration_error:.4f}, average precision {backtest.average_precision:.3f}"
    print_line(console, f"probabilities on test, without unknown matches: {quality}")
    print_next_step(console, *next_step(backtest.matching, os.path.relpath(folder)))
    record_backtest(folder, corpus.name, page, backtest)
    if warning:
        print_line(console, warning)
    print_path(console, "page:", page)
    return backtest.matching.target.precision or 0.0


@dataclass(frozen=True)
class BacktestStep:
    """The backtest of ``gedbd.experiments.best.BestTask``; the arguments are options of ``conf/backtest.yaml``."""

    target_precision: float
    confidence_level: float
    max_replayed: int
    verdicts: str | None
    judge: int
    ranker: DictConfig

    def options(self, cfg: DictConfig, weights: str) -> DictConfig:
        """A run's options with those of the backtest beside them; see ``check_backtest``."""
        options = OmegaConf.create(saved_options(cfg))
        with open_dict(options):
            options.update({field.name: getattr(self, field.name) for field in fields(self)})
            options.update({"run": None, "weights": weights, "fill": None})
        check_backtest(options)
        return options

    run = staticmethod(run_backtest)


def measure_history(
    cfg: DictConfig,
    corpus: Corpus,
    parts: np.ndarray,
    weights: RunWeights | None,
    encode: Callable[[Path | None], EncodedCorpus],
    tell: Callable[[str], None],
) -> Backtest:
    """Trains on the splits before test, replays all, and measures suggestions.

    Args:
        cfg: See ``run_backtest``.
        corpus: N reports.
        parts: ``(N,)`` the split of each report.
        weights: See ``run_backtest``.
        encode: Encodes the reports with given weights; None for the downloaded encoder.
        tell: Called with each warning.
    """
    encoded = encode(weights.test if weights else None)
    for warning in encoded.warnings:
        tell(warning)
    ranker: RankerOptions = instantiate(cfg.ranker)
    if ranker.without_seen(corpus.reports) != ranker:
        tell(f"{SEEN}: trained without it")
    vectors = {TEST: encoded.vectors}
    if weights is not None:
        # A trained encoder scores the duplicates of its training too high.
        vectors[TRAIN] = encode(None).vectors
    if weights is not None and weights.val != weights.test:
        vectors[VAL] = encode(weights.val).vectors
    history = learn(corpus, parts, vectors, cfg.max_replayed, ranker)
    targets = (cfg.target_precision, cfg.confidence_level)
    return measure(history.replayed, corpus, history.ranker, *targets, cfg.seed, cfg.judge)


def keep_backtest(folder: Path, cfg: DictConfig, corpus: Corpus, backtest: Backtest, command: str) -> tuple[Path, str]:
    """Writes the run folder, with ``command`` on its page; returns the result of ``write_backtest``."""
    save_run(folder, cfg, corpus)
    write_parquet(folder / "matches.parquet", backtest.replayed)
    facts = PageFacts(corpus.name, command, f"{datetime.now().astimezone()}", cfg.judge)
    return write_backtest(folder, corpus, backtest, facts)


@dataclass(frozen=True)
class PageFacts:
    """Facts on the page beside results.

    Attributes:
        name: Name of the corpus.
        command: The command line of the backtest.
        date: Date with a time zone, in ISO 8601.
        max_examples: Maximum number of listed suggestions of each kind.
    """

    name: str
    command: str
    date: str
    max_examples: int

    @classmethod
    def read(cls, folder: Path) -> "PageFacts":
        """Reads the facts of a run folder; raises ValueError if they are damaged."""
        names = [field.name for field in fields(cls)]
        stored = read_object(folder / PAGE, *names)
        facts = cls(*(stored[name] for name in names))
        try:
            is_dated = datetime.fromisoformat(facts.date).tzinfo is not None
        except (TypeError, ValueError):
            is_dated = False
        texts = isinstance(facts.name, str) and isinstance(facts.command, str)
        if not (texts and is_dated and isinstance(facts.max_examples, int) and facts.max_examples > 0):
            raise ValueError(f"{folder / PAGE} is damaged: it does not say how the backtest was run")
        return facts


def write_backtest(folder: Path, corpus: Corpus, backtest: Backtest, facts: PageFacts) -> tuple[Path, str]:
    """Writes model, tables and page into the run folder.

    Returns:
        The page's path, and the warning of ``write_to_judge``.
    """
    write_tables(folder, corpus.name, backtest)
    keep_suggestions(folder, backtest.val, backtest.test, corpus)
    write_text(folder / PAGE, json.dumps(asdict(facts), indent=1) + "\n")
    warning = write_to_judge(folder, backtest, facts.max_examples)
    write_text(folder / MATCHING, backtest.matching.as_json())  # last: it marks the backtest as finished
    return write_page(folder, backtest, facts), warning


def record_backtest(folder: Path, name: str, page: Path, backtest: Backtest) -> None:
    """Adds the tables and the target of a backtest to the JSON document of the command."""
    target = asdict(backtest.matching.target) | {"statement": backtest.matching.target.statement}
    about = {"folder": folder, "corpus": name, "page": page, "target": target}
    record(**about, calibration_error=backtest.calibration_error, **backtest.tables)


def write_tables(folder: Path, name: str, backtest: Backtest) -> None:
    """Writes the tables as CSV files, and the targets in Markdown; ``name`` is that of the corpus."""
    for table_name, table in backtest.tables.items():
        write_csv(folder / f"{table_name}.csv", table)
    write_text(folder / "targets.md", targets_markdown(name, backtest) + "\n")


def write_to_judge(folder: Path, backtest: Backtest, max_examples: int) -> str:
    """Writes the listed suggestions with an empty column for verdicts; returns a warning if the file has verdicts."""
    file = folder / TO_JUDGE
    try:
        is_changed = file.is_file() and bool(read_judgements(file).verdicts)
    except ValueError:  # an invalid verdict
        is_changed = True
    if is_changed:
        return f"{file} holds verdicts and is kept: move it elsewhere to get a new list"
    write_csv(file, to_judge(backtest.tables, max_examples))
    return ""


def write_page(
    folder: Path, backtest: Backtest, facts: PageFacts, verdicts: Sequence[Verdict] = (), texts: Sequence[str] = ()
) -> Path:
    """Writes the page into the run folder and returns its path; for verdicts and texts see ``sections``."""
    relative = os.path.relpath(folder)
    command = f"gedbd judge run={relative}"
    encoder = read_config(folder).encoder.name if (folder / CONFIG).is_file() else ""
    page = sections(backtest, facts.max_examples, command, verdicts, texts)
    judging = Judging(f"gedbd {facts.name} {facts.date}", JUDGEMENTS, relative, command, verdicts)
    has_pairs = any(len(table) for section in page if section.asks_verdicts for table in section.tables)
    return write_report(
        folder,
        f"Backtest: {facts.name}",
        summary(backtest),
        page,
        command=facts.command,
        date=datetime.fromisoformat(facts.date),
        next_steps=[next_step(backtest.matching, relative)],
        judging=judging if has_pairs else None,
        subject=f"{facts.name}: {encoder}".removesuffix(": "),
    )
