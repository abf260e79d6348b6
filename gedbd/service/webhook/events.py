"""What GitHub's events do to an index."""

from dataclasses import dataclass, replace

from pydantic import ValidationError

from gedbd.corpora.urls import web_url
from gedbd.service.index_interface import Index
from gedbd.service.webhook.comments import MARKER
from gedbd.service.webhook.history import History
from gedbd.service.webhook.payloads import Event, Issue, Note, named_duplicate, web_host
from gedbd.triage.feedback import Feedback, Verdict
from gedbd.triage.report import Report

ISSUE_ACTIONS = ("opened", "edited", "closed", "reopened", "deleted", "transferred")
COMMENT_ACTIONS = ("created", "edited", "deleted")
MEMBERS = ("OWNER", "MEMBER", "COLLABORATOR")
SOURCE = "webhook"


@dataclass(frozen=True)
class Outcome:
    """What became of an event: a status of HTTP, one word to count it by, and a sentence.

    ``no_comment`` says why a new issue gets no comment; empty if it gets one, and for all other events.
    """

    status: int
    word: str
    detail: str
    no_comment: str = ""


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


class Follower:
    """Keeps an index in the state that a repository's events tell.

    Args:
        index: The stored reports.
        feedback: Where accepted duplicates are recorded.
        history: What was told before.
        api_url: Where GitHub's API is; events without an address of their issue are from there.
    """

    def __init__(self, index: Index, feedback: Feedback, history: History, api_url: str) -> None:
        self.index, self.feedback, self.history, self.api_url = index, feedback, history, api_url

    def keep_issue(self, event: Event) -> Outcome:
        """Stores or forgets the issue of an event, unless a later state of it is known."""
        issue_id, updated_at = str(event.issue.number), event.issue.updated_at
        name = f"issue {issue_id}"
        # GitHub never restores a deleted issue: however late it is told, it is gone.
        if event.action != "deleted" and self.history.is_outdated(name, updated_at):
            return outdated(name)
        if event.action in ("deleted", "transferred"):
            found = self.index.delete(issue_id)
            self.history.remember(name, updated_at, gone=True)
            return Outcome(200, "deleted" if found else "unchanged", f"#{issue_id} is no longer in the index")
        done = self.index.add([as_report(self.index, event.issue)])[issue_id]
        self.history.remember(name, updated_at)
        return Outcome(200, done, f"#{issue_id} {done}")

    def follow_comment(self, event: Event) -> Outcome:
        """Links two issues where a member says in a comment that they are duplicates; unlinks them with the comment."""
        note, number = event.comment, str(event.issue.number)
        assert note is not None
        name = f"comment {note.id}"
        if note.id is not None and event.action != "deleted" and self.history.is_outdated(name, note.updated_at):
            return outdated(name)
        named, reason = self._named(event, note)
        held = None if note.id is None else self.history.link_of(note.id)
        if note.id is not None and held is not None and held != (number, named):
            self._unlink(note.id, *held)
        if named is not None:
            outcome = self._link(event, note, named)
        elif held is not None:
            outcome = Outcome(200, "unlinked", f"the comment that linked #{held[0]} and #{held[1]} no longer does")
        else:
            outcome = ignored(reason)
        if note.id is not None:
            self.history.remember(name, note.updated_at, gone=event.action == "deleted")
        return outcome

    def _named(self, event: Event, note: Note) -> tuple[str | None, str]:
        """The issue that a comment calls a duplicate of its own; or None, and why."""
        text, number = note.body or "", str(event.issue.number)
        if event.action == "deleted":
            return None, "the deleted comment had linked nothing"
        if event.action == "edited" and note.id is None:
            return None, "the edited comment has no id"
        named = named_duplicate(text, event.repository.full_name, self._host(event))
        if named is None:
            return None, "the comment names no duplicate"
        if MARKER in text or (note.user and note.user.is_bot):
            return None, "the comment is written by a program"
        if note.author_association not in MEMBERS:
            return None, "only owners, members and collaborators of the repository may call an issue a duplicate"
        if named == number:
            return None, f"#{number} cannot be a duplicate of itself"
        if self.index.get(named) is None:
            return None, f"#{named} is not in the index"
        if self.index.get(number) is None and self.history.is_outdated(f"issue {number}", event.issue.updated_at):
            return None, f"#{number} was deleted"
        return named, ""

    def _host(self, event: Event) -> str:
        """The host of the repository's pages."""
        return web_host(event.issue.html_url or "") or web_host(self.api_url)

    def _link(self, event: Event, note: Note, named: str) -> Outcome:
        number, writer = str(event.issue.number), note.user.login if note.user else ""
        if self.index.get(number) is None:
            self.index.add([as_report(self.index, event.issue)])
            self.history.remember(f"issue {number}", event.issue.updated_at)
        if note.id is not None:  # before the link: what is known here can be deleted, whatever happens next
            self.history.remember_link(note.id, number, named)
        self.index.link(number, named, source_of(note.id))
        self.feedback.record(Verdict(as_report(self.index, event.issue), named, "accept", SOURCE, writer[:200]))
        return Outcome(200, "linked", f"#{number} and #{named} are duplicates")

    def _unlink(self, comment_id: int, report: str, duplicate: str) -> None:
        """Takes back what a comment has done; what others say about the two reports stays."""
        self.index.unlink(report, duplicate, source_of(comment_id))
        if self.history.comments_linking(report, duplicate) == 1:
            self.feedback.withdraw(report, duplicate, SOURCE, said_by=SOURCE)
        self.history.forget_link(comment_id)


def ignored(why: str) -> Outcome:
    """Nothing was done, and why."""
    return Outcome(202, "ignored", f"ignored: {why}")


def outdated(name: str) -> Outcome:
    """Nothing was done, as what an event tells is older than what is known."""
    return Outcome(202, "outdated", f"outdated: a later state of {name} is known")


def source_of(comment_id: int | None) -> str:
    """The source of the links of a comment."""
    return SOURCE if comment_id is None else f"{SOURCE}: comment {comment_id}"


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
