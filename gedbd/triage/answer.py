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
from rich.style import Style
from rich.table import Table
from rich.text import Text

from gedbd.corpora.urls import web_url
from gedbd.triage.backtesting.targets import TargetResult
from gedbd.triage.report import Match, Report, check_report, read_moment

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


def as_json(report: Report, matches: Sequence[Match], target: TargetResult) -> str:
    """One line for programs, of ASCII only: ``query``, ``threshold``, ``target`` and ``matches``.

    ``threshold`` is the probability from which on a match may be suggested unasked, null if nothing may be; ``target``
    holds what the backtest measured, and says it in words under ``statement``.
    """
    answer = {
        "query": asdict(report),
        "threshold": target.suggest_from,
        "target": asdict(target) | {"statement": target.statement},
        "matches": [asdict(match) for match in matches],
    }
    return json.dumps(answer, default=datetime.isoformat)


def print_matches(console: Console, report: Report, matches: Sequence[Match], target: TargetResult) -> None:
    """A table for people, and below it what the backtest measured, if a match is suggested or none ever is.

    Ids are links in a terminal that shows styles; elsewhere addresses follow below the table.
    """
    table = Table(title=_printable(report.title[:100] or report.issue_id), box=SIMPLE_HEAD, title_justify="left")
    for name in ("probability", "report", "why"):
        table.add_column(name, overflow="fold")
    for match in matches:
        table.add_row(f"{match.probability:.0%}", _what(match), _printable(_why(match)))
    console.print(table if matches else "no candidate: nothing is stored that the filters leave", highlight=False)
    if console.color_system is None:  # then links are not shown either
        print_urls(console, matches)
    if target.suggest_from is None:
        console.print(f"{target.statement} Judge for yourself.", highlight=False)
    elif any(match.probability >= target.suggest_from for match in matches):
        console.print(f"Suggested from {target.suggest_from:.0%} on. {target.statement}", highlight=False)


def print_urls(console: Console, matches: Sequence[Match]) -> None:
    """The address of each group's oldest report, one a line, whole however long it is."""
    for match in matches:
        url = web_url(match.master.url)
        if url:
            line = _printable(f"{match.master.issue_id}: {url}")
            console.print(line, highlight=False, soft_wrap=True)


def _printable(text: str) -> Text:
    """As it stands, but for what would steer the terminal; no markup, no smileys."""
    return Text("".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text))


def _linked(issue_id: str, url: str) -> Text:
    """An id, and in a terminal a link to the report's page."""
    text = _printable(issue_id)
    address = web_url(url)
    if address:
        text.stylize(Style(link=address))
    return text


def _what(match: Match) -> Text:
    """The oldest report of the group, the other members, and which of them is most alike."""
    master, best = match.master, match.best
    filed = f", {master.created_at:%Y-%m-%d}" if master.created_at else ""
    facts = f"{filed} {master.status} {master.resolution}".rstrip()
    parts = [_linked(master.issue_id, master.url), _printable(f"{facts}\n{master.title}")]
    if len(match.members) > 1:
        others = [_linked(one, match.urls.get(one, "")) for one in match.members[1:6]]
        more = ", ..." if len(match.members) > 6 else ""
        parts += [Text("\nwith "), Text(", ").join(others), Text(f"{more}; most alike ")]
        parts += [_linked(best.issue_id, best.url), _printable(f": {best.title}")]
    return Text().join(parts)


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
