"""What GitHub's events do to an index, and what is suggested for a new issue."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from pydantic import ValidationError

from gedbd.data.urls import web_url
from gedbd.matching.feedback import Feedback, Verdict
from gedbd.matching.report import Match, Report
from gedbd.matching.targets import TargetResult
from gedbd.service.github import MARKER, TRUSTED, Event, Issue, named_duplicate
from gedbd.service.store import Index

KEPT = ("opened", "edited", "closed", "reopened")
GONE = ("deleted", "transferred")
SEARCHED = 10


@dataclass(frozen=True)
class Outcome:
    """What became of an event: a status of HTTP, one word to count it by, and a sentence.

    ``no_comment`` says why a new issue gets no comment; empty if it gets one, and for all other events.
    """

    status: int
    word: str
    detail: str
    no_comment: str = ""


class Suggestion(NamedTuple):
    """A comment, or the reason why there is none."""

    body: str | None
    reason: str


def read_event(payload: object, kind: str) -> Event:
    """An event of issues or comments as it came. Raises ValueError if it has another shape."""
    try:
        event = Event.model_validate(payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"the event has another shape: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    if kind == "issue_comment" and event.comment is None:
        raise ValueError("the event has another shape: comment: Field required")
    return event


def keep_issue(index: Index, event: Event) -> Outcome:
    """Stores or forgets the issue of an event."""
    issue_id = str(event.issue.number)
    if event.action in GONE:
        found = index.delete(issue_id)
        return Outcome(200, "deleted" if found else "unchanged", f"#{issue_id} is no longer in the index")
    if event.action not in KEPT:
        return ignored(f"action {event.action} changes no text")
    done = index.add([as_report(index, event.issue)])[issue_id]
    return Outcome(200, done, f"#{issue_id} {done}")


def link_duplicate(index: Index, feedback: Feedback, event: Event) -> Outcome:
    """Ties two issues where somebody who may says in a comment that one is a duplicate of the other."""
    note, number = event.comment, str(event.issue.number)
    assert note is not None
    writer, text = note.user.login if note.user else "", note.body or ""
    author = event.issue.user.login if event.issue.user else None
    named = named_duplicate(text, event.repository.full_name)
    if event.action != "created" or named is None:
        return ignored("the comment names no duplicate, or is not new")
    if MARKER in text or (note.user and note.user.is_bot):
        return ignored("the comment is written by a program")
    if note.author_association not in TRUSTED and writer != author:
        return ignored("only members of the repository and the author of an issue may call it a duplicate")
    if named == number:
        return ignored(f"#{number} cannot be a duplicate of itself")
    if index.get(named) is None:
        return ignored(f"#{named} is not in the index")
    if index.get(number) is None:
        index.add([as_report(index, event.issue)])
    index.link(number, named, "webhook")
    feedback.record(Verdict(as_report(index, event.issue), named, "accept", "webhook", writer))
    return Outcome(200, "linked", f"#{number} and #{named} are duplicates")


def ignored(why: str) -> Outcome:
    """Nothing was done, and why."""
    return Outcome(202, "ignored", f"ignored: {why}")


def as_report(index: Index, issue: Issue) -> Report:
    """An issue as a report; what GitHub does not tell stays as it is stored."""
    stored = index.get(str(issue.number)) or Report(issue_id=str(issue.number))
    return replace(
        stored,
        title=issue.title,
        description=issue.body or "",
        created_at=issue.created_at or stored.created_at,
        status=issue.state,
        resolution=issue.state_reason or "",
        url=web_url(issue.html_url or "") or stored.url,
    )


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
