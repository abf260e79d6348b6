"""The comment that suggests duplicates of a new issue."""

from typing import NamedTuple

from gedbd.io.plain_text import escape_markdown
from gedbd.service.index_interface import Index
from gedbd.service.webhook.comments import MARKER
from gedbd.triage.backtesting.targets import TargetResult
from gedbd.triage.report import Match, Report

MAX_SEARCHED = 10


class Suggestion(NamedTuple):
    """A comment, or the reason why there is none."""

    body: str | None
    reason: str


def suggest_duplicates(index: Index, report: Report, max_named: int, target: TargetResult) -> Suggestion:
    """The comment on a new report, if the precision target was met and the best match reaches its threshold.

    Args:
        index: The stored reports.
        report: The new report.
        max_named: Maximum number of reports that the comment names.
        target: What the backtest measured for the precision target.
    """
    if target.suggest_from is None:
        return Suggestion(None, target.statement)
    matches = index.search(report, MAX_SEARCHED)
    if not matches or matches[0].probability < target.suggest_from:
        return Suggestion(None, f"the best match is below the threshold {target.suggest_from:.3f}")
    suggested = [match for match in matches if is_suggested(match, report, target.suggest_from)]
    # The backtest measured best matches only: where that one cannot be named, no other replaces it.
    if matches[0] not in suggested:
        return Suggestion(None, f"the best match, {matches[0].master.issue_id}, is already linked or has no number")
    named = [f"#{match.master.issue_id} (probability {match.probability:.0%})" for match in suggested[:max_named]]
    best, *others = named
    also = f"Also possible: {', '.join(others)}. " if others else ""
    body = (
        f"{MARKER}\nThis may be a duplicate of {best}. {escape_markdown(target.evidence)}\n\n"
        f"{also}Nothing was closed or labelled: that decision is left to a person."
    )
    return Suggestion(body, "")


def is_suggested(match: Match, report: Report, threshold: float) -> bool:
    """Whether a match reaches the threshold, has a number to name, and is not linked to the report already."""
    number = match.master.issue_id
    is_number = number.isascii() and number.isdecimal()
    return match.probability >= threshold and is_number and report.issue_id not in match.members
