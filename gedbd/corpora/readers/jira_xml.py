"""Read Jira's XML (RSS) export into records like those of its REST interface.

The file comes from strangers: a document type, and with it every entity of its own, is refused.
"""

from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from gedbd.corpora.dates import OutOfRangeError, parse_mail_date
from gedbd.corpora.readers.export_pages import Found, Page
from gedbd.corpora.readers.json_values import Record
from gedbd.corpora.readers.rich_text import html_text

OUT_OF_RANGE = "0000-00-00"  # is counted as a date out of range where the record is read


def read_items(page: Page) -> Iterator[Found]:
    """The issues of an XML page.

    Raises:
        ValueError: The file is no XML, cut off, has a document type, or a date cannot be read.
    """
    if page.text.lstrip("\ufeff \t\r\n").lower().startswith(("<!doctype html", "<html")):
        raise ValueError(f"{page.path}: this is a web page, perhaps a log-in page; export the search as XML from Jira")
    root = parse_safely(page)
    items = root.findall("./channel/item")
    if root.tag != "rss" or root.find("channel") is None:
        raise ValueError(f"{page.path}: <{root.tag}> where <rss> is expected; export the search as XML from Jira")
    for number, item in enumerate(items, start=1):
        place = f"{page.path}, record {number}"
        try:
            record = record_of(item)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        yield Found(place, record)


def parse_safely(page: Page) -> Element:
    """Parse XML without document type and entities.

    Raises:
        ValueError: Names line and column.
    """
    parser, builder = expat.ParserCreate(namespace_separator="}"), TreeBuilder()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data

    def refuse(*_: object) -> None:
        raise ValueError(f"{page.path}, line {parser.CurrentLineNumber}: a document type (<!DOCTYPE>) is not accepted")

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        # The text is decoded already, whatever encoding its first line declares.
        parser.Parse(page.text.lstrip("\ufeff \t\r\n"), True)
        return builder.close()
    except expat.ExpatError as error:
        place = f"{page.path}, line {error.lineno}, column {error.offset + 1}"
        cut = error.code in {expat.errors.codes[message] for message in CUT_OFF}
        what = "the file ends in the middle of a record; it was cut off" if cut else f"not readable as XML ({error})"
        raise ValueError(f"{place}: {what}; export the issues again") from error


CUT_OFF = (
    expat.errors.XML_ERROR_NO_ELEMENTS,
    expat.errors.XML_ERROR_UNCLOSED_TOKEN,
    expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
)


def record_of(item: Element) -> Record:
    """One issue, spelled as REST does."""
    resolution = said(item, "resolution")
    fields: dict[str, Any] = {
        "description": html_text(said(item, "description")),
        "environment": html_text(said(item, "environment")),
        "created": iso_date(item, "created"),
        "updated": iso_date(item, "updated"),
        "project": said(item, "project"),
        "components": [part.text or "" for part in item.findall("component")],
        "versions": [part.text or "" for part in item.findall("version")],
        "priority": said(item, "priority"),
        "status": said(item, "status"),
        "resolution": "" if resolution == "Unresolved" else resolution,
        "comment": {"comments": [{"body": html_text(part.text or "")} for part in item.findall("comments/comment")]},
        "attachment": [{"filename": part.get("name", "")} for part in item.findall("attachments/attachment")],
        "issuelinks": [link for kind in item.findall("issuelinks/issuelinktype") for link in links_of(kind)],
    }
    if item.find("summary") is not None:
        fields["summary"] = said(item, "summary")
    return {"key": said(item, "key"), "link": said(item, "link"), "fields": fields}


def said(item: Element, tag: str) -> str:
    """The text of a part, empty where it is missing."""
    return (item.findtext(tag) or "").strip()


def iso_date(item: Element, tag: str) -> str:
    """A date such as ``Wed, 31 Jan 2024 09:30:00 +0000``, as ISO 8601.

    Raises:
        ValueError: It is written in another way.
    """
    written = said(item, tag)
    try:
        return parse_mail_date(written).isoformat() if written else ""
    except OutOfRangeError:
        return OUT_OF_RANGE
    except ValueError as error:
        expected = "Wed, 31 Jan 2024 09:30:00 +0000; set the language of your Jira profile to English and export anew"
        raise ValueError(f"{tag!r}: unreadable date {written[:40]!r}; expected is {expected}") from error


def links_of(kind: Element) -> Iterator[Record]:
    """The links of one type."""
    for tag, end in (("outwardlinks", "outwardIssue"), ("inwardlinks", "inwardIssue")):
        for links in kind.findall(tag):
            said_here = {"name": said(kind, "name"), "inward": links.get("description", "")}
            for key in links.findall("issuelink/issuekey"):
                yield {"type": said_here, end: {"key": (key.text or "").strip()}}
