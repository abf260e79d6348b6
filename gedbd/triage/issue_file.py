"""Reads the reports of issues as their tracker gives them."""

from importlib import import_module
from pathlib import Path
from typing import Any

from gedbd.corpora.readers.export_pages import ExportRecord, read_pages, read_records, recognise
from gedbd.corpora.readers.issue import Issue, reset_to_creation
from gedbd.triage.bug_report import Report, check_report

FIELDS = ("title", "description", "product", "component", "version", "os", "priority")
MAX_KEYS = 8  # that a message names


def read_issues(file: str) -> list[Report]:
    """The reports of an issue, or of a list of them, as in the exports of GitHub, GitLab, Jira and Bugzilla.

    Args:
        file: A file of JSON, such as ``gh issue view 7 --json number,title,body,createdAt`` prints.

    Raises:
        ValueError: If the file is missing or has no issue, or a record is invalid.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        raise ValueError(f"file={file}: no such file")
    pages, _ = read_pages(path, ("json",))
    reports = [_report(record) for page in pages for record in read_records(page)]
    if not reports:
        raise ValueError(f"file={file} holds no issue")
    return reports


def _report(record: ExportRecord) -> Report:
    """The report of a tracker's issue, as it was created where the export holds its history."""
    try:
        issue = reset_to_creation(_parse(record))
        values: dict[str, Any] = {name: ", ".join(issue.values.get(name, ())) for name in FIELDS}
        report = Report(**values, issue_id=issue.issue_id, created_at=issue.created_at)
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
    issue: Issue | str
    if tracker == "github":
        issue = reader.parse_issue({"number": 0, **values}, prefixes=())
    elif tracker == "gitlab":
        issue = reader.parse_issue(values, prefixes=())
    elif tracker == "jira":
        issue = reader.parse_issue(values)
    else:
        issue = reader.parse_bug(values)
    if isinstance(issue, str):
        raise ValueError(f"an issue is expected; these are {issue}")
    return issue if tracker != "github" or "number" in values else issue._replace(issue_id="")
