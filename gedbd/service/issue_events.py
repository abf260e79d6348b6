"""GitHub's events of issues and comments: issues become reports, comments "Duplicate of #12" become links."""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gedbd.corpora.bug_report import Report
from gedbd.corpora.feedback import FeedbackEvent, FeedbackStore
from gedbd.corpora.urls import web_url
from gedbd.service.comments import MARKER
from gedbd.service.event_table import EventTable
from gedbd.service.schemas import Date, Description, ShortText
from gedbd.triage.stored_index import StoredIndex

MAX_NUMBER = 10**18
PHRASE = "duplicate of"
REPOSITORY = r"[\w.-]+/[\w.-]+"
REFERENCE = (
    rf"(?:(?P<name>{REPOSITORY})?#|https://(?P<host>[\w.-]+(?::\d{{1,5}})?)/(?P<path>{REPOSITORY})/issues/)"
    r"(?P<number>\d{1,18})"
)
# Matched against a stripped line: two runs of optional blanks in the pattern would take quadratic time.
DUPLICATE = re.compile(rf"{PHRASE}:?[ \t]+{REFERENCE}[.!]?", re.IGNORECASE | re.ASCII)
BLANK_LINE = re.compile(r"\r\n\r\n|\n\n|\r\r")
BLOCKS = ("blockquote", "code", "fence", "heading", "hr", "html_block", "lheading", "list")
INLINE = ("backticks", "escape", "newline", "html_inline", "strikethrough", "balance_pairs")
MAX_READ = 5000  # characters of a comment: the parser needs up to 15 µs for each
MARKDOWN = MarkdownIt("zero", {"html": True}).enable([*BLOCKS, *INLINE])
ISSUE_ACTIONS = ("opened", "edited", "closed", "reopened", "deleted", "transferred")
COMMENT_ACTIONS = ("created", "edited", "deleted")
MEMBERS = ("OWNER", "MEMBER", "COLLABORATOR")
SOURCE = "webhook"
UNREAD = f'"{PHRASE}" comes after its first {MAX_READ:,} characters, or no blank line comes before them'
# Fields of a report that GitHub gives. The others, such as the component, come from elsewhere and stay.
ISSUE_FIELDS = ("title", "description", "created_at", "status", "resolution", "url", "resolved_at")

log = logging.getLogger("gedbd")


class EventPart(BaseModel):
    """A part of an event; the many fields that are not needed are ignored."""

    model_config = ConfigDict(extra="ignore")


class User(EventPart):
    """The author of an issue or a comment."""

    login: ShortText = ""
    type: ShortText = ""

    @property
    def is_bot(self) -> bool:
        """Whether the author is a program."""
        return self.type == "Bot" or self.login.endswith("[bot]")


class EventIssue(EventPart):
    """An issue. GitHub allows titles of 256 and texts of 65,536 characters."""

    number: int = Field(ge=1, lt=MAX_NUMBER)
    title: ShortText
    body: Description | None = None
    created_at: Date | None = None
    updated_at: Date | None = None
    closed_at: Date | None = None
    html_url: ShortText | None = None
    state: ShortText = ""
    state_reason: ShortText | None = None
    pull_request: dict[str, Any] | None = None
    user: User | None = None


class IssueComment(EventPart):
    """A comment."""

    id: int | None = Field(None, ge=1, lt=MAX_NUMBER)
    body: Description | None = None
    updated_at: Date | None = None
    author_association: ShortText = ""
    user: User | None = None

    @property
    def name(self) -> str:
        """Such as "comment 345", under which its states are kept; empty without an id."""
        return "" if self.id is None else f"comment {self.id}"


class EventRepository(EventPart):
    """The repository of an issue."""

    full_name: ShortText


class Event(EventPart):
    """An event of an issue or, with ``comment``, of a comment."""

    action: ShortText
    issue: EventIssue
    repository: EventRepository
    comment: IssueComment | None = None


def web_host(address: str) -> str:
    """Host and port of GitHub's pages, from the address of a page or of the API; empty if the address has none.

    The pages of ``https://api.github.com`` are on ``github.com``; those of an Enterprise server are on the API's host.
    """
    try:
        host = urlsplit(address).netloc.lower()
    except ValueError:
        return ""
    return "github.com" if host == "api.github.com" else host


def named_duplicate(text: str, repository: str, host: str) -> str | None:
    """The issue of this repository that a line "Duplicate of #12" names; of several lines the last one counts.

    Code, quotes, lists, HTML and struck-out text do not count, nor does what ``has_unread_phrase`` finds. An address
    counts on the repository's own host only.

    Args:
        text: A comment in Markdown.
        repository: "owner/name".
        host: Host of the repository's pages, with the port if there is one, in lower case.
    """
    text = _read_part(text)
    if PHRASE not in text.lower():  # most comments: parsing Markdown is slow
        return None
    duplicate = None
    for line in _paragraph_lines(text):
        match = DUPLICATE.fullmatch(line.strip())
        if match is None or (match["host"] or host).lower() != host:
            continue
        named_repository = match["name"] or match["path"] or repository
        if named_repository.lower() == repository.lower():
            duplicate = match["number"].lstrip("0") or duplicate  # "#0" names no issue
    return duplicate


def has_unread_phrase(text: str) -> bool:
    """Whether a comment says "duplicate of" after the part of it that is read."""
    return PHRASE in text[len(_read_part(text)) :].lower()


def _read_part(text: str) -> str:
    """The whole paragraphs among the first characters of a long comment."""
    if len(text) <= MAX_READ:
        return text
    blank_lines = [match.end() for match in BLANK_LINE.finditer(text, 0, MAX_READ)]
    return text[: blank_lines[-1]] if blank_lines else ""


def _paragraph_lines(text: str) -> Iterator[str]:
    """The lines of a comment's top-level paragraphs; code and struck-out text become an ellipsis."""
    inside = False
    for token in MARKDOWN.parse(text):
        # In Markdown a line above "---", as mail programs put it before a signature, is a heading.
        if token.level == 0 and token.type in ("paragraph_open", "heading_open"):
            inside = not token.markup.startswith("#")
        elif token.type == "inline" and token.level == 1 and inside:
            line = ""
            struck = 0  # how many ~~ are open
            for child in token.children or ():
                struck += (child.type == "s_open") - (child.type == "s_close")
                if child.type in ("softbreak", "hardbreak"):
                    yield line
                    line = ""
                elif struck or child.type not in ("text", "text_special"):
                    line += "\u2026"
                else:
                    line += child.content
            yield line


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
        path = ".".join(map(str, first["loc"]))
        raise ValueError(f"the event is invalid: {path}: {first['msg']}") from error
    if kind == "issue_comment" and event.comment is None:
        raise ValueError("the event is invalid: comment: Field required")
    return event if kind == "issue_comment" else event.model_copy(update={"comment": None})


class IndexUpdater:
    """Keeps an index in the state that a repository's events describe.

    Args:
        index: The stored reports.
        feedback: Where duplicates that members name are recorded.
        table: The known states of issues and comments.
        api_url: Address of GitHub's API; the host of events whose issue has no address follows from it.
    """

    def __init__(self, index: StoredIndex, feedback: FeedbackStore, table: EventTable, api_url: str) -> None:
        self.index = index
        self.feedback = feedback
        self.table = table
        self.api_url = api_url

    def update_issue(self, event: Event) -> EventResult:
        """Stores or deletes the issue of an event, unless a later state of it is known."""
        issue_id = str(event.issue.number)
        updated_at = event.issue.updated_at
        name = f"issue {issue_id}"
        # GitHub never restores a deleted issue, so a deletion counts however late it arrives.
        if event.action != "deleted" and self.table.is_outdated(name, updated_at):
            return outdated(name)
        if event.action in ("deleted", "transferred"):
            is_stored = self.index.delete(issue_id)
            self.table.remember(name, updated_at, gone=True)
            return EventResult(200, "deleted" if is_stored else "unchanged", f"#{issue_id} is no longer in the index")
        change = self.index.add([as_report(event.issue)], ISSUE_FIELDS)[issue_id]
        self.table.remember(name, updated_at)
        return EventResult(200, change, f"#{issue_id} {change}")

    def update_links(self, event: Event) -> EventResult:
        """Links two issues if a member's comment calls them duplicates; unlinks them if the comment no longer does."""
        comment = event.comment
        assert comment is not None
        number = str(event.issue.number)
        name = comment.name
        if name and event.action != "deleted" and self.table.is_outdated(name, comment.updated_at):
            return outdated(name)
        named, reason = self._find_duplicate(event, comment)
        linked = self.table.link_of(name) if name else None
        # An edited comment may name another issue than before: its former link goes first.
        if linked is not None and linked != (number, named):
            self._unlink(name, *linked)
        if named is not None:
            result = self._link(event, comment, named)
        elif linked is not None:
            result = EventResult(200, "unlinked", f"the comment no longer links #{linked[0]} and #{linked[1]}")
        else:
            result = replace(ignored(reason), code="unread" if reason == UNREAD else "ignored")
        if name:
            self.table.remember(name, comment.updated_at, gone=event.action == "deleted")
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
        if self.index.get(number) is None and self.table.is_outdated(f"issue {number}", event.issue.updated_at):
            return None, f"#{number} was deleted"
        return named, ""

    def _link(self, event: Event, comment: IssueComment, named: str) -> EventResult:
        number = str(event.issue.number)
        author = comment.user.login if comment.user else ""
        if self.index.get(number) is None:
            self.index.add([as_report(event.issue)], ISSUE_FIELDS)
            self.table.remember(f"issue {number}", event.issue.updated_at)
        if comment.name:  # recorded before the link: after a crash the link can still be deleted
            self.table.remember_link(comment.name, number, named)
        self.index.link(number, named, link_source(comment.name))
        report = as_report(event.issue)
        self.feedback.record(FeedbackEvent(report, named, "accept", SOURCE, author[:200]))
        return EventResult(200, "linked", f"#{number} and #{named} are duplicates")

    def _unlink(self, comment: str, report: str, duplicate: str) -> None:
        """Undoes what a comment has done. Links and feedback of others on the two reports stay."""
        self.index.unlink(report, duplicate, link_source(comment))
        # The feedback is that of all comments on the pair: only the last of them takes it back.
        if self.table.comments_linking(report, duplicate) == 1:
            self.feedback.withdraw(report, duplicate, SOURCE, only_source=SOURCE)
        self.table.forget_link(comment)


def ignored(reason: str) -> EventResult:
    """The result of an event that changes nothing."""
    return EventResult(202, "ignored", f"ignored: {reason}")


def outdated(name: str) -> EventResult:
    """The result of an event that is older than the known state."""
    return EventResult(202, "outdated", f"outdated: a later state of {name} is known")


def link_source(comment: str) -> str:
    """The source of the links of a comment, by its name."""
    return f"{SOURCE}: {comment}" if comment else SOURCE


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
