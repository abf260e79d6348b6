"""What GitHub's events look like, and the duplicate that a comment names."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from pydantic import BaseModel, ConfigDict, Field

from gedbd.service.schemas import Description, Moment, Word

MAX_NUMBER = 10**18
PHRASE = "duplicate of"
REPOSITORY = r"[\w.-]+/[\w.-]+"
REFERENCE = (
    rf"(?:(?P<name>{REPOSITORY})?#|https://(?P<host>[\w.-]+(?::\d{{1,5}})?)/(?P<place>{REPOSITORY})/issues/)"
    r"(?P<number>\d{1,18})"
)
# It is matched against a line without blanks around it: two runs of optional blanks would take quadratic time.
DUPLICATE = re.compile(rf"{PHRASE}:?[ \t]+{REFERENCE}[.!]?", re.IGNORECASE | re.ASCII)
BLOCKS = ("blockquote", "code", "fence", "heading", "hr", "html_block", "lheading", "list")
INLINE = ("backticks", "escape", "newline", "html_inline", "strikethrough", "balance_pairs")
MARKDOWN = MarkdownIt("zero", {"html": True}).enable([*BLOCKS, *INLINE])


class Part(BaseModel):
    """A part of an event; the many fields that are not read are passed over."""

    model_config = ConfigDict(extra="ignore")


class User(Part):
    """Who wrote something."""

    login: Word = ""
    type: Word = ""

    @property
    def is_bot(self) -> bool:
        """Whether a program did."""
        return self.type == "Bot" or self.login.endswith("[bot]")


class Issue(Part):
    """An issue; GitHub allows titles of 256 and texts of 65,536 characters."""

    number: int = Field(ge=1, lt=MAX_NUMBER)
    title: Word
    body: Description | None = None
    created_at: Moment | None = None
    updated_at: Moment | None = None
    html_url: Word | None = None
    state: Word = ""
    state_reason: Word | None = None
    pull_request: dict[str, Any] | None = None
    user: User | None = None


class Note(Part):
    """A comment."""

    id: int | None = Field(None, ge=1, lt=MAX_NUMBER)
    body: Description | None = None
    updated_at: Moment | None = None
    author_association: Word = ""
    user: User | None = None


class Repository(Part):
    """Where it happened."""

    full_name: Word


class Event(Part):
    """What GitHub tells; ``comment`` is there for comments only."""

    action: Word
    issue: Issue
    repository: Repository
    comment: Note | None = None


def web_host(address: str) -> str:
    """Host and port of the pages of a GitHub, from the address of one of them or of its API; empty if it has none.

    The pages of ``https://api.github.com`` are at ``github.com``, those of an Enterprise server at the API's own host.
    """
    try:
        host = urlsplit(address).netloc.lower()
    except ValueError:
        return ""
    return "github.com" if host == "api.github.com" else host


def named_duplicate(text: str, repository: str, host: str) -> str | None:
    """The issue of this repository that a line "Duplicate of #12" names; of several lines the last one counts.

    Code, quotes, lists, HTML and text struck out say nothing. An address counts on the repository's own host only.

    Args:
        text: A comment in Markdown.
        repository: "owner/name".
        host: Host of the repository's pages, with the port if it has one, in small letters.
    """
    if PHRASE not in text.lower():
        return None
    found = None
    for line in _spoken_lines(text):
        match = DUPLICATE.fullmatch(line.strip())
        if match is None or (match["host"] or host).lower() != host:
            continue
        place = match["name"] or match["place"] or repository
        if place.lower() == repository.lower():
            found = match["number"].lstrip("0") or found
    return found


def _spoken_lines(text: str) -> Iterator[str]:
    """The lines of a comment's own paragraphs; code and what is struck out become an ellipsis in their line."""
    inside = False
    for token in MARKDOWN.parse(text):
        # A line above "---", as mail programs set it before a signature, is a heading to Markdown.
        if token.level == 0 and token.type in ("paragraph_open", "heading_open"):
            inside = not token.markup.startswith("#")
        elif token.type == "inline" and token.level == 1 and inside:
            line, struck = "", 0
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
