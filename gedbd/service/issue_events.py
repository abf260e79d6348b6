"""GitHub's events of issues and comments: issues become reports, comments "Duplicate of #12" become links."""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from pydantic import BaseModel, Field, ValidationError

from gedbd.corpora.bug_report import Report
from gedbd.corpora.feedback import FeedbackEvent, FeedbackStore
from gedbd.corpora.urls import web_url
from gedbd.service.event_table import EventTable
from gedbd.service.github_comments import MARKER
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
UNREAD = f'"{PHRASE}" is not in a complete paragraph of its first {MAX_READ:,} characters'
# Fields of a report that GitHub's events set. Others, such as the component, are kept.
ISSUE_FIELDS = ("title", "description", "created_at", "status", "resolution", "url", "resolved_at")

log = logging.getLogger("gedbd")


# The models of an event, of which pydantic ignores all other fields.
class User(BaseModel):
    """The author of an issue or a comment."""

    login: ShortText = ""
    type: ShortText = ""

    @property
    def is_bot(self) -> bool:
        """Whether the author is a program."""
        return self.type == "Bot" or self.login.endswith("[bot]")


class EventIssue(BaseModel):
    """An issue. GitHub limits titles to 256 and texts to 65,536 characters."""

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


class IssueComment(BaseModel):
    """A comment."""

    id: int | None = Field(None, ge=1, lt=MAX_NUMBER)
    body: Description | None = None
    updated_at: Date | None = None
    author_association: ShortText = ""
    user: User | None = None

    @property
    def name(self) -> str:
        """The key of its states, such as "comment 345"; empty without an id."""
        return "" if self.id is None else f"comment {self.id}"


class EventRepository(BaseModel):
    """The repository of an issue."""

    full_name: ShortText


class Event(BaseModel):
    """An event of an issue, or of its ``comment``."""

    action: ShortText
    issue: EventIssue
    repository: EventRepository
    comment: IssueComment | None = None


def web_host(address: str) -> str:
    """Host and port of GitHub's pages, from the address of a page or the API; empty if the address has none."""
    try:
        host = urlsplit(address).netloc.lower()
    except ValueError:
        return ""
    return "github.com" if host == "api.github.com" else host


def named_duplicate(text: str, repository: str, host: str) -> str | None:
    """The issue of this repository in the last line "Duplicate of #12" of a Markdown comment.

    Code, quotes, lists, HTML and struck-out text are ignored, as are addresses on hosts other than ``host`` and text
    after the first ``MAX_READ`` characters.
    """
    text = _first_paragraphs(text)
    if PHRASE not in text.lower():  # saves the slow parsing of most comments
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


def _first_paragraphs(text: str) -> str:
    """The complete paragraphs among the first ``MAX_READ`` characters of a comment."""
    if len(text) <= MAX_READ:
        return text
    blank_lines = [match.end() for match in BLANK_LINE.finditer(text, 0, MAX_READ)]
    return text[: blank_lines[-1]] if blank_lines else ""


def _paragraph_lines(text: str) -> Iterator[str]:
    """The lines of top-level paragraphs, with an ellipsis for code and struck-out text."""
    is_paragraph = False
    for token in MARKDOWN.parse(text):
        # A line above "---", which mail programs put before a signature, is a heading in Markdown.
        if token.level == 0 and token.type in ("paragraph_open", "heading_open"):
            is_paragraph = not token.markup.startswith("#")
        elif token.type == "inline" and token.level == 1 and is_paragraph:
            line = ""
            struck = 0  # number of open ~~
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
    """The result of an event: HTTP status, label in the metrics such as "added", and the result in words.

    ``no_comment`` says why a new issue gets no comment; it is empty if it gets one, and for other events.
    """

    status: int
    code: str
    detail: str
    no_comment: str = ""


def read_event(payload: object, kind: str) -> Event:
    """Parses an event of issues or comments. Raises ValueError if a field is missing or invalid."""
    try:
        event = Event.model_validate(payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(map(str, first["loc"]))
        raise ValueError(f"the event is invalid: {path}: {first['msg']}") from error
    if kind == "issue_comment" and event.comment is None:
        raise ValueError("the event is invalid: comment: Field required")
    return event if kind == "issue_comment" else event.model_copy(update={"comment": None})


@dataclass(frozen=True)
class IndexUpdater:
    """Updates an index and its feedback from the events of a repository, whose known states are in a table.

    ``api_url`` is the address of GitHub's API, which gives the host if an issue has no address.
    """

    index: StoredIndex
    feedback: FeedbackStore
    table: EventTable
    api_url: str

    def update_issue(self, event: Event) -> EventResult:
        """Stores or deletes the issue of an event, unless a later state is known."""
        issue_id = str(event.issue.number)
        updated_at = event.issue.updated_at
        name = f"issue {issue_id}"
        # GitHub never restores a deleted issue, so a late deletion counts too.
        if event.action != "deleted" and self.table.is_outdated(name, updated_at):
            return outdated(name)
        is_gone = event.action in ("deleted", "transferred")
        # Before the index changes, so that ``gedbd sync`` never indexes a former state after it.
        self.table.remember(name, updated_at, is_gone)
        if is_gone:
            is_stored = self.index.delete(issue_id)
            return EventResult(200, "deleted" if is_stored else "unchanged", f"#{issue_id} is no longer in the index")
        change = self.index.add([as_report(event.issue)], ISSUE_FIELDS)[issue_id]
        return EventResult(200, change, f"#{issue_id} {change}")

    def update_links(self, event: Event) -> EventResult:
        """Links two issues while a member's comment calls them duplicates, and unlinks them afterwards."""
        comment = event.comment
        assert comment is not None
        number = str(event.issue.number)
        name = comment.name
        if name and event.action != "deleted" and self.table.is_outdated(name, comment.updated_at):
            return outdated(name)
        duplicate, reason = self._find_duplicate(event, comment)
        linked = self.table.link_of(name) if name else None
        # An edited comment may name another issue, so its previous link is deleted first.
        if linked is not None and linked != (number, duplicate):
            self.index.unlink(*linked, link_source(name))
            # All comments on the pair share the feedback, which only the last of them withdraws.
            if self.table.comments_linking(*linked) == 1:
                self.feedback.withdraw(*linked, SOURCE, only_source=SOURCE)
            self.table.remember_link(name, None, None)
        if duplicate is not None:
            result = self._link(event, comment, duplicate)
        elif linked is not None:
            result = EventResult(200, "unlinked", f"the comment no longer links #{linked[0]} and #{linked[1]}")
        else:
            result = replace(ignored(reason), code="unread" if reason == UNREAD else "ignored")
        if name:
            self.table.remember(name, comment.updated_at, gone=event.action == "deleted")
        return result

    def _find_duplicate(self, event: Event, comment: IssueComment) -> tuple[str | None, str]:
        """The issue that a comment calls a duplicate, or None and the reason."""
        text = comment.body or ""
        number = str(event.issue.number)
        if event.action == "deleted":
            return None, "the deleted comment has no link"
        if event.action == "edited" and comment.id is None:
            return None, "the edited comment has no id"
        # Checked before parsing, which is slow for some texts, so that only texts of members are parsed.
        if MARKER in text or (comment.user and comment.user.is_bot):
            return None, "the comment was written by a bot"
        if comment.author_association not in MEMBERS:
            return None, "only owners, members and collaborators of the repository may mark an issue as a duplicate"
        if PHRASE in text[len(_first_paragraphs(text)) :].lower():  # in the rest of a long comment
            log.warning("comment %s on issue %s is not read: %s", comment.id, number, UNREAD)
            return None, UNREAD
        host = web_host(event.issue.html_url or "") or web_host(self.api_url)
        duplicate = named_duplicate(text, event.repository.full_name, host)
        if duplicate is None:
            return None, "the comment names no duplicate"
        if duplicate == number:
            return None, f"#{number} cannot be a duplicate of itself"
        if self.index.get(duplicate) is None:
            return None, f"#{duplicate} is not in the index"
        if self.index.get(number) is None and self.table.is_outdated(f"issue {number}", event.issue.updated_at):
            return None, f"#{number} was deleted"
        return duplicate, ""

    def _link(self, event: Event, comment: IssueComment, duplicate: str) -> EventResult:
        number = str(event.issue.number)
        author = comment.user.login if comment.user else ""
        if self.index.get(number) is None:
            self.table.remember(f"issue {number}", event.issue.updated_at)
            self.index.add([as_report(event.issue)], ISSUE_FIELDS)
        if comment.name:  # recorded before the link, so that it can be deleted after a crash
            self.table.remember_link(comment.name, number, duplicate)
        self.index.link(number, duplicate, link_source(comment.name))
        report = as_report(event.issue)
        self.feedback.record(FeedbackEvent(report, duplicate, "accept", SOURCE, author[:200]))
        return EventResult(200, "linked", f"#{number} and #{duplicate} are duplicates")


def ignored(reason: str) -> EventResult:
    """The result of an event that changes nothing."""
    return EventResult(202, "ignored", f"ignored: {reason}")


def outdated(name: str) -> EventResult:
    """The result of an event that is older than the known state."""
    return EventResult(202, "outdated", f"outdated: a later state of {name} is known")


def link_source(comment: str) -> str:
    """The source of the links of a comment."""
    return f"{SOURCE}: {comment}" if comment else SOURCE


def as_report(issue: EventIssue) -> Report:
    """Converts an issue to a report."""
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
