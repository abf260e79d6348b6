"""Convert Jira's XML (RSS) export to the records of its REST interface."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from gedbd.corpora.dates import OutOfRangeError, parse_mail_date
from gedbd.corpora.readers.export_pages import ExportPage, ExportRecord
from gedbd.corpora.readers.record_values import Record
from gedbd.corpora.readers.rich_text import html_text

OUT_OF_RANGE = "0000-00-00"  # counts as a date out of range when the record is parsed


def read_items(page: ExportPage) -> Iterator[ExportRecord]:
    """Yields the issues of an XML page. Raises ValueError if it is not XML, is cut off or has an unreadable date."""
    if page.text.lstrip("\ufeff \t\r\n").lower().startswith(("<!doctype html", "<html")):
        raise ValueError(f"{page.path}: this is a web page, maybe a login page; export the search as XML from Jira")
    root = parse_safely(page)
    items = root.findall("./channel/item")
    if root.tag != "rss" or root.find("channel") is None:
        problem = "<rss> without <channel>" if root.tag == "rss" else f"<{root.tag}> instead of <rss>"
        raise ValueError(f"{page.path}: the root element is {problem}; export the search as XML from Jira")
    for number, item in enumerate(items, start=1):
        position = f"{page.path}, record {number}"
        try:
            record = record_of(item)
        except ValueError as error:
            raise ValueError(f"{position}: {error}") from error
        yield ExportRecord(position, record)


def parse_safely(page: ExportPage) -> Element:
    """Parses XML without document type and entities. Raises ValueError, with line and column, if it is malformed."""
    parser = safe_parser(page.path, separator="}")
    builder = TreeBuilder()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        # The text is already decoded; a declared encoding does not matter.
        parser.Parse(page.text.lstrip("\ufeff \t\r\n"), True)
        return builder.close()
    except expat.ExpatError as error:
        position = f"{page.path}, line {error.lineno}, column {error.offset + 1}"
        problem = f"not readable as XML ({error})"
        if is_cut_off(error):
            problem = "the file ends in the middle of a record, so it was truncated"
        raise ValueError(f"{position}: {problem}; export the issues again") from error


def safe_parser(path: Path, separator: str | None = None) -> expat.XMLParserType:
    """A parser that raises ValueError at a document type that could define entities; external ones are never read.

    Args:
        path: The file, for messages.
        separator: The character between a namespace and an element's name; ``None`` for no namespaces.
    """
    parser = expat.ParserCreate(namespace_separator=separator)

    def refuse(*_: object) -> None:
        position = f"{path}, line {parser.CurrentLineNumber}"
        raise ValueError(f"{position}: a document type declaration (<!DOCTYPE>) with entities is not allowed")

    def check_doctype(_name: str, _system: str | None, _public: str | None, has_definitions: int) -> None:
        if has_definitions:
            refuse()

    parser.StartDoctypeDeclHandler = check_doctype
    parser.EntityDeclHandler = refuse
    parser.SkippedEntityHandler = refuse
    return parser


def is_cut_off(error: expat.ExpatError) -> bool:
    """Whether a file ends before its last element does."""
    return expat.errors.messages[error.code] in {
        expat.errors.XML_ERROR_NO_ELEMENTS,
        expat.errors.XML_ERROR_UNCLOSED_TOKEN,
        expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
    }


def record_of(item: Element) -> Record:
    """Converts one issue to the record of REST."""
    resolution = child_text(item, "resolution")
    fields: dict[str, Any] = {
        "description": html_text(child_text(item, "description")),
        "environment": html_text(child_text(item, "environment")),
        "created": iso_date(item, "created"),
        "updated": iso_date(item, "updated"),
        "resolutiondate": iso_date(item, "resolved"),
        "project": child_text(item, "project"),
        "components": [part.text or "" for part in item.findall("component")],
        "versions": [part.text or "" for part in item.findall("version")],
        "priority": child_text(item, "priority"),
        "status": child_text(item, "status"),
        "resolution": "" if resolution == "Unresolved" else resolution,
        "comment": {"comments": [{"body": html_text(part.text or "")} for part in item.findall("comments/comment")]},
        "labels": [part.text or "" for part in item.findall("labels/label")],
        "attachment": [{"filename": part.get("name", "")} for part in item.findall("attachments/attachment")],
        "issuelinks": [link for kind in item.findall("issuelinks/issuelinktype") for link in links_of(kind)],
    }
    if item.find("summary") is not None:
        fields["summary"] = child_text(item, "summary")
    return {"key": child_text(item, "key"), "link": child_text(item, "link"), "fields": fields}


def child_text(item: Element, tag: str) -> str:
    """The text of a child element, empty if it is missing."""
    return (item.findtext(tag) or "").strip()


def iso_date(item: Element, tag: str) -> str:
    """Converts ``Wed, 31 Jan 2024 09:30:00 +0000`` to ISO 8601. Raises ValueError for another format."""
    written = child_text(item, tag)
    try:
        return parse_mail_date(written).isoformat() if written else ""
    except OutOfRangeError:
        return OUT_OF_RANGE
    except ValueError as error:
        expected = "Wed, 31 Jan 2024 09:30:00 +0000; set the language of your Jira profile to English"
        raise ValueError(f"{tag!r}: unreadable date {written[:40]!r}; expected: {expected}") from error


def links_of(kind: Element) -> Iterator[Record]:
    """Yields the links of one type."""
    for tag, end in (("outwardlinks", "outwardIssue"), ("inwardlinks", "inwardIssue")):
        for links in kind.findall(tag):
            phrases = {"name": child_text(kind, "name"), "inward": links.get("description", "")}
            for key in links.findall("issuelink/issuekey"):
                yield {"type": phrases, end: {"key": (key.text or "").strip()}}
