"""Turn HTML and Atlassian documents into plain text; code is fenced and quotes are marked, as in Markdown."""

import re
from collections.abc import Mapping
from html import unescape
from typing import Any

from lxml import etree

BLOCKS = {"p", "div", "tr", "table", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6", "section"}
BREAKS = {"br", "hr"}
UNSEEN = {"script", "style", "title"}
FEED = 4_096  # characters that the parser is given at once, at least
MAX_OPEN = 256  # elements in one another; browsers stop at 512, and closing one takes time for each that is open
TAG = re.compile(r"<[^<>]*>")
BLANKS = re.compile(r"(?<![ \t])[ \t]*+\n(?:[ \t]*+\n)+")
SPACES = re.compile(r"\s+")
DEEPEST = 100


def html_text(html: str) -> str:
    """The text of an HTML fragment, a line for each paragraph, list item and table row.

    Of what lies deeper than ``MAX_OPEN`` elements, and all that follows it, the text is kept as it stands, without
    tags. A tag that is cut off at the end is text.
    """
    reader = _TextReader()
    parser = etree.HTMLParser(target=reader, encoding="utf-8", huge_tree=True)
    end = html.rfind(">") + 1
    whole = html[:end] + html[end:].replace("<", "&lt;")
    parser.feed("<html><body>")
    start = 0
    while start < len(whole) and reader.open < MAX_OPEN:
        tag_end = whole.find(">", start + FEED) + 1  # so that no tag is cut
        stop = tag_end or len(whole)
        parser.feed(whole[start:stop])
        start = stop
    parser.close()
    rest = TAG.sub("\n", whole[start:])
    return tidy("".join([*reader.parts, SPACES.sub(" ", unescape(rest))]))


def tidy(text: str) -> str:
    """Leave no more than one empty line between paragraphs and none around them."""
    return BLANKS.sub("\n\n", text.replace("\xa0", " ")).strip()


class _TextReader:
    """Collects text; whatever is no text is passed over.

    Attributes:
        parts: The text.
        open: Elements in one another at the moment.
    """

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.open = 0
        self._unseen = 0
        self._preformatted = 0
        self._quoted = 0
        self._data: list[str] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        self._flush()
        self.open += 1
        self._unseen += tag in UNSEEN
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
        """An element ends."""
        self._flush()
        self.open -= 1
        self._unseen -= tag in UNSEEN
        if tag == "pre":
            self._preformatted -= 1
            self.parts.append("\n```\n")
        elif tag == "blockquote":
            self._quoted -= 1
            self.parts.append("\n")
        elif tag in BLOCKS:
            self._break_line()

    def data(self, text: str) -> None:
        """A piece of text, which others may follow."""
        self._data.append(text)

    def close(self) -> None:
        """All has been read."""
        self._flush()

    def _break_line(self) -> None:
        self.parts.append("\n> " if self._quoted else "\n")

    def _flush(self) -> None:
        text = "".join(self._data)
        self._data.clear()
        if text and not self._unseen:
            self.parts.append(text if self._preformatted else SPACES.sub(" ", text))


def document_text(node: Any, depth: int = 0) -> str:
    """The text of a document in the Atlassian Document Format, as Jira Cloud answers it.

    Raises:
        ValueError: It is nested deeper than any such document, or a node is none.
    """
    if not isinstance(node, Mapping) or depth > DEEPEST:
        raise ValueError("the document in the Atlassian Document Format is damaged")
    kind, content = node.get("type"), node.get("content")
    if kind == "text":
        return str(node.get("text") or "")
    inner = [document_text(child, depth + 1) for child in content] if isinstance(content, list) else []
    attributes = node.get("attrs") if isinstance(node.get("attrs"), Mapping) else {}
    return wrap(str(kind), "".join(inner), attributes or {})


def wrap(kind: str, inner: str, attributes: Mapping[str, Any]) -> str:
    """The text of a node, given that of its content."""
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
    if kind in {"paragraph", "heading", "tableRow", "rule"}:
        return f"{inner.strip()}\n"
    if kind in {"tableCell", "tableHeader"}:
        return f"{inner.strip()} "
    shown = next((attributes[key] for key in ("text", "shortName", "url", "title") if attributes.get(key)), "")
    return inner or str(shown)
