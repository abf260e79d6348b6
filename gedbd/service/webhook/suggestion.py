"""What is suggested for a new issue."""

from typing import NamedTuple

from gedbd.service.index_interface import Index
from gedbd.service.webhook.comments import MARKER
from gedbd.triage.backtesting.targets import TargetResult
from gedbd.triage.report import Match, Report

SEARCHED = 10


class Suggestion(NamedTuple):
    """A comment, or the reason why there is none."""

    body: str | None
    reason: str


def suggestion(index: Index, report: Report, most: int, target: TargetResult) -> Suggestion:
    """The comment on a new report, if the target was met and the best match reaches its threshold.

    The backtest measured the best match alone: where that one is known already, no other takes its place.

    Args:
        index: The stored reports.
        report: The new one.
        most: The most reports that it names.
        target: What the backtest measured for the precision target.
    """
    if target.suggest_from is None:
        return Suggestion(None, target.statement)
    matches = index.search(report, SEARCHED)
    found = [match for match in matches if is_suggested(match, report, target.suggest_from)]
    if not matches or matches[0].probability < target.suggest_from:
        return Suggestion(None, f"the best match does not reach the threshold {target.suggest_from:.3f}")
    if matches[0] not in found:
        return Suggestion(None, f"the best match, {matches[0].master.issue_id}, is known already or has no number")
    best, *others = (f"#{match.master.issue_id} (probability {match.probability:.0%})" for match in found[:most])
    also = f"Also possible: {', '.join(others)}. " if others else ""
    body = (
        f"{MARKER}\nThis may be a duplicate of {best}. {target.evidence}\n\n"
        f"{also}Nothing was closed or labelled: a person decides."
    )
    return Suggestion(body, "")


def is_suggested(match: Match, report: Report, threshold: float) -> bool:
    """Whether a match reaches the threshold, can be named by number, and is not known to be a duplicate already."""
    return match.probability >= threshold and match.master.issue_id.isdecimal() and report.issue_id not in match.members
