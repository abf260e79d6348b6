"""Prints suspect commits, as blocks of text for people or as JSON lines for programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from textwrap import wrap
from typing import Any

from rich.console import Console
from rich.text import Text

from gedbd.io.plain_text import printable
from gedbd.io.printing import print_line
from gedbd.triage.locating.hunks import MatchedHunk, MatchedLine
from gedbd.triage.locating.located import LocatedChange
from gedbd.triage.report import Report

SHORT_ID = 10
INDENT = "    "
SHOWN_BEFORE = 12  # characters before the first shared word of a line that is cut at its beginning
CUT = "..."
SIGN_STYLES = {"+": "green", "-": "red", " ": ""}
HIT_STYLE = "bold reverse"


def as_json(report: Report, changes: Sequence[LocatedChange], facts: dict[str, Any]) -> str:
    """One line of ASCII for programs.

    Args:
        report: What was asked for: ``query``.
        changes: ``changes``; ``title`` is the first line of ``message``, and ``spans`` of a line are the places of the
            report's words in ``text``.
        facts: Further fields, such as the state of the index.
    """
    query = {"issue_id": report.issue_id, "title": report.title, "created_at": report.created_at}
    found = [{"title": change.title, **asdict(change)} for change in changes]
    return json.dumps({"query": query, **facts, "changes": found}, default=datetime.isoformat)


def print_changes(
    console: Console, report: Report, changes: Sequence[LocatedChange], facts: dict[str, Any], statement: str
) -> None:
    """Prints a block for each commit: rank, id, date and title; reasons; the lines that match.

    Args:
        console: Where to print.
        report: What was asked for.
        changes: The answer.
        facts: See ``RepositoryIndex.facts``.
        statement: What the ranker is worth, in words.
    """
    _print_wrapped(console, Text(), printable(f"{report.issue_id} {report.title}".strip()[:200]))
    for change in changes:
        console.print()
        head = Text(f"{change.rank:3} ", style="bold")
        head.append(change.id[:SHORT_ID], style="yellow")
        head.append(f"  {change.created_at:%Y-%m-%d}  ")
        _print_wrapped(console, head, printable(change.title or "(no message)"))
        reasons = printable("; ".join(change.explanation))
        _print_wrapped(console, Text(INDENT), reasons)
        for hunk in change.hunks:
            _print_hunk(console, hunk)
    if not changes:
        console.print(
            "no commit is older than the report"
            if facts["num_commits"]
            else "there are only merge commits: set merges=true"
        )
    console.print()
    counts = f"{facts['num_ranked']:,} of the {facts['num_commits']:,} commits up to {facts['commit'][:SHORT_ID]}"
    merges = f", {facts['num_merges']:,} merges left out" if facts["num_merges"] else ""
    print_line(console, f"{counts} were ranked{merges}. {statement}")


def print_notices(console: Console, notices: Sequence[str]) -> None:
    """Prints warnings, one a line."""
    for notice in notices:
        console.print(Text(printable(notice)), soft_wrap=True)


def _print_hunk(console: Console, hunk: MatchedHunk) -> None:
    # Of a hunk without lines after the change, the place of the removed lines.
    start = hunk.new_start if hunk.new_count else hunk.old_start
    last = start + max(1, hunk.new_count or hunk.old_count) - 1
    place = Text(INDENT) + Text.assemble((printable(hunk.path), "cyan"), f":{start}-{last}")
    console.print(place, soft_wrap=True)  # whole, to be copied
    indent = min((len(line.text) - len(line.text.lstrip()) for line in hunk.lines), default=0)
    for line in hunk.lines:
        _print_line(console, _line_text(line, indent, console.width))


def _line_text(line: MatchedLine, left_out: int, width: int) -> Text:
    """The number, sign and text of a line, its shared words highlighted; a far first word is brought into sight.

    Args:
        line: The line.
        left_out: How many blanks at its beginning are left out.
        width: Columns of the terminal.
    """
    head = Text(f"{INDENT}{line.number:6} {line.sign} ")
    text = Text(printable(line.text))  # one character for each, so that the places stay
    text.stylize(SIGN_STYLES[line.sign])
    for start, end in line.spans:
        text.stylize(HIT_STYLE, start, end)
    first = line.spans[0] if line.spans else (0, 0)
    if first[1] - left_out > width - len(head):
        left_out = max(0, first[0] - SHOWN_BEFORE)
        head.append(CUT)
    return head + text[left_out:]


def _print_wrapped(console: Console, head: Text, text: str) -> None:
    """Prints a text behind a head; in a terminal, lines break between words, and further ones are indented as far."""
    lines = [text]
    if console.is_terminal:
        lines = wrap(text, console.width - len(head), break_long_words=False, break_on_hyphens=False) or [""]
    for place, line in enumerate(lines):
        start = Text(" " * len(head), style=head.style) if place else head.copy()
        console.print(start.append(line), soft_wrap=True)


def _print_line(console: Console, text: Text) -> None:
    """Prints one line, cut at the right edge of a terminal, whole elsewhere."""
    if console.is_terminal:
        console.print(text, no_wrap=True, overflow="ellipsis", crop=True)
    else:
        console.print(text, soft_wrap=True)
