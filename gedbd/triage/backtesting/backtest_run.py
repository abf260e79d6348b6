"""Runs a backtest and writes its run folder; measures a finished backtest again with human verdicts."""

import json
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf, open_dict
from rich.console import Console

from gedbd.corpora.corpus import TEST, TRAIN, VAL, Corpus
from gedbd.evaluation.significance import share_columns
from gedbd.experiments.prepare import EncodedCorpus, PreparedData, encode_corpus
from gedbd.experiments.report.judging import ACCEPT, REJECT, UNCLEAR, Judging, Verdict
from gedbd.experiments.report.report_page import write_report
from gedbd.experiments.run_folder import CONFIG, MATCHING, RunWeights, read_config, save_run, saved_options
from gedbd.io.command_output import print_table, record
from gedbd.io.console import print_line, print_next_step, print_path
from gedbd.io.files import read_object, write_text
from gedbd.io.table_files import read_csv, write_csv, write_parquet
from gedbd.retrieval.report_ranking.report_ranker import SEEN
from gedbd.retrieval.report_ranking.report_training import RankerOptions
from gedbd.triage.backtesting import suggestions_page
from gedbd.triage.backtesting.history_replay import learn
from gedbd.triage.backtesting.judgements import (
    JUDGEMENTS,
    TO_JUDGE,
    Judgements,
    find_judgements,
    joined,
    read_judgements,
    with_accepted,
)
from gedbd.triage.backtesting.measured_suggestions import (
    REPORTS,
    SUGGESTIONS,
    Backtest,
    Suggestions,
    keep_suggestions,
    measure,
    read_suggestions,
    tables_of,
    to_judge,
)
from gedbd.triage.triage_model import TriageModel

PAGE = "page.json"
LISTS = "lists.csv"
NUMBERS = (
    *("target", "threshold", "suggestions", "right", "precision", "precision_low", "precision_high", "coverage"),
    *("suggestion_rate", "validation_suggestions", "validation_precision", "unknown", "precision_as_marked"),
)
MEASURED = ["threshold", "suggestions", "right", "precision", "precision_low", "precision_high"]
# Columns of an earlier run of this command.
VERDICT_COLUMNS = "judgements|precision_with_judgements|suggestions_with_judgements"


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
    """Runs a backtest with the options of ``conf/backtest.yaml``, writes the run folder, and prints the results.

    ``weights`` are those of a trained encoder; None for the downloaded encoder. The page shows ``command``.

    Returns:
        The precision of the suggestions on the test split at the target; 0 without a threshold.
    """
    corpus = prepared.corpus
    if cfg.fill:
        # Fails early if the comment is missing.
        suggestions_page.fill_targets(Path(cfg.fill).read_text(), corpus.name, "")

    def notify(warning: str) -> None:
        print_line(console, f"{corpus.name}: {warning}")

    if cfg.verdicts:
        corpus, text = with_accepted(corpus, prepared.parts, Path(cfg.verdicts))
        print_line(console, text)
    notify(
        f"encodes {len(corpus):,} reports, trains rankers, then replays up to {cfg.max_replayed:,} reports of each"
        " split, which takes longest"
    )
    backtest = measure_history(cfg, corpus, prepared.parts, weights, partial(encode_corpus, cfg, corpus), notify)
    page, warning = keep_backtest(folder, cfg, corpus, backtest, shlex.join(["gedbd", *command]))
    if cfg.fill:
        table = suggestions_page.targets_markdown(corpus.name, backtest)
        write_text(Path(cfg.fill), suggestions_page.fill_targets(Path(cfg.fill).read_text(), corpus.name, table))
    suggestions_page.print_targets(console, backtest.tables["targets"])
    print_line(console, f"{suggestions_page.summary(backtest)} {suggestions_page.unknown_sentence(backtest)}".rstrip())
    quality = f"calibration error {backtest.calibration_error:.4f}, average precision {backtest.average_precision:.3f}"
    print_line(console, f"probabilities on test, without unknown matches: {quality}")
    print_next_step(console, *suggestions_page.next_step(backtest.matching, os.path.relpath(folder)))
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
        """A run's options together with those of the backtest; see ``check_backtest``."""
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
    notify: Callable[[str], None],
) -> Backtest:
    """Trains on the splits before test, replays all splits, and measures suggestions.

    ``parts (N,)`` are the splits of N reports. ``encode`` encodes the reports with given weights, None for the
    downloaded encoder; ``notify`` is called with each warning. For the others see ``run_backtest``.
    """
    encoded = encode(weights.test if weights else None)
    for warning in encoded.warnings:
        notify(warning)
    ranker: RankerOptions = instantiate(cfg.ranker)
    if ranker.without_seen(corpus.reports) != ranker:
        notify(f"{SEEN}: trained without it")
    vectors = {TEST: encoded.vectors}
    if weights is not None:
        # A trained encoder scores the duplicates of its training data too high.
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
    """Facts on the page: corpus, command line, ISO date, and the maximum number of listed suggestions of each kind."""

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
        has_texts = isinstance(facts.name, str) and isinstance(facts.command, str)
        if not (has_texts and is_dated and isinstance(facts.max_examples, int) and facts.max_examples > 0):
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
    """Writes the tables as CSV files, and the targets in Markdown; ``name`` is the name of the corpus."""
    for table_name, table in backtest.tables.items():
        write_csv(folder / f"{table_name}.csv", table)
    write_text(folder / "targets.md", suggestions_page.targets_markdown(name, backtest) + "\n")


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
    command = shlex.join(["gedbd", "judge", f"run={relative}"])
    encoder = read_config(folder).encoder.name if (folder / CONFIG).is_file() else ""
    page = suggestions_page.sections(backtest, facts.max_examples, command, verdicts, texts)
    judging = Judging(f"gedbd {facts.name} {facts.date}", JUDGEMENTS, relative, command, verdicts)
    has_pairs = any(len(table) for section in page if section.asks_verdicts for table in section.tables)
    return write_report(
        folder,
        f"Backtest: {facts.name}",
        suggestions_page.summary(backtest),
        page,
        command=facts.command,
        date=datetime.fromisoformat(facts.date),
        next_steps=[suggestions_page.next_step(backtest.matching, relative)],
        judging=judging if has_pairs else None,
        subject=f"{facts.name}: {encoder}".removesuffix(": "),
    )


def run_judge(folder: Path, file: Path | None, second: Path | None, console: Console) -> None:
    """Measures a backtest with the verdicts of one or two people, updates tables and page, and prints the results."""
    check_folder(folder)
    judgements = find_judgements(folder, file)
    if second is not None:
        judgements = joined(judgements, find_judgements(folder, second))
    facts = PageFacts.read(folder)
    matching = TriageModel.from_json((folder / MATCHING).read_text(encoding="utf-8", errors="replace"), str(folder))
    val, test, corpus = read_suggestions(folder, facts.name)
    targets = read_csv(folder / "targets.csv", *NUMBERS)
    tables = {
        "targets": targets.loc[:, ~targets.columns.str.match(VERDICT_COLUMNS)],
        "lists": read_csv(folder / LISTS, *NUMBERS),
        **tables_of(test, corpus, matching.target.threshold, facts.max_examples),
    }
    backtest = Backtest(matching, pd.DataFrame(), val, test, tables)
    verdict, warnings = verdicts_of(judgements, backtest.test, corpus)
    targets = with_judgements(backtest.tables["targets"], backtest.test, verdict)
    thresholds = suggestions_page.some_thresholds(backtest.tables["thresholds"], backtest.matching.target.threshold)
    backtest.tables["targets"] = targets
    backtest.tables["verdicts"] = with_judgements(thresholds[MEASURED], backtest.test, verdict)
    marked = backtest.test.best["right"].to_numpy()
    texts = [*verdict_texts(targets, verdict, marked, backtest.matching.target_precision), *warnings]
    write_tables(folder, facts.name, backtest)
    page = write_page(folder, backtest, facts, list(judgements.verdicts.values()), texts)
    record(folder=folder, corpus=facts.name, page=page, **backtest.tables)
    suggestions_page.print_targets(console, targets)
    print_table(console, suggestions_page.readable_verdicts(backtest.tables["verdicts"]), "With verdicts")
    print_path(console, "verdicts of", judgements.file)
    for line in texts:
        print_line(console, line)
    print_path(console, "page:", page)


def check_folder(folder: Path) -> None:
    """Raises ValueError unless a folder holds a finished backtest with its suggestions."""
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder; give a folder written by gedbd backtest")
    if not (folder / MATCHING).is_file():
        raise ValueError(f"{folder} is not a finished backtest: it has no {MATCHING}")
    missing = [name for name in (PAGE, SUGGESTIONS, REPORTS, LISTS) if not (folder / name).is_file()]
    if missing:
        raise ValueError(
            f"{folder} has no {missing[0]} because it was written by an older version of gedbd: run"
            " gedbd backtest again"
        )


def verdict_texts(targets: pd.DataFrame, verdict: np.ndarray, marked: np.ndarray, target_precision: float) -> list[str]:
    """Counts of the verdicts, and the precision with and without them at the target of the index, in sentences.

    For ``targets`` see ``with_judgements``, for ``verdict (B,)`` see ``verdicts_of``; ``marked (B,)`` says whether each
    best match is marked as a duplicate.
    """
    accepted = verdict == 1
    rejected = verdict == 0
    counts = [int((judged & kind).sum()) for kind in (~marked, marked) for judged in (accepted, rejected)]
    texts = [
        f"Verdicts on {sum(counts):,} best matches. Not marked as duplicates: {counts[0]:,} accepted, {counts[1]:,}"
        f" rejected. Marked as duplicates: {counts[2]:,} accepted, {counts[3]:,} rejected."
    ]
    row = targets.to_dict("records")[int((targets["target"] - target_precision).abs().argmin())]
    if row["suggestions"]:
        texts.append(
            f"Of the {row['suggestions']:,} suggestions at the threshold for {target_precision:.0%},"
            f" {row['judgements']:,} have a verdict, of which {row['judgements_marked']:,} are marked as duplicates:"
            f" {row['precision']:.0%} are right without verdicts, {row['precision_with_judgements']:.0%} with them."
        )
    if counts[2] + counts[3] == 0:
        texts.append(
            "No suggestion that is marked as a duplicate has a verdict, so the precision with verdicts can only be"
            " higher than without: it is not an unbiased estimate."
        )
    return texts


def verdicts_of(judgements: Judgements, suggestions: Suggestions, corpus: Corpus) -> tuple[np.ndarray, tuple[str, ...]]:
    """The verdict on each best match.

    Returns:
        ``(B,)`` 1 for accept, 0 for reject, NaN if unclear or without a verdict; and warnings about ignored verdicts.

    Raises:
        ValueError: If none of these matches has a verdict.
    """
    ids = corpus.reports["id"].to_numpy()
    pairs = list(zip(ids[suggestions.best["query"]], ids[suggestions.best["candidate"]], strict=True))
    known = set(pairs)
    unknown = [pair for pair in judgements.verdicts if pair not in known]
    if len(unknown) == len(judgements.verdicts):
        raise ValueError(
            f"{judgements.file}: none of its pairs is a suggestion of this backtest; is the file from another backtest?"
        )
    warnings = judgements.warnings
    if unknown:
        first = f"first: row {judgements.lines[unknown[0]]}, {unknown[0][0]} and {unknown[0][1]}"
        warnings += (
            f"verdicts on pairs that are not suggestions of this backtest: {len(unknown):,}, left out ({first})",
        )
    unclear = sum(judgements.verdicts[pair].verdict == UNCLEAR for pair in judgements.verdicts.keys() & known)
    if unclear:
        warnings += (f"verdicts that are {UNCLEAR}: {unclear:,}, which count as marked",)
    values = {ACCEPT: 1.0, REJECT: 0.0, UNCLEAR: np.nan}
    verdicts = [judgements.verdicts.get(pair) for pair in pairs]
    return np.array([np.nan if verdict is None else values[verdict.verdict] for verdict in verdicts]), warnings


def with_judgements(targets: pd.DataFrame, suggestions: Suggestions, verdict: np.ndarray) -> pd.DataFrame:
    """Adds the precision with verdicts, ``(B,)`` of ``verdicts_of``, to the table of targets.

    A suggestion with a verdict is right if it was accepted. Without a verdict, suggestions count as marked, and unknown
    ones are ignored. Intervals are bootstrapped over duplicate groups, which accepted pairs merge.

    Returns:
        The table with ``judgements`` (suggestions with a verdict), ``judgements_marked`` (those marked as duplicates),
        ``suggestions_with_judgements`` (suggestions that count), and ``precision_with_judgements`` with ``_low`` and
        ``_high``.
    """
    suggested = suggestions.at(targets["threshold"].to_numpy())
    marked = suggestions.best["right"].to_numpy()
    has_verdict = ~np.isnan(verdict)
    right = np.where(has_verdict, verdict == 1, marked)
    cluster = joined_groups(suggestions, verdict)[suggestions.best["query"]]
    counted = suggested & (suggestions.is_known | has_verdict)[:, None]
    precision = share_columns("precision_with_judgements", counted & right[:, None], counted, cluster)
    counts = {
        "judgements": (suggested & has_verdict[:, None]).sum(axis=0),
        "judgements_marked": (suggested & (has_verdict & marked)[:, None]).sum(axis=0),
        "suggestions_with_judgements": counted.sum(axis=0),
    }
    return targets.assign(**counts).join(precision)


def joined_groups(suggestions: Suggestions, verdict: np.ndarray) -> np.ndarray:
    """``(N,)`` groups of all reports, with accepted pairs as duplicates."""
    group = suggestions.group.copy()
    accepted = suggestions.best[verdict == 1]
    for query, candidate in zip(accepted["query"], accepted["candidate"], strict=True):
        group[group == group[query]] = group[candidate]
    return group
