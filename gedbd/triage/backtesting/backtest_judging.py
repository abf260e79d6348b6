"""Measures a finished backtest with the verdicts of people, and updates its tables and page."""

from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from gedbd.corpora.corpus import Corpus
from gedbd.evaluation.significance import share_columns
from gedbd.experiments.report.judging import ACCEPT, REJECT, UNCLEAR
from gedbd.experiments.run_folder import MATCHING
from gedbd.io.command_output import print_table, record
from gedbd.io.console import print_line, print_path
from gedbd.io.table_files import read_csv
from gedbd.triage.backtesting.backtest_page import print_targets, readable_verdicts, some_thresholds
from gedbd.triage.backtesting.backtest_run import PAGE, PageFacts, write_page, write_tables
from gedbd.triage.backtesting.judgements import Judgements, find_judgements, joined
from gedbd.triage.backtesting.suggestions import (
    REPORTS,
    SUGGESTIONS,
    Backtest,
    Suggestions,
    read_suggestions,
    tables_of,
)
from gedbd.triage.triage_model import TriageModel

LISTS = "lists.csv"
NUMBERS = (
    *("target", "threshold", "suggestions", "right", "precision", "precision_low", "precision_high", "coverage"),
    *("suggestion_rate", "validation_suggestions", "validation_precision", "unknown", "precision_as_marked"),
)
MEASURED = ["threshold", "suggestions", "right", "precision", "precision_low", "precision_high"]
# Columns of an earlier run of this command.
VERDICT_COLUMNS = "judgements|precision_with_judgements|suggestions_with_judgements"


def run_judge(folder: Path, file: Path | None, second: Path | None, console: Console) -> None:
    """Measures a backtest with verdicts, updates its tables and page, and prints the results.

    Args:
        folder: The folder of a finished backtest.
        file: See ``find_judgements``.
        second: The file of another person, see ``joined``.
        console: Console for results and warnings.
    """
    check_folder(folder)
    judgements = find_judgements(folder, file)
    if second is not None:
        judgements = joined(judgements, find_judgements(folder, second))
    facts = PageFacts.read(folder)
    backtest, corpus = read_backtest(folder, facts)
    verdict, warnings = verdicts_of(judgements, backtest.test, corpus)
    targets = with_judgements(backtest.tables["targets"], backtest.test, verdict)
    thresholds = some_thresholds(backtest.tables["thresholds"], backtest.matching.target.threshold)
    backtest.tables["targets"] = targets
    backtest.tables["verdicts"] = with_judgements(thresholds[MEASURED], backtest.test, verdict)
    marked = backtest.test.best["right"].to_numpy()
    texts = [*verdict_texts(targets, verdict, marked, backtest.matching.target_precision), *warnings]
    write_tables(folder, facts.name, backtest)
    page = write_page(folder, backtest, facts, list(judgements.verdicts.values()), texts)
    record(folder=folder, corpus=facts.name, page=page, **backtest.tables)
    print_targets(console, targets)
    print_table(console, readable_verdicts(backtest.tables["verdicts"]), "With verdicts")
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


def read_backtest(folder: Path, facts: PageFacts) -> tuple[Backtest, Corpus]:
    """A backtest without verdicts from its run folder, and its reports; raises ValueError if a file is damaged."""
    matching = TriageModel.from_json((folder / MATCHING).read_text(encoding="utf-8", errors="replace"), str(folder))
    val, test, corpus = read_suggestions(folder, facts.name)
    targets = read_csv(folder / "targets.csv", *NUMBERS)
    kept = targets.loc[:, ~targets.columns.str.match(VERDICT_COLUMNS)]
    lists = read_csv(folder / LISTS, *NUMBERS)
    tables = {"targets": kept, "lists": lists} | tables_of(test, corpus, matching.target.threshold, facts.max_examples)
    return Backtest(matching, pd.DataFrame(), val, test, tables), corpus


def verdict_texts(targets: pd.DataFrame, verdict: np.ndarray, marked: np.ndarray, target_precision: float) -> list[str]:
    """Counts of the verdicts, and the precision without and with them, in sentences.

    Args:
        targets: See ``with_judgements``.
        verdict: ``(B,)``, see ``verdicts_of``.
        marked: ``(B,)`` whether each best match is marked as a duplicate.
        target_precision: The precision target of the index.
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
        ValueError: If these matches have no verdict.
    """
    ids = corpus.reports["id"].to_numpy()
    pairs = list(zip(ids[suggestions.best["query"]], ids[suggestions.best["candidate"]], strict=True))
    known = set(pairs)
    unknown = [pair for pair in judgements.verdicts if pair not in known]
    if len(unknown) == len(judgements.verdicts):
        raise ValueError(
            f"{judgements.file}: none of its pairs is a suggestion of this backtest; is the file of another backtest?"
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
    """Adds the precision with verdicts to the table of targets.

    A suggestion with a verdict is right if it was accepted. Without a verdict, suggestions count as marked, and unknown
    ones are ignored. Intervals are over duplicate groups, which accepted pairs join.

    Args:
        targets: See ``targets_table``.
        suggestions: The best matches of the table.
        verdict: ``(B,)``, see ``verdicts_of``.

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
