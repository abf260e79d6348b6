"""Reads the reports that ``gedbd locate`` finds commits for."""

from collections.abc import Iterator
from datetime import datetime
from importlib import import_module
from pathlib import Path

import pandas as pd

from gedbd.corpora.readers.export_pages import ExportRecord, read_pages, read_records, recognise
from gedbd.corpora.readers.issue import Issue, reset_to_creation
from gedbd.retrieval.changes.change_history import ChangeQuery
from gedbd.triage.answer import read_queries
from gedbd.triage.bug_report import Report, check_report

JSON = ".json"
MAX_KEYS = 8  # that a message names


def read_reports(text: str | None, file: str | None) -> Iterator[Report]:
    """Reports from a text, a text file, JSON lines, or issues as their tracker gives them.

    Args:
        text: The report; its first line is the title.
        file: A file with such a text. ``.json``: an issue, or a list of them, as in the exports of GitHub, GitLab, Jira
            and Bugzilla, such as ``gh issue view 7 --json number,title,body,createdAt`` prints. ``.jsonl`` or ``-``
            (standard input): one JSON object a line, see ``gedbd.triage.answer.read_queries``.

    Raises:
        ValueError: If neither or both are given, the file is missing or has no report, or a record is invalid.
    """
    if text is None and file is None:
        raise ValueError("no report given: give its text in quotes, file=report.txt, or file=issue.json")
    if text is not None or file is None or not file.lower().endswith(JSON):
        return read_queries(text, file)
    path = Path(file).expanduser()
    if not path.is_file():
        raise ValueError(f"file={file}: no such file")
    pages, _ = read_pages(path, ("json",))
    reports = [_report(record) for page in pages for record in read_records(page)]
    if not reports:
        raise ValueError(f"file={file} holds no issue")
    return iter(reports)


def query_of(report: Report, before: datetime | None = None) -> ChangeQuery:
    """A report in the form in which commits are ranked for it.

    Args:
        report: The report.
        before: Only commits before this moment are ranked; None for those before the report, or for all if the report
            has no date.
    """
    moment = before or report.created_at
    created_at = None if moment is None else pd.Timestamp(moment)
    return ChangeQuery(report.title, report.description, created_at)


def _report(record: ExportRecord) -> Report:
    """The report of a tracker's issue, as it was created where the export holds its history."""
    try:
        issue = reset_to_creation(_parse(record))
        title, description = ("\n".join(issue.values.get(name, ())) for name in ("title", "description"))
        report = Report(title, description, issue.issue_id, issue.created_at)
        check_report(report)
    except ValueError as error:
        raise ValueError(f"{record.place}: {error}") from error
    return report


def _parse(record: ExportRecord) -> Issue:
    """Reads an issue with the reader of its tracker."""
    values = record.record
    tracker = recognise(values)
    if not tracker:
        keys = ", ".join(list(values)[:MAX_KEYS]) or "none"
        raise ValueError(f"not an issue from GitHub, GitLab, Jira or Bugzilla; its keys are {keys}")
    reader = import_module(f"gedbd.corpora.readers.{tracker}")
    issue: Issue | None
    if tracker == "github":
        issue = reader.parse_issue({"number": 0, **values}, prefixes=())
    elif tracker == "gitlab":
        issue = reader.parse_issue(values, prefixes=())
    elif tracker == "jira":
        issue = reader.parse_issue(values)
    else:
        issue = reader.parse_bug(values)
    if issue is None:
        raise ValueError("this is a pull request; an issue is expected")
    return issue if tracker != "github" or "number" in values else issue._replace(issue_id="")
