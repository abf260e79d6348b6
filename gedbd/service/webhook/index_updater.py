"""Updates an index by GitHub's events: issues become reports, comments "Duplicate of #12" become links."""

import logging
from dataclasses import dataclass, replace

from pydantic import ValidationError

from gedbd.corpora.bug_report import Report
from gedbd.corpora.feedback import FeedbackEvent, FeedbackStore
from gedbd.corpora.urls import web_url
from gedbd.service.webhook.database import EventHistory
from gedbd.service.webhook.github_comments import MARKER
from gedbd.service.webhook.payloads import (
    MAX_READ,
    PHRASE,
    Event,
    EventIssue,
    IssueComment,
    has_unread_phrase,
    named_duplicate,
    web_host,
)
from gedbd.triage.stored_index import StoredIndex

ISSUE_ACTIONS = ("opened", "edited", "closed", "reopened", "deleted", "transferred")
COMMENT_ACTIONS = ("created", "edited", "deleted")
MEMBERS = ("OWNER", "MEMBER", "COLLABORATOR")
SOURCE = "webhook"
UNREAD = f'"{PHRASE}" comes after its first {MAX_READ:,} characters, or no blank line comes before them'
# Fields of a report that GitHub gives. The others, such as the component, come from elsewhere and stay.
ISSUE_FIELDS = ("title", "description", "created_at", "status", "resolution", "url", "resolved_at")

log = logging.getLogger("gedbd")


@dataclass(frozen=True)
class EventResult:
    """The result of an event.

    Attributes:
        status: Status of the HTTP response.
        code: Label in the metrics, such as "added".
        detail: The same in words.
        no_comment: Why a new issue gets no comment; empty if it gets one, and for all other events.
    """

    status: int
    code: str
    detail: str
    no_comment: str = ""


def read_event(payload: object, kind: str) -> Event:
    """An event of issues or comments from its payload. Raises ValueError if a field is missing or invalid."""
    try:
        event = Event.model_validate(payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"the event is invalid: {place}: {first['msg']}") from error
    if kind == "issue_comment" and event.comment is None:
        raise ValueError("the event is invalid: comment: Field required")
    return event


class IndexUpdater:
    """Keeps an index in the state that a repository's events describe.

    Args:
        index: The stored reports.
        feedback: Where duplicates that members name are recorded.
        history: The known states of issues and comments.
        api_url: Address of GitHub's API; it tells the host of events whose issue has no address.
    """

    def __init__(self, index: StoredIndex, feedback: FeedbackStore, history: EventHistory, api_url: str) -> None:
        self.index = index
        self.feedback = feedback
        self.history = history
        self.api_url = api_url

    def update_issue(self, event: Event) -> EventResult:
        """Stores or deletes the issue of an event, unless a later state of it is known."""
        issue_id = str(event.issue.number)
        updated_at = event.issue.updated_at
        name = f"issue {issue_id}"
        # GitHub never restores a deleted issue, so a deletion counts however late it arrives.
        if event.action != "deleted" and self.history.is_outdated(name, updated_at):
            return outdated(name)
        if event.action in ("deleted", "transferred"):
            found = self.index.delete(issue_id)
            self.history.remember(name, updated_at, gone=True)
            return EventResult(200, "deleted" if found else "unchanged", f"#{issue_id} is no longer in the index")
        done = self.index.add([as_report(event.issue)], ISSUE_FIELDS)[issue_id]
        self.history.remember(name, updated_at)
        return EventResult(200, done, f"#{issue_id} {done}")

    def update_links(self, event: Event) -> EventResult:
        """Links two issues if a member's comment calls them duplicates; unlinks them if the comment no longer does."""
        comment = event.comment
        assert comment is not None
        number = str(event.issue.number)
        name = f"comment {comment.id}"
        if comment.id is not None and event.action != "deleted" and self.history.is_outdated(name, comment.updated_at):
            return outdated(name)
        named, reason = self._find_duplicate(event, comment)
        linked = None if comment.id is None else self.history.link_of(comment.id)
        # An edited comment may name another issue than before: its former link goes first.
        if comment.id is not None and linked is not None and linked != (number, named):
            self._unlink(comment.id, *linked)
        if named is not None:
            result = self._link(event, comment, named)
        elif linked is not None:
            result = EventResult(200, "unlinked", f"the comment no longer links #{linked[0]} and #{linked[1]}")
        else:
            result = replace(ignored(reason), code="unread" if reason == UNREAD else "ignored")
        if comment.id is not None:
            self.history.remember(name, comment.updated_at, gone=event.action == "deleted")
        return result

    def _find_duplicate(self, event: Event, comment: IssueComment) -> tuple[str | None, str]:
        """The issue that a comment calls a duplicate of its own; or None, and the reason."""
        text = comment.body or ""
        number = str(event.issue.number)
        if event.action == "deleted":
            return None, "the deleted comment had linked nothing"
        if event.action == "edited" and comment.id is None:
            return None, "the edited comment has no id"
        # Before the text is parsed, which takes long for some texts: those of strangers are not.
        if MARKER in text or (comment.user and comment.user.is_bot):
            return None, "the comment was written by a bot"
        if comment.author_association not in MEMBERS:
            return None, "only owners, members and collaborators of the repository may mark an issue as a duplicate"
        if has_unread_phrase(text):
            log.warning("comment %s on issue %s is not read: %s", comment.id, number, UNREAD)
            return None, UNREAD
        host = web_host(event.issue.html_url or "") or web_host(self.api_url)
        named = named_duplicate(text, event.repository.full_name, host)
        if named is None:
            return None, "the comment names no duplicate"
        if named == number:
            return None, f"#{number} cannot be a duplicate of itself"
        if self.index.get(named) is None:
            return None, f"#{named} is not in the index"
        if self.index.get(number) is None and self.history.is_outdated(f"issue {number}", event.issue.updated_at):
            return None, f"#{number} was deleted"
        return named, ""

    def _link(self, event: Event, comment: IssueComment, named: str) -> EventResult:
        number = str(event.issue.number)
        author = comment.user.login if comment.user else ""
        if self.index.get(number) is None:
            self.index.add([as_report(event.issue)], ISSUE_FIELDS)
            self.history.remember(f"issue {number}", event.issue.updated_at)
        if comment.id is not None:  # recorded before the link: after a crash the link can still be deleted
            self.history.remember_link(comment.id, number, named)
        self.index.link(number, named, link_source(comment.id))
        report = as_report(event.issue)
        self.feedback.record(FeedbackEvent(report, named, "accept", SOURCE, author[:200]))
        return EventResult(200, "linked", f"#{number} and #{named} are duplicates")

    def _unlink(self, comment_id: int, report: str, duplicate: str) -> None:
        """Undoes what a comment has done. Links and feedback of others on the two reports stay."""
        self.index.unlink(report, duplicate, link_source(comment_id))
        # The feedback is that of all comments on the pair: only the last of them takes it back.
        if self.history.comments_linking(report, duplicate) == 1:
            self.feedback.withdraw(report, duplicate, SOURCE, only_source=SOURCE)
        self.history.forget_link(comment_id)


def ignored(reason: str) -> EventResult:
    """The result of an event that changes nothing."""
    return EventResult(202, "ignored", f"ignored: {reason}")


def outdated(name: str) -> EventResult:
    """The result of an event that is older than the known state."""
    return EventResult(202, "outdated", f"outdated: a later state of {name} is known")


def link_source(comment_id: int | None) -> str:
    """The source of the links of a comment."""
    return SOURCE if comment_id is None else f"{SOURCE}: comment {comment_id}"


def as_report(issue: EventIssue) -> Report:
    """An issue as a report, with the fields that GitHub gives."""
    return Report(
        issue_id=str(issue.number),
        title=issue.title,
        description=issue.body or "",
        created_at=issue.created_at,
        status=issue.state,
        resolution=issue.state_reason or "",
        url=web_url(issue.html_url or ""),
        resolved_at=None if issue.state == "open" else issue.closed_at,
    )
