"""What is said of a new report: a comment that names its likely duplicates, or the reason why there is none."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from gedbd.io.console import escape_markdown, printable_line
from gedbd.service.webhook.github_comments import MARKER
from gedbd.triage.backtesting.thresholds import TargetResult
from gedbd.triage.bug_report import Match, Report
from gedbd.triage.report_state import original_of, state_phrase
from gedbd.triage.stored_index import StoredIndex

MAX_SEARCHED = 10
MAX_TERMS = 5  # shared words that are named where a match has no other reason
MAX_REASONS = 200  # characters
FindCalledDuplicates = Callable[[Sequence[str]], Collection[str]]


class NamedReport(NamedTuple):
    """A report that a comment names.

    Attributes:
        issue_id: Its id, a number.
        probability: That the new report belongs to its group.
        state: Its state in words; empty if unknown.
        reasons: Why it matches, in one line.
    """

    issue_id: str
    probability: float
    state: str
    reasons: str


class Suggestion(NamedTuple):
    """A comment, or the reason why there is none.

    Attributes:
        named: The reports that the comment names, the most likely first.
        body: The comment; empty if there is none.
        reason: Why there is none; empty if there is one.
        evidence: How often such suggestions were right, in one sentence.
    """

    named: tuple[NamedReport, ...]
    body: str
    reason: str
    evidence: str = ""


def suggest_duplicates(
    index: StoredIndex,
    report: Report,
    max_named: int,
    target: TargetResult,
    called_duplicates: FindCalledDuplicates = lambda ids: (),
) -> Suggestion:
    """The comment on a new report, if the precision target was met and the best match reaches its threshold.

    Of each group, the comment names the original, never a report that is closed as a duplicate.

    Args:
        index: The stored reports.
        report: The new report.
        max_named: Maximum number of reports that the comment names.
        target: What the backtest measured for the precision target.
        called_duplicates: Which of some reports comments call duplicates of others.
    """
    threshold = target.suggest_from
    if threshold is None:
        return Suggestion((), "", target.statement)
    matches = index.search(report, MAX_SEARCHED)
    if not matches or matches[0].probability < threshold:
        return Suggestion((), "", f"the best match is below the threshold {threshold:.3f}")
    likely = [match for match in matches if match.probability >= threshold]
    found = _named_reports(index, report, likely, called_duplicates)
    # The backtest measured best matches only: where that one cannot be named, no other replaces it.
    best = next(found)
    if isinstance(best, str):
        return Suggestion((), "", best)
    others = [one for one in found if isinstance(one, NamedReport)]
    named = (best, *others[: max_named - 1])
    return Suggestion(named, comment_text(named, target.evidence), "", target.evidence)


def comment_text(named: Sequence[NamedReport], evidence: str) -> str:
    """The text of a comment in Markdown, with the hidden marker."""
    best, *others = map(_described, named)
    also = "\n".join(["Also possible:", *(f"- {one}" for one in others), "", ""]) if others else ""
    return (
        f"{MARKER}\nThis may be a duplicate of {best}. {escape_markdown(evidence)}\n\n"
        f"{also}Nothing was closed or labelled: that decision is left to a person."
    )


def _described(named: NamedReport) -> str:
    state = f", {escape_markdown(named.state)}" if named.state else ""
    why = f": {escape_markdown(named.reasons)}" if named.reasons else ""
    return f"#{named.issue_id} (probability {named.probability:.0%}{state}){why}"


def _named_reports(
    index: StoredIndex, report: Report, likely: Sequence[Match], called_duplicates: FindCalledDuplicates
) -> Iterator[NamedReport | str]:
    """The report to name of each match, or the reason why there is none."""
    for match in likely:
        first = match.master.issue_id
        if report.issue_id in match.members:
            yield f"the best match, {first}, is already linked"
            continue
        stored = index.get_many(match.members)
        group = [stored[one] for one in match.members if one in stored]
        original = original_of(group, called_duplicates(match.members))
        if original is None:
            yield f"the best match, {first}, is closed as a duplicate, and the index does not hold the original"
        elif not (original.issue_id.isascii() and original.issue_id.isdecimal()):
            yield f"the best match, {first}, has no number"
        else:
            why = match.explanation.reasons or match.explanation.terms[:MAX_TERMS]
            reasons = printable_line(", ".join(why))[:MAX_REASONS]
            yield NamedReport(original.issue_id, match.probability, state_phrase(original), reasons)
