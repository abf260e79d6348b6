"""The state of a report, by what trackers write, and which report of a group is the original."""

from collections.abc import Collection, Iterable
from typing import Literal

from gedbd.corpora.bug_report import Report
from gedbd.corpora.readers.issue import DUPLICATE
from gedbd.io.console import printable_line

# Words of trackers, in lower case; all other resolutions close a report without a fix.
FIXED = {"fixed", "done", "completed", "implemented", "resolved"}
UNRESOLVED = {"", "---", "none", "unresolved"}
CLOSED_STATUSES = {"closed", "resolved", "verified", "done"}
# Trackers may keep the date of an earlier resolution of these.
REOPENED = {"reopened"}

State = Literal["open", "fixed", "closed", "unknown"]

MAX_RESOLUTION = 40  # characters of a resolution that a phrase quotes


def state_of(report: Report) -> State:
    """Whether a report is open, by its resolution, its date of resolution and its status."""
    resolution = report.resolution.strip().lower()
    status = report.status.strip().lower()
    if resolution in FIXED:
        return "fixed"
    if resolution in UNRESOLVED and status in REOPENED:
        return "open"
    if resolution not in UNRESOLVED or report.resolved_at or status in CLOSED_STATUSES:
        return "closed"
    return "open" if status else "unknown"


def state_phrase(report: Report) -> str:
    """The state in words, such as "closed as not planned on 2024-03-19"; empty if the tracker does not say it."""
    state = state_of(report)
    if state == "unknown":
        return ""
    resolution = printable_line(report.resolution.replace("_", " ")).lower()
    why = f" as {resolution[:MAX_RESOLUTION]}" if state == "closed" and resolution not in UNRESOLVED else ""
    day = f" on {report.resolved_at:%Y-%m-%d}" if state != "open" and report.resolved_at else ""
    return f"{state}{why}{day}"


def is_closed_as_duplicate(report: Report) -> bool:
    """Whether a report is closed because it repeats another one."""
    return state_of(report) == "closed" and DUPLICATE in report.resolution.lower()


def original_of(group: Iterable[Report], called_duplicates: Collection[str] = ()) -> Report | None:
    """The oldest report of a group of duplicates that repeats none itself.

    People also close an older report as a duplicate of a newer one, which is the original then.

    Args:
        group: The reports of the group, the oldest first.
        called_duplicates: Ids of reports that comments call duplicates of others. Where the comments go in a circle,
            so that they leave no report, they do not count.

    Returns:
        The report; None if all of them are closed as duplicates.
    """
    possible = [report for report in group if not is_closed_as_duplicate(report)]
    uncalled = [report for report in possible if report.issue_id not in called_duplicates]
    return next(iter(uncalled or possible), None)
