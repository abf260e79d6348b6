"""Parse Jira issues: pages of REST ``/search``, and the XML (RSS) and CSV exports."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Unpack

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.comments import Comment, References, comment_links
from gedbd.corpora.readers.duplicate_cells import says_duplicate
from gedbd.corpora.readers.export_pages import JSON_KINDS, ExportPage, ExportRecord, kind_of, read_records
from gedbd.corpora.readers.issue import DateKeys, FieldChange, Issue, Link, list_changes, make_issue
from gedbd.corpora.readers.jira_csv import read_rows
from gedbd.corpora.readers.jira_xml import read_items
from gedbd.corpora.readers.record_values import Record, moment, names, needed_text, part, parts, text
from gedbd.corpora.readers.rich_text import document_text
from gedbd.corpora.readers.tracker_export import ExportOptions, read_tracker

COLUMNS = {
    "id": "key",
    "title": "summary",
    "description": "description",
    "created_at": "created",
    "product": "project",
    "component": "components",
    "version": "versions",
    "os": "environment",
    "priority": "priority",
    "status": "status",
    "resolution": "resolution",
    "labels": "labels",
    "attachments": "attachment",
    "url": "self",
    "resolved_at": "resolutiondate",
}
FURTHER_KEYS = "changelog link updated comment issuelinks"
DATES = DateKeys("created", "updated", "resolutiondate", "created")
NAMED = ("product", "component", "version", "priority", "status", "resolution", "labels")
HISTORY = {
    COLUMNS[field]: field for field in ("title", "description", "product", "os", "priority", "status", "resolution")
}
# Fields with several values, whose changes name the single value that was added or removed.
MULTIVALUED = ("component", "version")
# Keys are upper case, also where the rest of a pattern ignores case: (?-i:...).
KEY = re.compile(r"[A-Z][A-Z0-9_]*-\d+")
REFERENCES = References(
    r"(?:https?://\S{1,200}?/browse/(?P<id1>(?-i:[A-Z][A-Z0-9_]*-\d+))|\b(?P<id2>(?-i:[A-Z][A-Z0-9_]*-\d+))\b)"
)
IMAGE = re.compile(r"\.(?:bmp|gif|jpe?g|png|webp)$", re.IGNORECASE)
# Apps that read through this host receive addresses on it instead of those of the Jira server.
GATEWAY = "https://api.atlassian.com/"
CUT_OFF = "whose changelog or comments are truncated in the export"
ODD_NAMES = "with an image whose name holds a semicolon, which is dropped"


def read_jira(name: str | None, path: str, date_format: str | None = None, **options: Unpack[ExportOptions]) -> Corpus:
    """Reads the issues of one or more projects; the images of an issue are in a folder named by its key.

    The files may also be ``.xml`` or ``.csv``; for ``date_format``, of a CSV page, see ``read_rows``. The history of an
    issue is in its changelog. For the other arguments and errors see ``read_github``.
    """
    kinds = (*JSON_KINDS, "xml", "csv")
    split = partial(records_of, date_format=date_format)
    return read_tracker("jira", parse_issue, COLUMNS, FURTHER_KEYS, path, name, "fields", kinds, split, **options)


def records_of(page: ExportPage, date_format: str | None = None) -> Iterator[ExportRecord]:
    """The issues of a JSON, XML or CSV page."""
    if kind_of(page.path) == "csv":
        return read_rows(page, date_format)
    if date_format is not None:
        raise ValueError(f"{page.path}: dataset.date_format= is for CSV files: leave it out")
    return read_items(page) if page.text.lstrip("\ufeff \t\r\n").startswith("<") else read_records(page)


def parse_issue(record: Record) -> Issue:
    """Parses one issue."""
    key = text(record, "key")
    fields = part(record, "fields")
    if not KEY.fullmatch(key):
        raise ValueError(f"the issue key must be like ABC-12, not {key!r}" if key else "the issue has no 'key'")
    title = needed_text(fields, "summary", "add it to the fields of the search")
    values = {field: names(fields, COLUMNS[field]) for field in NAMED}
    values["resolution"] = values["resolution"][:1]
    states = [state for state in values["status"] if state != "Merged"]  # which is said of code
    closed = any(map(says_duplicate, (*states, *values["resolution"])))
    comments = parts(part(fields, "comment"), "comments")
    is_bot = [text(part(comment, "author"), "accountType") == "app" for comment in comments]
    user_comments = [Comment(rich(comment, "body"), bot) for comment, bot in zip(comments, is_bot, strict=True)]
    links = list(issue_links(fields))
    links += comment_links(user_comments, REFERENCES, "", closed and not links, "comment")
    files, odd = attachments(fields, key)
    histories = parts(part(record, "changelog"), "histories")
    unseen = cut_off(part(fields, "comment"), len(comments)) or cut_off(part(record, "changelog"), len(histories))
    values |= {
        "title": (title,),
        "description": (rich(fields, "description"),),
        "os": (rich(fields, "environment"),),
        "attachments": files,
        "url": (page_url(record),),
    }
    remarks = [CUT_OFF] * unseen + [ODD_NAMES] * odd
    history = None if record.get("changelog") is None else histories
    return make_issue(fields, DATES, key, values, links, closed, history, changes_of, remarks=remarks)


def page_url(record: Record) -> str:
    """The address of the issue's page: ``link`` in XML, or else derived from the record's own address, ``self``."""
    if text(record, "link"):
        return text(record, "link")
    host, is_api, _ = text(record, "self").partition("/rest/api/")
    return f"{host}/browse/{text(record, 'key')}" if is_api and not host.startswith(GATEWAY) else ""


def rich(record: Record, key: str) -> str:
    """The text under ``key``, also if it is an Atlassian document."""
    value: Any = record.get(key)
    return document_text(value) if isinstance(value, Mapping) else text(record, key)


def issue_links(fields: Record) -> Iterator[Link]:
    """Yields the issue links whose type names duplicates; clones are not duplicates."""
    for link in parts(fields, "issuelinks"):
        kind = part(link, "type")
        phrases = " ".join(text(kind, key) for key in ("name", "inward", "outward"))
        if "duplicat" in phrases.lower():
            for end in ("outwardIssue", "inwardIssue"):
                key = text(part(link, end), "key")
                if key:
                    yield Link(key, "issue link")


def attachments(fields: Record, key: str) -> tuple[tuple[str, ...], bool]:
    """The attached images as ``KEY/name``, and whether one was dropped because its name holds the separator ``;``."""
    names = [text(file, "filename") for file in parts(fields, "attachment")]
    images = [name for name in names if IMAGE.search(name)]
    return tuple(f"{key}/{name}" for name in images if ";" not in name), any(";" in name for name in images)


def cut_off(listing: Record, num_exported: int) -> bool:
    """Whether a list has more entries than the export holds."""
    total = listing.get("total")
    return isinstance(total, int) and total > num_exported


def changes_of(histories: Iterable[Record]) -> Iterator[FieldChange]:
    """Yields the changes of fields of the corpus."""
    for entry in histories:
        when = moment(entry, "created")
        for item in parts(entry, "items"):
            name = text(item, "field").lower()
            before = text(item, "fromString")
            after = text(item, "toString")
            if name in HISTORY:
                yield FieldChange(when, HISTORY[name], before, after)
            elif name in MULTIVALUED:
                yield FieldChange(when, name, before, after, whole=False)
            elif name == "labels":  # labels contain no blanks
                yield from list_changes(when, "labels", before.split(), after.split())
