"""Reads reports, and issues as their tracker gives them."""

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from gedbd.corpora.bug_report import FIELD_NAMES, Report, check_report, report_from_json
from gedbd.corpora.readers.export_pages import (
    ExportPage,
    ExportRecord,
    is_table,
    read_pages,
    read_records,
    read_values,
    recognise,
)
from gedbd.corpora.readers.issue import Issue, reset_to_creation
from gedbd.corpora.readers.json_values import Record

FIELDS = ("title", "description", "product", "component", "version", "os", "priority")
MAX_KEYS = 8  # that a message names


def read_issues(file: str) -> list[Report]:
    """The reports of an issue, or of a list of them, as in the exports of GitHub, GitLab, Jira and Bugzilla.

    Args:
        file: A file of JSON, such as ``gh issue view 7 --json number,title,body,createdAt`` prints. Objects with the
            fields of ``Report`` are read too.

    Raises:
        ValueError: If the file is missing or has no issue, or a record is invalid.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        raise ValueError(f"file={file}: no such file")
    pages, _ = read_pages(path, ("json",))
    reports = [_report(record) for page in pages for record in _records(page)]
    if not reports:
        raise ValueError(f"file={file} holds no issue")
    return reports


def report_of_issue(issue: Record) -> Report:
    """The report of a tracker's issue, as it was created where the export holds its history.

    Raises:
        ValueError: If it is not an issue, or is invalid.
    """
    parsed = reset_to_creation(_parse(issue))
    values: dict[str, Any] = {name: ", ".join(parsed.values.get(name, ())) for name in FIELDS}
    report = Report(**values, issue_id=parsed.issue_id, created_at=parsed.created_at)
    check_report(report)
    return report


def _records(page: ExportPage) -> Iterable[ExportRecord]:
    """The issues and reports of a page."""
    values = list(read_values(page))
    # A report alone is no response of a tracker, in which a list of issues is looked for.
    if all(map(_is_report, values)):
        return [ExportRecord(f"{page.path}, record {number}", one) for number, one in enumerate(values, start=1)]
    return read_records(page)


def _is_report(value: Any) -> bool:
    """Whether an object has the fields of a report and no others."""
    return isinstance(value, dict) and value.keys() <= set(FIELD_NAMES) and not is_table(value)


def _report(record: ExportRecord) -> Report:
    """The report of an issue or of the fields of a report. Raises ValueError with its place if it is invalid."""
    try:
        return report_from_json(record.record) if _is_report(record.record) else report_of_issue(record.record)
    except ValueError as error:
        raise ValueError(f"{record.place}: {error}") from error


def _parse(values: Record) -> Issue:
    """Reads an issue with the reader of its tracker."""
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
