"""Queries as people and programs give them, and answers as they want them."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gedbd.matching.report import Match, Report, check_report, read_moment

LINES = (".jsonl", ".ndjson")
EXPECTED = 'give a text, or a line such as {"title": "Crash", "description": "..."} for each report'
NAMES = tuple(field.name for field in fields(Report))


def read_queries(text: str | None, file: str | None) -> Iterator[Report]:
    """Reports from a text, a text file, or JSON lines; lines are read when they are asked for.

    Args:
        text: The report; its first line is the title.
        file: A file with such a text; ``.jsonl`` or ``-`` (standard input): one JSON object a line.

    Raises:
        ValueError: If neither or both are given, the file is missing or holds no report, or a line is no report; names
            the line.
    """
    if (text is None) == (file is None):
        raise ValueError(
            "say what to look for: a text in quotes, or file=report.txt, or file=- for JSON lines; one of it"
        )
    if file == "-":
        return _of_lines((line.decode("utf-8", "replace") for line in sys.stdin.buffer), "standard input")
    if file is None:
        return iter([_of_text(str(text))])
    path = Path(file)
    if not path.is_file():
        raise ValueError(f"file={file}: there is no such file")
    content = path.read_text(encoding="utf-8-sig", errors="replace")
    if not content.strip():
        raise ValueError(f"file={file} is empty: {EXPECTED}")
    return _of_lines(content.split("\n"), file) if path.suffix in LINES else iter([_of_text(content)])


def report_of(plain: Any) -> Report:
    """A report from a JSON object.

    Raises:
        ValueError: If it is none, or holds what a report does not.
    """
    if not isinstance(plain, dict):
        raise ValueError("expected is an object with title and description")
    unknown = [name for name in plain if name not in NAMES]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no field of a report: {', '.join(NAMES)}")
    wrong = [name for name, value in plain.items() if not isinstance(value, str | int | float | None)]
    if wrong:
        raise ValueError(f"{wrong[0]} must be a text")
    values = {name: str(value) for name, value in plain.items() if value is not None and name != "created_at"}
    report = Report(created_at=read_moment(plain.get("created_at"), "created_at"), **values)
    check_report(report)
    return report


def as_json(report: Report, matches: Sequence[Match], threshold: float | None) -> str:
    """One line for programs, of ASCII only: ``query``, ``threshold`` and ``matches``."""
    answer = {"query": asdict(report), "threshold": threshold, "matches": [asdict(match) for match in matches]}
    return json.dumps(answer, default=datetime.isoformat)


def print_matches(console: Console, report: Report, matches: Sequence[Match], threshold: float | None) -> None:
    """A table for people."""
    table = Table(title=_printable(report.title[:100] or report.issue_id), box=SIMPLE_HEAD, title_justify="left")
    for name in ("probability", "report", "why"):
        table.add_column(name, overflow="fold")
    for match in matches:
        table.add_row(f"{match.probability:.0%}", _printable(_what(match)), _printable(_why(match)))
    console.print(table if matches else "no candidate: nothing is stored that the filters leave", highlight=False)
    sure = threshold is not None and any(match.probability >= threshold for match in matches)
    if threshold is None:
        console.print("the backtest found no threshold from which to suggest unasked: judge for yourself")
    elif sure:
        console.print(f"sure enough to suggest unasked (from {threshold:.0%} on)", highlight=False)


def _printable(text: str) -> Text:
    """As it stands, but for what would steer the terminal; no markup, no smileys."""
    return Text("".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text))


def _what(match: Match) -> str:
    filed = f", {match.master.created_at:%Y-%m-%d}" if match.master.created_at else ""
    lines = [
        f"{match.master.issue_id}{filed} {match.master.status} {match.master.resolution}".rstrip(),
        match.master.title,
    ]
    if len(match.members) > 1:
        others = ", ".join(match.members[1:6]) + (", ..." if len(match.members) > 6 else "")
        lines.append(f"with {others}; most alike {match.best.issue_id}: {match.best.title}")
    return "\n".join(lines)


def _why(match: Match) -> str:
    lines = [", ".join(match.why.terms)] if match.why.terms else []
    if match.why.fields:
        lines.append("same " + ", ".join(f"{name} {value}" for name, value in match.why.fields.items()))
    if match.why.sentences:
        lines.append(f'"{match.why.sentences[0][1][:160]}"')
    return "\n".join(lines)


def _of_text(text: str) -> Report:
    title, _, description = text.strip().partition("\n")
    report = Report(title=title.strip(), description=description.strip())
    check_report(report)
    return report


def _of_lines(lines: Iterable[str], source: str) -> Iterator[Report]:
    num_reports = 0
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                report = report_of(json.loads(line))
            except (ValueError, RecursionError) as error:  # json.JSONDecodeError is a ValueError
                raise ValueError(f"{source}, line {number}: {error}") from error
            num_reports += 1
            yield report
    if num_reports == 0:
        raise ValueError(f"{source} is empty: {EXPECTED}")
