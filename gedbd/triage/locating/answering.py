"""Answers the reports of ``gedbd locate``, one after the other."""

import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from datetime import datetime
from typing import NamedTuple

from gedbd.configuration.command import INTERRUPTED_STATUS
from gedbd.io.json_output import write_json_line
from gedbd.io.printing import open_console
from gedbd.triage.locating.printing import as_json, print_changes, print_notices
from gedbd.triage.locating.reports import query_of
from gedbd.triage.locating.repository_index import RepositoryIndex
from gedbd.triage.report import Report, check_top_k


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

    def check(self) -> None:
        """Raises ValueError if so many commits or hunks cannot be shown."""
        check_top_k(self.top_k)
        if not isinstance(self.max_hunks, int) or self.max_hunks < 0:
            raise ValueError(f"max_hunks={self.max_hunks} must be a whole number, 0 or more")


def answer(index: RepositoryIndex, statement: str, reports: Iterable[Report], shown: Shown) -> None:
    """Brings the index up to date and prints the suspect commits of each report; warnings go to standard error.

    Args:
        index: The index.
        statement: How often its ranker is right, in words.
        reports: The reports, read while the iterator advances.
        shown: What is printed.

    Raises:
        SystemExit: With status 130, on Ctrl-C.
    """
    try:
        _answer(index, statement, reports, shown)
    except KeyboardInterrupt:
        print("\ninterrupted; what was indexed is kept, and the same command continues from there", flush=True)
        raise SystemExit(INTERRUPTED_STATUS) from None


def _answer(index: RepositoryIndex, statement: str, reports: Iterable[Report], shown: Shown) -> None:
    console = open_console()
    notices = open_console(stderr=True)
    with redirect_stdout(sys.stderr):  # progress bars
        update = index.update()
    print_notices(notices, update.warnings)
    for report in reports:
        query = query_of(report, shown.before)
        changes = index.locate(query, shown.top_k, shown.max_hunks)
        facts = index.facts(query)
        print_notices(notices, index.warnings(query))
        if shown.json:
            write_json_line(as_json(report, changes, facts | {"statement": statement}))
        else:
            print_changes(console, report, changes, facts, statement)
