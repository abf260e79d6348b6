"""Reads and merges files of human verdicts on suggestions, and marks accepted pairs in a corpus."""

import csv
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gedbd.corpora.corpus import TEST, Corpus
from gedbd.corpora.readers.csv_file import HEAD_BYTES, find_dialect
from gedbd.corpora.relevance import Groups
from gedbd.experiments.report.judging import ACCEPT, PAIR, REJECT, UNCLEAR, VERDICT, VERDICT_TEXTS, Verdict
from gedbd.io.table_files import plain_cell

JUDGEMENTS = "judgements.csv"  # downloaded from the page
TO_JUDGE = "to_judge.csv"  # written by the backtest with an empty column verdict
COLUMNS = (*PAIR, VERDICT)
ISO_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z", re.ASCII)


@dataclass(frozen=True)
class Judgements:
    """The verdicts of a file: the verdict and line number of each pair of ids, and warnings about ignored verdicts."""

    file: Path
    verdicts: dict[tuple[str, str], Verdict]
    lines: dict[tuple[str, str], int]
    warnings: tuple[str, ...] = ()


def find_judgements(folder: Path, file: Path | None) -> Judgements:
    """Reads a file or, for None, ``judgements.csv`` of a run folder, or else ``to_judge.csv`` if it was filled in.

    Raises:
        ValueError: If the file is missing, has no verdict, or is invalid, see ``read_judgements``.
    """
    if file is not None:
        if not file.is_file():
            raise ValueError(f"file={file}: no such file")
        return _require_verdicts(read_judgements(file))
    downloaded = folder / JUDGEMENTS
    by_hand = folder / TO_JUDGE
    if not downloaded.is_file():
        if not by_hand.is_file():
            raise ValueError(f"{folder} has neither {JUDGEMENTS} nor {TO_JUDGE}: set file= to the file of verdicts")
        return _require_verdicts(read_judgements(by_hand))
    judgements = _require_verdicts(read_judgements(downloaded))
    ignored = len(read_judgements(by_hand).verdicts) if by_hand.is_file() else 0
    if ignored:
        warning = f"verdicts in {TO_JUDGE} ignored because the folder has a {JUDGEMENTS}: {ignored:,}"
        judgements = replace(judgements, warnings=(warning,))
    return judgements


def joined(first: Judgements, second: Judgements) -> Judgements:
    """The verdicts of two people, without disputed pairs; a warning states their agreement and Cohen's kappa."""
    both = [pair for pair in first.verdicts if pair in second.verdicts]
    words = np.array([(first.verdicts[pair].verdict, second.verdicts[pair].verdict) for pair in both])
    disputed = {pair for pair, (word, other) in zip(both, words, strict=True) if word != other}
    verdicts = {pair: verdict for pair, verdict in (second.verdicts | first.verdicts).items() if pair not in disputed}
    text = f"{first.file.name} and {second.file.name} have no pair in common: their agreement is unknown"
    if both:
        agreed = 1 - len(disputed) / len(both)
        by_chance = float(sum((words == verdict).mean(axis=0).prod() for verdict in VERDICT_TEXTS))
        # Cohen's kappa (1960), which is undefined if all verdicts are equal.
        kappa = "" if by_chance == 1 else f", kappa {(agreed - by_chance) / (1 - by_chance):.2f}"
        text = (
            f"Both people judged {len(both):,} pairs and agree on {len(both) - len(disputed):,} of them"
            f" ({agreed:.0%}{kappa}); the other {len(disputed):,} count as marked"
        )
    warnings = (*first.warnings, *second.warnings, text)
    return _require_verdicts(Judgements(first.file, verdicts, second.lines | first.lines, warnings))


def _require_verdicts(judgements: Judgements) -> Judgements:
    """Returns the argument; raises ValueError if it has no verdict."""
    if not judgements.verdicts:
        raise ValueError(
            f"{judgements.file} holds no verdict: give verdicts on the page and put the downloaded {JUDGEMENTS} into"
            f" the run folder, or fill the column verdict of {TO_JUDGE} with {ACCEPT}, {REJECT} or {UNCLEAR}"
        )
    return judgements


def read_judgements(file: Path) -> Judgements:
    """Reads verdicts from a CSV file.

    The columns are ``report``, ``suggested``, ``verdict`` (see ``Verdict``, or empty) and optionally ``date``; others
    are ignored. Separator and encoding are detected, as spreadsheet programs change them.

    Raises:
        ValueError: If a column is missing, a verdict is unknown, or a pair has two verdicts; names the line.
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
    previous = verdicts.setdefault(pair, verdict)
    if previous.verdict != verdict.verdict:
        raise ValueError(
            f"{where}: {verdict.verdict} for report {pair[0]} and {pair[1]}, but row {lines[pair]} has"
            f" {previous.verdict}: keep one of them"
        )
    lines.setdefault(pair, line)


def with_accepted(corpus: Corpus, parts: np.ndarray, file: Path) -> tuple[Corpus, str]:
    """Merges the groups of accepted pairs before the test split, for training; also returns their counts in a sentence.

    The test split does not change: people mostly judge suggestions that count as wrong, so that verdicts would bias its
    precision upwards. ``parts (N,)`` are the splits of the reports. Raises ValueError if the file, see
    ``read_judgements``, is invalid or has no verdict.
    """
    verdicts = _require_verdicts(read_judgements(file)).verdicts
    accepted = [pair for pair, verdict in verdicts.items() if verdict.verdict == ACCEPT]
    rows = {issue_id: row for row, issue_id in enumerate(corpus.reports["id"])}
    known = [[rows[issue_id] for issue_id in pair] for pair in accepted if rows.keys() >= set(pair)]
    learned = [pair for pair in known if parts[max(pair)] != TEST]
    group = corpus.group.copy()
    for pair in learned:
        numbers = group[pair]
        group[np.isin(group, numbers)] = numbers.min()
    text = (
        f"{file}: {len(verdicts):,} verdicts, {len(accepted):,} of them accepted; {len(learned):,} accepted pairs are"
        f" used for training, {len(known) - len(learned):,} are left out as they are in the test split,"
        f" {len(accepted) - len(known):,} as a report is unknown"
    )
    return replace(corpus, relevance=Groups(group)), text
