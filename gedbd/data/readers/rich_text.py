"""Turn HTML and Atlassian documents into plain text; code is fenced and quotes are marked, as in Markdown."""

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

BLOCKS = {"p", "div", "tr", "table", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6", "section"}
BREAKS = {"br", "hr"}
UNSEEN = {"script", "style", "head"}
BLANKS = re.compile(r"[ \t]*\n(?:[ \t]*\n)+")
DEEPEST = 100


def html_text(html: str) -> str:
    """The text of an HTML fragment, a line for each paragraph, list item and table row."""
    reader = _HtmlReader()
    reader.feed(html)
    reader.close()
    return tidy("".join(reader.parts))


def tidy(text: str) -> str:
    """Leave no more than one empty line between paragraphs and none around them."""
    return BLANKS.sub("\n\n", text.replace("\xa0", " ")).strip()


class _HtmlReader(HTMLParser):
    """Collects text; whatever is no text is passed over."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.unseen = self.preformatted = self.quoted = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.unseen += tag in UNSEEN
        if tag == "pre":
            self.preformatted += 1
            self.parts.append("\n```\n")
        elif tag == "blockquote":
            self.quoted += 1
            self.parts.append("\n> ")
        elif tag == "li":
            self.parts.append("\n- ")
        elif tag in BLOCKS | BREAKS:
            self.parts.append("\n> " if self.quoted else "\n")
        elif tag in {"td", "th"}:
            self.parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self.unseen = max(0, self.unseen - (tag in UNSEEN))
        if tag == "pre" and self.preformatted:
            self.preformatted -= 1
            self.parts.append("\n```\n")
        elif tag == "blockquote" and self.quoted:
            self.quoted -= 1
            self.parts.append("\n")
        elif tag in BLOCKS:
            self.parts.append("\n> " if self.quoted else "\n")

    def handle_data(self, data: str) -> None:
        if not self.unseen:
            self.parts.append(data if self.preformatted else re.sub(r"\s+", " ", data))


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
