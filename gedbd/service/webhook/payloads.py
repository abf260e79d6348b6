"""The parts of GitHub's events that are read, and the duplicate that a comment names."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from pydantic import BaseModel, ConfigDict, Field

from gedbd.service.schemas import Date, Description, ShortText

MAX_NUMBER = 10**18
PHRASE = "duplicate of"
REPOSITORY = r"[\w.-]+/[\w.-]+"
REFERENCE = (
    rf"(?:(?P<name>{REPOSITORY})?#|https://(?P<host>[\w.-]+(?::\d{{1,5}})?)/(?P<place>{REPOSITORY})/issues/)"
    r"(?P<number>\d{1,18})"
)
# Matched against a stripped line: two runs of optional blanks in the pattern would take quadratic time.
DUPLICATE = re.compile(rf"{PHRASE}:?[ \t]+{REFERENCE}[.!]?", re.IGNORECASE | re.ASCII)
BLANK_LINE = re.compile(r"\r\n\r\n|\n\n|\r\r")
BLOCKS = ("blockquote", "code", "fence", "heading", "hr", "html_block", "lheading", "list")
INLINE = ("backticks", "escape", "newline", "html_inline", "strikethrough", "balance_pairs")
MAX_READ = 5000  # characters of a comment: the parser needs up to 15 µs for each
MARKDOWN = MarkdownIt("zero", {"html": True}).enable([*BLOCKS, *INLINE])


class EventPart(BaseModel):
    """A part of an event; the many fields that are not needed are ignored."""

    model_config = ConfigDict(extra="ignore")


class User(EventPart):
    """The author of an issue, a comment or an event."""

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


class EventRepository(EventPart):
    """The repository of an issue."""

    full_name: ShortText


class Event(EventPart):
    """An event of an issue or, with ``comment``, of a comment."""

    action: ShortText
    issue: EventIssue
    repository: EventRepository
    comment: IssueComment | None = None
    sender: User | None = None


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
    found = None
    for line in _paragraph_lines(text):
        match = DUPLICATE.fullmatch(line.strip())
        if match is None or (match["host"] or host).lower() != host:
            continue
        place = match["name"] or match["place"] or repository
        if place.lower() == repository.lower():
            found = match["number"].lstrip("0") or found  # "#0" names no issue
    return found


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
