"""Prints the answers of ``gedbd locate``."""

import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from datetime import datetime
from typing import Any

from omegaconf import DictConfig
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from gedbd.configuration.command import INTERRUPTED_STATUS
from gedbd.corpora.bug_report import Report
from gedbd.io.command_output import write_json_line
from gedbd.io.console import open_console, print_hanging, print_line, printable, stage
from gedbd.localization.locating.located_changes import LocatedChange, MatchedLine
from gedbd.localization.locating.located_files import LocatedFile
from gedbd.localization.locating.places import MatchedPlace, PlaceCommit, declared_name
from gedbd.localization.locating.repository_index import (
    AnswerLimits,
    IndexLimits,
    Located,
    RepositoryIndex,
    open_repository,
    query_of,
)
from gedbd.localization.repository.source_files import BINARY, GENERATED, LINKS, SUBMODULES, VENDORED

SHORT_ID = 10
INDENT = "    "
CONTEXT_CHARS = 12  # before the first shared word of a line that is cut at its beginning
CUT = "..."
PLACE_WIDTH = 32  # columns before the last commit of a place
MIN_REASON_WIDTH = 20  # minimum columns for reasons beside a path
SIGN_STYLES = {"+": "green", "-": "red", " ": ""}
HIT_STYLE = "bold reverse"


def answer(
    index: RepositoryIndex,
    reports: Iterable[Report],
    limits: AnswerLimits,
    before: datetime | None,
    with_details: bool,
    with_json: bool,
) -> None:
    """Updates the index and prints the answer for each report, as text or JSON; warnings go to standard error.

    Ranks only what is before the time ``before`` (UTC), or else the report's date. JSON always has the details: all
    reasons, lines of code and last commits. Ctrl-C exits with status 130.
    """
    console = open_console()
    notices = open_console(stderr=True)
    try:
        with redirect_stdout(sys.stderr):  # progress bars
            warnings = index.update().warnings
        for report in reports:
            query = query_of(report, before)
            located = index.locate(query, limits)
            facts = index.facts(query) | {"statement": index.ranker.statement}
            if with_json:
                write_json_line(as_json(report, located, facts))
            else:
                print_located(console, report, located, facts, with_details)
            warnings += located.warnings
            if warnings:
                print_notices(notices, [f"note: {'; '.join(warnings)}"])
            warnings = ()  # those about the index are printed once
    except KeyboardInterrupt:
        print("\ninterrupted; the index is kept: the same command continues", flush=True)
        raise SystemExit(INTERRUPTED_STATUS) from None


def as_json(report: Report, located: Located, facts: dict[str, Any]) -> str:
    """One line of ASCII for programs: ``query`` (the report), facts such as the state of the index, and the answer.

    ``title`` of a change is the first line of ``message``; ``spans`` of a line are the positions of the report's words
    in ``text``.
    """
    content = {
        "query": {"issue_id": report.issue_id, "title": report.title, "created_at": report.created_at},
        **facts,
        "files_commit": located.commit,
        "num_files": located.num_files,
        "skipped_files": dict(located.skipped_files),
        "files": [asdict(file) for file in located.files],
        "changes": [{"title": change.title, **asdict(change)} for change in located.changes],
    }
    return json.dumps(content, default=datetime.isoformat)


def print_located(
    console: Console, report: Report, located: Located, facts: dict[str, Any], details: bool = False
) -> None:
    """Prints a line for each file with its best places below, and a line for each suspect commit.

    In a terminal, lines are cut at its width. ``details`` adds all reasons, lines of code and last commits.
    ``facts`` are those of ``RepositoryIndex.facts`` and ``statement``, the result of the backtest.
    """
    _print_line(console, Text(printable(f"{report.issue_id} {report.title}".strip()[:200])))
    if not details:
        console.print()
    for file in located.files:
        _print_file(console, file, details)
    if not located.files:
        problem = "no source file shares a word with the report, so none is listed"
        if not facts["num_commits"]:
            problem = "there are only merge commits: set merges=true"
        elif not facts["num_ranked"]:
            problem = "no commit is older than the report"
        elif not located.num_files:
            problem = f"no file of {located.commit[:SHORT_ID]} has the suffix of source code, so none is listed"
        print_line(console, problem)
    if located.changes:
        console.print()
        console.print(Text("Commits that may have introduced the bug", style="bold"))
    for change in located.changes:
        _print_change(console, change, details)
    console.print()
    print_line(console, _ranked_line(located, facts))
    advice = ""
    if located.files:
        first = located.files[0]
        start = f":{first.places[0].start}" if first.places else ""
        advice = f"Read {first.path}{start} first. "
    print_line(console, f"{advice}{facts['statement']}")


def _ranked_line(located: Located, facts: dict[str, Any]) -> str:
    """Number of ranked and skipped files and commits."""
    ranked = f"{facts['num_ranked']:,} of {facts['num_commits']:,} commits"
    if located.commit:
        ranked = f"{located.num_files:,} source files of {located.commit[:SHORT_ID]}, {ranked}"
    skipped = []  # binary files (1), files over 1,000,000 bytes (2), symbolic links (1)
    for reason, count in sorted(located.skipped_files.items()):
        what = reason if reason in {LINKS, SUBMODULES} else f"files {reason}"
        if reason in {VENDORED, GENERATED, BINARY}:
            what = f"{reason} files"
        skipped.append(f"{what} ({count:,})")
    if facts["num_merges"]:
        skipped.append(f"merges ({facts['num_merges']:,})")
    return f"Ranked: {ranked}{'; without ' if skipped else ''}{', '.join(skipped)}."


def _print_file(console: Console, file: LocatedFile, details: bool) -> None:
    """Prints rank, path and reasons, and a line for each place."""
    if details:
        console.print()
    head = Text(f"{file.rank:3} ", style="bold").append(printable(file.path), style="cyan")
    if details:
        console.print(head, soft_wrap=True)  # not cut, so that it can be copied
        print_hanging(console, INDENT, "; ".join(file.explanation))
    else:
        without_counts = (reason.partition(" (")[0] for reason in file.explanation)
        reasons = Text(printable("; ".join(without_counts)))
        if console.width - head.cell_len < MIN_REASON_WIDTH:
            console.print(head, soft_wrap=True)
            head = Text(INDENT[2:])
        _print_line(console, Text.assemble(head, "  ", reasons))
    for place in file.places:
        _print_place(console, place, details)


def _print_place(console: Console, place: MatchedPlace, details: bool) -> None:
    """Prints lines, name and last commit of a place; ``details`` adds its matching lines and further commits."""
    name = printable(declared_name(place.name) or place.name.strip())
    location = Text(f"{INDENT}{place.start}-{place.end} {name}", style="bold" if details else "")
    location.truncate(PLACE_WIDTH, overflow="ellipsis", pad=bool(place.commits))
    commits = [_commit_text(commit) for commit in place.commits] or [Text()]
    _print_line(console, location.append_text(commits[0]))
    if not details:
        return
    numbers = {line.number for line in place.lines}
    if place.header and place.header not in numbers:
        _print_line(console, Text(f"{INDENT}{place.header:6}   {printable(place.name.strip())}"))
    _print_lines(console, place.lines)
    if place.num_left_out:
        print_line(console, f"{INDENT}       further lines in the stack trace: {place.num_left_out:,}")
    for commit in commits[1:]:
        _print_line(console, Text(" " * PLACE_WIDTH).append_text(commit))


def _commit_text(commit: PlaceCommit | LocatedChange) -> Text:
    """Id, date and title of a commit."""
    text = Text(" ").append(commit.id[:SHORT_ID], style="yellow")
    return text.append(f" {commit.created_at:%Y-%m-%d} {printable(commit.title or '(no message)')}", style="not bold")


def _print_change(console: Console, change: LocatedChange, details: bool) -> None:
    """Prints rank, id, date and title of a commit; ``details`` adds its reasons and matching lines."""
    if details:
        console.print()
    _print_line(console, Text(f"{change.rank:3}", style="bold").append_text(_commit_text(change)))
    if details:
        print_hanging(console, INDENT, "; ".join(change.explanation))
        for hunk in change.hunks:
            # A hunk that only removes lines has the position of the removed lines.
            start = hunk.new_start if hunk.new_count else hunk.old_start
            last = start + max(1, hunk.new_count or hunk.old_count) - 1
            location = Text(INDENT) + Text.assemble((printable(hunk.path), "cyan"), f":{start}-{last}")
            console.print(location, soft_wrap=True)  # not cut, so that it can be copied
            _print_lines(console, hunk.lines)


def print_notices(console: Console, notices: Sequence[str]) -> None:
    """Prints warnings, one per line."""
    for notice in notices:
        console.print(Text(printable(notice)), soft_wrap=True)


def _print_lines(console: Console, lines: Sequence[MatchedLine]) -> None:
    """Prints lines without common indentation; highlights the shared words, and keeps the first one visible."""
    indent = min((len(line.text) - len(line.text.lstrip()) for line in lines), default=0)
    for line in lines:
        start = indent
        head = Text(f"{INDENT}{line.number:6} {line.sign} ")
        text = Text(printable(line.text))  # one character each, so that spans stay valid
        text.stylize(SIGN_STYLES[line.sign])
        for span in line.spans:
            text.stylize(HIT_STYLE, *span)
        first, end = line.spans[0] if line.spans else (0, 0)
        if cell_len(text.plain[start:end]) > console.width - head.cell_len:
            start = max(0, first - CONTEXT_CHARS)
            head.append(CUT)
        _print_line(console, head + text[start:])


def _print_line(console: Console, text: Text) -> None:
    """Prints one line, cut at the width of a terminal."""
    if console.is_terminal:
        console.print(text, no_wrap=True, overflow="ellipsis", crop=True)
    else:
        console.print(text, soft_wrap=True)


@stage("open the repository's index")
def open_configured(cfg: DictConfig) -> RepositoryIndex:
    """The index of a repository, from the composed configuration of ``conf/locate.yaml``.

    Raises ValueError if an option is missing; see also ``open_repository``.
    """
    if cfg.repo is None or cfg.revision is None:
        raise ValueError("repo= and revision= are required: repo=. revision=HEAD is the last commit of this folder")
    limits = IndexLimits(cfg.max_files, cfg.max_diff_chars, cfg.merges)
    return open_repository(cfg.repo, cfg.cache_dir, cfg.index, str(cfg.revision), cfg.run, limits)
