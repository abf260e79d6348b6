"""Verdicts of people on suggestions of a backtest: reads the file that holds them, and measures with them."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.csv_file import HEAD_BYTES, find_dialect
from gedbd.corpora.relevance import Groups
from gedbd.corpora.splits import TEST
from gedbd.experiments.report.judging import ACCEPT, PAIR, REJECT, UNCLEAR, VERDICT, VERDICT_TEXTS, Verdict
from gedbd.io.table_files import plain_cell
from gedbd.triage.backtesting.suggestions import Suggestions, shares

JUDGEMENTS = "judgements.csv"  # downloaded from the page
TO_JUDGE = "to_judge.csv"  # written by the backtest, its column verdict is empty
COLUMNS = (*PAIR, VERDICT)
ISO_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z", re.ASCII)


@dataclass(frozen=True)
class Judgements:
    """The verdicts of a file.

    Attributes:
        file: The file.
        verdicts: One a pair.
        lines: The line of each.
        warnings: What was left out, in sentences for the user.
    """

    file: Path
    verdicts: dict[tuple[str, str], Verdict]
    lines: dict[tuple[str, str], int]
    warnings: tuple[str, ...] = ()


def find_judgements(folder: Path, file: Path | None) -> Judgements:
    """Reads ``judgements.csv`` of a run folder, or else ``to_judge.csv`` if somebody has filled it in.

    Args:
        folder: The run folder.
        file: A file to read instead.

    Raises:
        ValueError: If there is no such file, it holds no verdict, or it is wrong; see ``read_judgements``.
    """
    if file is not None:
        if not file.is_file():
            raise ValueError(f"file={file}: no such file")
        return _with_any(read_judgements(file))
    downloaded = folder / JUDGEMENTS
    by_hand = folder / TO_JUDGE
    if not downloaded.is_file():
        if not by_hand.is_file():
            raise ValueError(f"{folder} has neither {JUDGEMENTS} nor {TO_JUDGE}: set file= to the file of verdicts")
        return _with_any(read_judgements(by_hand))
    found = _with_any(read_judgements(downloaded))
    ignored = len(read_judgements(by_hand).verdicts) if by_hand.is_file() else 0
    if ignored:
        warning = f"verdicts in {TO_JUDGE} ignored because the folder has a {JUDGEMENTS}: {ignored:,}"
        found = replace(found, warnings=(warning,))
    return found


def joined(first: Judgements, second: Judgements) -> Judgements:
    """The verdicts of two people. A pair on which they disagree has none.

    A sentence says how often they agree, and how much more often than by chance: Cohen's kappa (1960), 1 for always, 0
    for as often as two people would who give each verdict as often as these, but at random.
    """
    both = [pair for pair in first.verdicts if pair in second.verdicts]
    said = [(first.verdicts[pair].verdict, second.verdicts[pair].verdict) for pair in both]
    disputed = {pair for pair, (mine, theirs) in zip(both, said, strict=True) if mine != theirs}
    verdicts = {pair: one for pair, one in (second.verdicts | first.verdicts).items() if pair not in disputed}
    text = f"{first.file.name} and {second.file.name} have no pair in common: nothing is known of their agreement"
    if both:
        agreed = 1 - len(disputed) / len(both)
        text = (
            f"Both people judged {len(both):,} pairs and agree on {len(both) - len(disputed):,} of them"
            f" ({agreed:.0%}{_kappa(said, agreed)}); on {len(disputed):,} they disagree, which count as marked"
        )
    warnings = (*first.warnings, *second.warnings, text)
    return _with_any(Judgements(first.file, verdicts, second.lines | first.lines, warnings))


def _kappa(said: Sequence[tuple[str, str]], agreed: float) -> str:
    """Cohen's kappa as text; empty if both say the same of all pairs, which leaves nothing to agree on."""
    given = np.array(said)
    by_chance = float(sum((given == verdict).mean(axis=0).prod() for verdict in VERDICT_TEXTS))
    return "" if by_chance == 1 else f", kappa {(agreed - by_chance) / (1 - by_chance):.2f}"


def _with_any(found: Judgements) -> Judgements:
    """The same; raises ValueError if there is no verdict."""
    if not found.verdicts:
        raise ValueError(
            f"{found.file} holds no verdict: give verdicts on the page and put the downloaded {JUDGEMENTS} into the"
            f" run folder, or fill the column verdict of {TO_JUDGE} with {ACCEPT}, {REJECT} or {UNCLEAR}"
        )
    return found


def read_judgements(file: Path) -> Judgements:
    """Reads verdicts from a CSV file.

    Its columns are ``report``, ``suggested``, ``verdict`` (see ``Verdict``; empty: no verdict) and, not needed,
    ``date``; others are not read. Separator and encoding are detected, as spreadsheet programs change them. Only ids
    are compared: damaged characters in titles do no harm.

    Raises:
        ValueError: If a column is missing, a verdict is another word, or a pair has two verdicts; names the line.
    """
    with file.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    try:
        dialect = find_dialect(head, file, None, None, COLUMNS)
    except ValueError as error:
        raise ValueError(f"{file} is not a CSV file with the columns {', '.join(COLUMNS)}") from error
    verdicts: dict[tuple[str, str], Verdict] = {}
    lines: dict[tuple[str, str], int] = {}
    with file.open(encoding=dialect.encoding, errors="replace", newline="") as stream:
        rows = csv.DictReader(stream, delimiter=dialect.separator)
        try:
            missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
            if missing:
                raise ValueError(
                    f"{file}, row 1: there is no column {missing[0]!r}; required columns: {', '.join(COLUMNS)}"
                )
            for row in rows:
                _add_row(row, f"{file}, row {rows.line_num}", rows.line_num, verdicts, lines)
        except csv.Error as error:
            raise ValueError(f"{file}, row {rows.line_num}: {error}") from error
    return Judgements(file, verdicts, lines)


def _add_row(
    row: dict[str, str | None],
    where: str,
    line: int,
    verdicts: dict[tuple[str, str], Verdict],
    lines: dict[tuple[str, str], int],
) -> None:
    """Adds the verdict of a row, if it has one."""
    report, suggested, word, date = ((row.get(name) or "").strip() for name in (*COLUMNS, "date"))
    if not word:
        return
    if word.lower() not in VERDICT_TEXTS:
        raise ValueError(f"{where}: the verdict is {word!r}: write {', '.join(VERDICT_TEXTS)} or nothing")
    pair = (plain_cell(report), plain_cell(suggested))
    verdict = Verdict(*pair, word.lower(), date if ISO_TIME.fullmatch(date) else "")
    before = verdicts.setdefault(pair, verdict)
    if before.verdict != verdict.verdict:
        raise ValueError(
            f"{where}: {verdict.verdict} for report {pair[0]} and {pair[1]}, but row {lines[pair]} has"
            f" {before.verdict}: keep one of them"
        )
    lines.setdefault(pair, line)


def verdicts_of(judgements: Judgements, found: Suggestions, corpus: Corpus) -> tuple[np.ndarray, tuple[str, ...]]:
    """The verdict on each best match.

    Args:
        judgements: The verdicts.
        found: The best matches.
        corpus: The reports.

    Returns:
        ``(B,)`` 1 for accept, 0 for reject, NaN if unclear or without a verdict; and what was left out, in sentences.

    Raises:
        ValueError: If no verdict is on one of these matches.
    """
    ids = corpus.reports["id"].to_numpy()
    pairs = list(zip(ids[found.best["query"]], ids[found.best["candidate"]], strict=True))
    known = set(pairs)
    unknown = [pair for pair in judgements.verdicts if pair not in known]
    if len(unknown) == len(judgements.verdicts):
        raise ValueError(
            f"{judgements.file}: none of its pairs is a suggestion of this backtest; does the file belong to another"
            " one?"
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
    given = [judgements.verdicts.get(pair) for pair in pairs]
    return np.array([np.nan if one is None else values[one.verdict] for one in given]), warnings


def with_accepted(corpus: Corpus, parts: np.ndarray, file: Path) -> tuple[Corpus, str]:
    """Joins the groups of reports that people have accepted as duplicates, for a backtest to learn from them.

    The test part stays as it is marked: people mostly judge suggestions that count as wrong, so with their verdicts its
    precision could only rise.

    Args:
        corpus: N reports.
        parts: ``(N,)`` the part of each.
        file: The verdicts, see ``read_judgements``.

    Returns:
        The corpus, and a sentence that says how many pairs were joined and why others were not.

    Raises:
        ValueError: If the file holds no verdict, or is wrong.
    """
    given = _with_any(read_judgements(file)).verdicts
    accepted = [pair for pair, one in given.items() if one.verdict == ACCEPT]
    rows = {issue_id: row for row, issue_id in enumerate(corpus.reports["id"])}
    known = [(rows[one], rows[other]) for one, other in accepted if one in rows and other in rows]
    learnt = [pair for pair in known if parts[max(pair)] != TEST]
    group = corpus.group.copy()
    for pair in learnt:
        numbers = group[list(pair)]
        group[np.isin(group, numbers)] = numbers.min()
    text = (
        f"{file}: {len(given):,} verdicts, {len(accepted):,} of them accepted; {len(learnt):,} accepted pairs are"
        f" learnt from, {len(known) - len(learnt):,} not since they are in the test part,"
        f" {len(accepted) - len(known):,} not since a report is unknown"
    )
    return replace(corpus, relevance=Groups(group)), text


def with_judgements(targets: pd.DataFrame, found: Suggestions, verdict: np.ndarray) -> pd.DataFrame:
    """Adds to the table of targets the precision with verdicts: a suggestion with one is right if it was accepted.

    Others count as marked, and unknown ones without a verdict not at all.

    Intervals are over duplicate groups, as for the precision as marked; an accepted pair joins two groups.

    Args:
        targets: See ``targets_table``; its columns do not change.
        found: The best matches that it was measured on.
        verdict: ``(B,)``, see ``verdicts_of``.

    Returns:
        The table with ``judgements`` (number of suggestions with a verdict), ``judgements_marked`` (of them marked as
        duplicates), ``suggestions_with_judgements`` (number of those that count), and ``precision_with_judgements``,
        with ``_low`` and ``_high``.
    """
    suggested = found.at(targets["threshold"].to_numpy())
    marked = found.best["right"].to_numpy()
    has_verdict = ~np.isnan(verdict)
    right = np.where(has_verdict, verdict == 1, marked)
    cluster = joined_groups(found, verdict)[found.best["query"]]
    counted = suggested & (found.is_known | has_verdict)[:, None]
    precision = shares("precision_with_judgements", counted & right[:, None], counted, cluster)
    counts = {
        "judgements": (suggested & has_verdict[:, None]).sum(axis=0),
        "judgements_marked": (suggested & (has_verdict & marked)[:, None]).sum(axis=0),
        "suggestions_with_judgements": counted.sum(axis=0),
    }
    return targets.assign(**counts).join(precision)


def joined_groups(found: Suggestions, verdict: np.ndarray) -> np.ndarray:
    """``(N,)`` groups of all reports if accepted pairs are duplicates too."""
    group = found.group.copy()
    accepted = found.best[verdict == 1]
    for query, candidate in zip(accepted["query"], accepted["candidate"], strict=True):
        group[group == group[query]] = group[candidate]
    return group
