"""Convert HTML and Atlassian documents to plain text; code blocks and quotes are marked as in Markdown."""

import re
from collections.abc import Mapping
from html import unescape
from typing import Any

from lxml import etree

BLOCKS = {"p", "div", "tr", "table", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6", "section"}
BREAKS = {"br", "hr"}
HIDDEN = {"script", "style", "title"}
MIN_FEED_CHARACTERS = 4_096  # given to the parser at once
MAX_DEPTH = 256  # of nested elements; browsers stop at 512, and the time to close an element grows with those open
TAG = re.compile(r"<[^<>]*>")
BLANKS = re.compile(r"(?<![ \t])[ \t]*+\n(?:[ \t]*+\n)+")
SPACES = re.compile(r"\s+")
MAX_DOCUMENT_DEPTH = 100
# A fenced block or inline code, which are kept, or an HTML comment.
CODE_OR_COMMENT = re.compile(
    r"(?P<code>^[ \t]*(```+|~~~+).*?(?:^[ \t]*\2[`~]*[ \t]*\r?$|\Z)|(?<!`)(`+)(?!`)[^\n]+?(?<!`)\3(?!`))"
    r"|<!--.*?(?:-->|\Z)",
    re.DOTALL | re.MULTILINE,
)
NO_ANSWER = re.compile(r"^_No response_[ \t]*\r?$", re.MULTILINE)  # what GitHub's issue forms write for an empty field


def html_text(html: str) -> str:
    """The text of an HTML fragment, one line per paragraph, list item and table row.

    From the first element nested deeper than ``MAX_DEPTH`` on, tags are removed without being interpreted. A tag that
    is cut off at the end is text.
    """
    reader = _TextReader()
    parser = etree.HTMLParser(target=reader, encoding="utf-8", huge_tree=True)
    end = html.rfind(">") + 1
    # "a<b" -> "a&lt;b": the parser would drop a tag without an end.
    whole = html[:end] + html[end:].replace("<", "&lt;")
    parser.feed("<html><body>")
    start = 0
    while start < len(whole) and reader.open < MAX_DEPTH:
        tag_end = whole.find(">", start + MIN_FEED_CHARACTERS) + 1  # 0 if there is none: then the rest is fed
        stop = tag_end or len(whole)
        parser.feed(whole[start:stop])
        start = stop
    parser.close()
    rest = TAG.sub("\n", whole[start:])
    return tidy("".join([*reader.parts, SPACES.sub(" ", unescape(rest))]))


def shown_markdown(text: str) -> str:
    """Removes what readers do not see from Markdown: HTML comments, which templates contain, and empty form fields."""
    if "<!--" not in text and "_No response_" not in text:
        return text

    def replacement(match: re.Match[str]) -> str:
        is_comment = match["code"] is None and match[0].endswith("-->")  # one without an end is text
        return "" if is_comment else match[0]

    return tidy(NO_ANSWER.sub("", CODE_OR_COMMENT.sub(replacement, text)))


def tidy(text: str) -> str:
    """Reduces several empty lines to one, and removes those at the beginning and the end."""
    return BLANKS.sub("\n\n", text.replace("\xa0", " ")).strip()


class _TextReader:
    """Collects the text of parsed HTML, a target of ``lxml.etree.HTMLParser``."""

    def __init__(self) -> None:
        self.parts: list[str] = []  # the pieces of text
        self.open = 0  # the number of open elements
        self._hidden = 0
        self._preformatted = 0
        self._quoted = 0
        self._data: list[str] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handles the start of an element."""
        self._flush()
        self.open += 1
        self._hidden += tag in HIDDEN
        if tag == "pre":
            self._preformatted += 1
            self.parts.append("\n```\n")
        elif tag == "blockquote":
            self._quoted += 1
            self.parts.append("\n> ")
        elif tag == "li":
            self.parts.append("\n- ")
        elif tag in BLOCKS | BREAKS:
            self._break_line()
        elif tag in {"td", "th"}:
            self.parts.append(" ")

    def end(self, tag: str) -> None:
        """Handles the end of an element."""
        self._flush()
        self.open -= 1
        self._hidden -= tag in HIDDEN
        if tag == "pre":
            self._preformatted -= 1
            self.parts.append("\n```\n")
        elif tag == "blockquote":
            self._quoted -= 1
            self.parts.append("\n")
        elif tag in BLOCKS:
            self._break_line()

    def data(self, text: str) -> None:
        """Handles a piece of text; the parser may split a text into several pieces."""
        self._data.append(text)

    def close(self) -> None:
        """Handles the end of the document."""
        self._flush()

    def _break_line(self) -> None:
        self.parts.append("\n> " if self._quoted else "\n")

    def _flush(self) -> None:
        # White space is kept in <pre> only, as browsers do.
        text = "".join(self._data)
        self._data.clear()
        if text and not self._hidden:
            self.parts.append(text if self._preformatted else SPACES.sub(" ", text))


def document_text(node: Any, depth: int = 0) -> str:
    """The text of a document in Jira Cloud's Atlassian Document Format. Raises ValueError if it is damaged."""
    if not isinstance(node, Mapping) or depth > MAX_DOCUMENT_DEPTH:
        raise ValueError("the document in the Atlassian Document Format is damaged")
    kind = node.get("type")
    content = node.get("content")
    if kind == "text":
        return str(node.get("text") or "")
    inner = [document_text(child, depth + 1) for child in content] if isinstance(content, list) else []
    attributes = node.get("attrs") if isinstance(node.get("attrs"), Mapping) else {}
    return wrap(str(kind), "".join(inner), attributes or {})


def wrap(kind: str, inner: str, attributes: Mapping[str, Any]) -> str:
    """The text of a node, given the text of its content."""
    if kind == "doc":
        return tidy(inner)
    if kind == "codeBlock":
        return f"```\n{inner}\n```\n"
    if kind == "blockquote":
        return "".join(f"> {line}\n" for line in inner.strip().splitlines())
    if kind == "listItem":
        return f"- {inner.strip()}\n"
    if kind == "hardBreak":
        return "\n"
    if kind in {"paragraph", "heading", "tableRow", "rule", "taskItem", "decisionItem", "caption"}:
        return f"{inner.strip()}\n"
    if kind in {"tableCell", "tableHeader"}:
        return f"{inner.strip()} "
    # Mentions, emojis, cards: nodes without content that hold their text in an attribute.
    label = next((attributes[key] for key in ("text", "shortName", "url", "title") if attributes.get(key)), "")
    return inner or str(label)
