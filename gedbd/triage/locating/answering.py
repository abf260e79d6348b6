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
from gedbd.corpora.repository.attributes import BINARY, GENERATED, LINKS, SUBMODULES, VENDORED
from gedbd.io.command_output import write_json_line
from gedbd.io.console import open_console, print_line, printable, stage, wrap_cells
from gedbd.triage.bug_report import Report
from gedbd.triage.locating.hunks import MatchedHunk, MatchedLine
from gedbd.triage.locating.indexing import IndexLimits
from gedbd.triage.locating.located import LocatedChange
from gedbd.triage.locating.located_files import LocatedPlace
from gedbd.triage.locating.locating_queries import query_of
from gedbd.triage.locating.repository_index import AnswerLimits, Located, RepositoryIndex, open_repository
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
        limits: How much.
        before: Only what was there before this moment, UTC; None for the report's date.
        json: A JSON object a line for programs, in the place of text for people.
    """

    limits: AnswerLimits
    before: datetime | None
    json: bool


def answer(index: RepositoryIndex, reports: Iterable[Report], shown: Shown) -> None:
    """Brings the index up to date and prints the answer for each report; warnings go to standard error.

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
        located = index.locate(query, shown.limits)
        facts = index.facts(query) | {"statement": index.ranker.statement}
        print_notices(notices, located.warnings)
        if shown.json:
            write_json_line(as_json(report, located, facts))
        else:
            print_located(console, report, located, facts)


def as_json(report: Report, located: Located, facts: dict[str, Any]) -> str:
    """One line of ASCII for programs.

    Args:
        report: What was asked for: ``query``.
        located: The answer: ``files``, ``changes`` and so on; ``title`` of a change is the first line of ``message``,
            and ``spans`` of a line are the places of the report's words in ``text``.
        facts: Further fields, such as the state of the index.
    """
    query = {"issue_id": report.issue_id, "title": report.title, "created_at": report.created_at}
    files = {
        "files_commit": located.commit,
        "num_files": located.num_files,
        "skipped_files": dict(located.skipped_files),
        "files": [asdict(file) for file in located.files],
    }
    changes = [{"title": change.title, **asdict(change)} for change in located.changes]
    return json.dumps({"query": query, **facts, **files, "changes": changes}, default=datetime.isoformat)


def print_located(console: Console, report: Report, located: Located, facts: dict[str, Any]) -> None:
    """Prints a block for each file, then one for each commit that may have induced the bug.

    Args:
        console: Where to print.
        report: What was asked for.
        located: The answer.
        facts: See ``RepositoryIndex.facts``; ``statement`` says what was measured.
    """
    _print_wrapped(console, Text(), printable(f"{report.issue_id} {report.title}".strip()[:200]))
    for file in located.files:
        console.print()
        console.print(Text(f"{file.rank:3} ", style="bold").append(printable(file.path), style="cyan"), soft_wrap=True)
        _print_wrapped(console, Text(INDENT), printable("; ".join(file.explanation)))
        for place in file.places:
            _print_place(console, place)
    if not located.files:
        _print_wrapped(console, Text(), _why_no_file(located, facts))
    if located.changes:
        console.print()
        console.print(Text("Commits that may have induced it", style="bold"))
        _print_changes(console, located.changes)
    console.print()
    print_line(console, _closing_line(located, facts))


def _why_no_file(located: Located, facts: dict[str, Any]) -> str:
    if not facts["num_commits"]:
        return "there are only merge commits: set merges=true"
    if not facts["num_ranked"]:
        return "no commit is older than the report"
    if not located.num_files:
        return f"no file of {located.commit[:SHORT_ID]} is source code by the ending of its name, so none is listed"
    return "no source file shares a word with the report, so none is listed"


def _closing_line(located: Located, facts: dict[str, Any]) -> str:
    """How much was ranked and left out, and how often that is right."""
    said = f"{facts['num_ranked']:,} of the {facts['num_commits']:,} commits up to {facts['commit'][:SHORT_ID]}"
    if located.commit:
        said = f"{located.num_files:,} source files of {located.commit[:SHORT_ID]} and {said}"
    left_out = [_skipped(count, reason) for reason, count in sorted(located.skipped_files.items())]
    if facts["num_merges"]:
        left_out.append(f"merges ({facts['num_merges']:,})")
    return f"{said} were ranked{', without ' if left_out else ''}{', '.join(left_out)}. {facts['statement']}"


def _skipped(count: int, reason: str) -> str:
    """Such as: binary files (1); files over 1,000,000 bytes (2); symbolic links (1)."""
    if reason in {VENDORED, GENERATED, BINARY}:
        reason = f"{reason} files"
    elif reason not in {LINKS, SUBMODULES}:
        reason = f"files {reason}"
    return f"{reason} ({count:,})"


def _print_place(console: Console, place: LocatedPlace) -> None:
    """Prints where a place is and its name, the lines that match, and its last commits."""
    head = Text(INDENT) + Text.assemble((printable(place.path), "cyan"), f":{place.start}-{place.end}")
    console.print(head, soft_wrap=True)  # whole, to be copied
    shown = {line.number for line in place.lines}
    if place.name and place.header not in shown:
        number = f"{place.header:6}" if place.header else "    in"
        _print_line(console, Text(f"{INDENT}{number}   {printable(place.name.strip())}", style="bold"))
    _print_lines(console, place.lines)
    if place.num_left_out:
        print_line(console, f"{INDENT}       lines that the stack trace names too: {place.num_left_out:,}")
    for commit in place.commits:
        line = Text(f"{INDENT}   last ").append(commit.id[:SHORT_ID], style="yellow")
        _print_line(console, line.append(f" {commit.created_at:%Y-%m-%d}  {printable(commit.title)}", style="not bold"))


def _print_changes(console: Console, changes: Sequence[LocatedChange]) -> None:
    """Prints a block for each commit: rank, id, date and title; reasons; the lines that match."""
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
    _print_lines(console, hunk.lines)


def _print_lines(console: Console, lines: Sequence[MatchedLine]) -> None:
    """Prints lines without the blanks that all begin with."""
    indent = min((len(line.text) - len(line.text.lstrip()) for line in lines), default=0)
    for line in lines:
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
