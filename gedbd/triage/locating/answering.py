"""Answers the reports of ``gedbd locate``, one after the other."""

import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from gedbd.configuration.command import INTERRUPTED_STATUS
from gedbd.io.command_output import write_json_line
from gedbd.io.console import open_console, print_line, printable, stage, wrap_cells
from gedbd.triage.bug_report import Report
from gedbd.triage.locating.hunks import MatchedHunk, MatchedLine
from gedbd.triage.locating.indexing import IndexLimits
from gedbd.triage.locating.located import LocatedChange
from gedbd.triage.locating.locating_queries import query_of
from gedbd.triage.locating.repository_index import RepositoryIndex, open_repository
from gedbd.triage.locating.tracker_ranker import TrackerRanker

SHORT_ID = 10
INDENT = "    "
SHOWN_BEFORE = 12  # characters before the first shared word of a line that is cut at its beginning
CUT = "..."
SIGN_STYLES = {"+": "green", "-": "red", " ": ""}
HIT_STYLE = "bold reverse"


class Shown(NamedTuple):
    """What is shown of an answer, and how.

    Attributes:
        top_k: Commits.
        max_hunks: Matching hunks of each.
        before: Only commits before this moment, UTC; None for those before the report.
        json: A JSON object a line for programs, in the place of text for people.
    """

    top_k: int
    max_hunks: int
    before: datetime | None
    json: bool


def answer(index: RepositoryIndex, reports: Iterable[Report], shown: Shown) -> None:
    """Brings the index up to date and prints the suspect commits of each report; warnings go to standard error.

    Args:
        index: The index.
        reports: The reports, read while the iterator advances.
        shown: What is printed.

    Raises:
        SystemExit: With status 130, on Ctrl-C.
    """
    try:
        _answer(index, reports, shown)
    except KeyboardInterrupt:
        print("\ninterrupted; what was indexed is kept, and the same command continues from there", flush=True)
        raise SystemExit(INTERRUPTED_STATUS) from None


def _answer(index: RepositoryIndex, reports: Iterable[Report], shown: Shown) -> None:
    console = open_console()
    notices = open_console(stderr=True)
    with redirect_stdout(sys.stderr):  # progress bars
        update = index.update()
    print_notices(notices, update.warnings)
    for report in reports:
        query = query_of(report, shown.before)
        changes = index.locate(query, shown.top_k, shown.max_hunks)
        facts = index.facts(query) | {"statement": index.ranker.statement}
        print_notices(notices, index.warnings(query))
        if shown.json:
            write_json_line(as_json(report, changes, facts))
        else:
            print_changes(console, report, changes, facts)


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


def print_changes(console: Console, report: Report, changes: Sequence[LocatedChange], facts: dict[str, Any]) -> None:
    """Prints a block for each commit: rank, id, date and title; reasons; the lines that match.

    Args:
        console: Where to print.
        report: What was asked for.
        changes: The answer.
        facts: See ``RepositoryIndex.facts``; ``statement`` says what was measured.
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
    print_line(console, f"{counts} were ranked{merges}. {facts['statement']}")


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
    if cell_len(text.plain[left_out : first[1]]) > width - head.cell_len:
        left_out = max(0, first[0] - SHOWN_BEFORE)
        head.append(CUT)
    return head + text[left_out:]


def _print_wrapped(console: Console, head: Text, text: str) -> None:
    """Prints a text behind a head; in a terminal, lines break between words, and further ones are indented as far."""
    lines = [text]
    if console.is_terminal:
        lines = wrap_cells(text, console.width - head.cell_len) or [""]
    for place, line in enumerate(lines):
        start = Text(" " * head.cell_len, style=head.style) if place else head.copy()
        console.print(start.append(line), soft_wrap=True)


def _print_line(console: Console, text: Text) -> None:
    """Prints one line, cut at the right edge of a terminal, whole elsewhere."""
    if console.is_terminal:
        console.print(text, no_wrap=True, overflow="ellipsis", crop=True)
    else:
        console.print(text, soft_wrap=True)


@stage("open the repository's index")
def open_configured(cfg: DictConfig) -> RepositoryIndex:
    """The index of a repository.

    Args:
        cfg: The composed configuration of ``conf/locate.yaml``.

    Raises:
        ValueError: See ``open_repository`` and ``TrackerRanker.read``.
    """
    if cfg.repo is None or cfg.revision is None:
        raise ValueError("repo= and revision= are required: repo=. revision=HEAD is the last commit of this folder")
    return open_repository(
        cfg.repo,
        cfg.cache_dir,
        index=cfg.index,
        revision=str(cfg.revision),
        ranker=None if cfg.run is None else TrackerRanker.read(Path(cfg.run).expanduser()),
        limits=IndexLimits(cfg.max_files, cfg.max_diff_chars, cfg.merges),
    )
