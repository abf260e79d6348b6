"""Parse Bugzilla bugs: pages of ``/rest/bug``, with optional ``comments`` and ``history`` in each bug."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Unpack

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.comments import NUMBER, QUOTED, Comment, References, comment_links
from gedbd.corpora.readers.duplicate_cells import says_duplicate
from gedbd.corpora.readers.export_pages import ExportRecord
from gedbd.corpora.readers.formats import COMMENTED
from gedbd.corpora.readers.issue import DateKeys, FieldChange, Issue, Link, list_changes, make_issue
from gedbd.corpora.readers.record_values import Record, moment, names, needed_text, number_of, parts, text
from gedbd.corpora.readers.tracker_export import ExportOptions, read_tracker
from gedbd.corpora.urls import PLACEHOLDER, web_url

COLUMNS = {
    "id": "id",
    "title": "summary",
    "description": "comments",
    "created_at": "creation_time",
    "product": "product",
    "component": "component",
    "version": "version",
    "os": "op_sys",
    "priority": "priority",
    "status": "status",
    "resolution": "resolution",
    "labels": "keywords",
    "url": "web_url",
    "resolved_at": "cf_last_resolved",
}
FURTHER_KEYS = "description dupe_of history last_change_time"
DATES = DateKeys("creation_time", "last_change_time", "cf_last_resolved", "when")
NAMED = ("product", "component", "version", "os", "priority", "status", "resolution", "labels")
# Older versions use other names than the REST interface.
HISTORY = {COLUMNS[field]: field for field in ("title", *NAMED)} | {"short_desc": "title", "bug_status": "status"}
# It is unknown whether an address belongs to this tracker: responses do not hold the tracker's own address.
# An address, "bug 12", "bug no. 12" or "#12", but not "comment #12".
REFERENCES = References(
    r"(?:https?://(?P<place1>[^\s?()]{1,200})/show_bug\.cgi\?id=(?P<id1>\d+)(?:#c\d+)?"
    r"|\bbugs?(?:\s+(?:(?:id|no\.|number)\s*)?#?|#)(?P<id2>\d+)\b"
    r"|(?<![/&])(?<!comment\s)(?<!attachment\s)(?<!patch\s)#(?P<id3>\d+)\b)",
    NUMBER,
)
BUG_PAGE = f"/show_bug.cgi?id={PLACEHOLDER}"
KEYWORD = re.compile(r"[^,\s]+")  # of "crash, regression"
# Of all versions: "*** This bug has been marked as a duplicate of bug 1 ***", "** This issue has been marked\n as ...".
MARKED = re.compile(
    r"\*{2,}\s*(this|bug \d+|issue \d+|\d+)\s+(?:(?:bug|issue|report)\s+)?has\s+been\s+marked"
    r"\s+as\s+an?\s+duplicate\s+of\b[^*]{0,100}",
    re.IGNORECASE,
)


def read_bugzilla(name: str | None, path: str, base_url: str | None = None, **options: Unpack[ExportOptions]) -> Corpus:
    """Reads the bugs of one Bugzilla; the description of a bug is its first comment.

    ``base_url`` is the address of the Bugzilla, from which the addresses of reports follow. Exports do not hold it,
    except those of ``gedbd fetch``. ``url_template`` takes precedence. For the other arguments and errors see
    ``read_github``.
    """
    if base_url is not None and not web_url(base_url):
        raise ValueError(f"base_url={base_url} must be an http or https address, such as https://bugzilla.mozilla.org")
    if base_url is not None and options.get("url_template") is None:
        options["url_template"] = base_url.rstrip("/") + BUG_PAGE
    return read_tracker("bugzilla", parse_issue, COLUMNS, FURTHER_KEYS, path, name, join=join_comments, **options)


def join_comments(records: Iterable[ExportRecord]) -> Iterator[ExportRecord]:
    """Adds the comments of separate records, such as those of /rest/bug/NUMBER/comment, to their bugs."""
    bugs: list[ExportRecord] = []
    comments: dict[str, Any] = {}
    for position, record in records:
        if set(record) == COMMENTED:
            comments[number_of(record, "id")] = record["comments"]
        else:
            bugs.append(ExportRecord(position, record))
    if comments and not bugs:
        raise ValueError(f"{position}: only comments of bugs: set dataset.path= to the folder that holds the bugs too")
    for position, record in bugs:
        number = str(record.get("id"))
        yield ExportRecord(position, dict(record) | {"comments": comments[number]} if number in comments else record)


def parse_issue(record: Record) -> Issue:
    """Parses one bug."""
    number = number_of(record, "id")
    title = needed_text(record, "summary", "fetch whole bugs, or add it to include_fields")
    # The first comment is the description, unless the bug has a field for it.
    bodies = [text(comment, "text") for comment in parts(record, "comments")]
    described = text(record, "description") or "".join(bodies[:1])
    comments = [Comment(body) for body in bodies[1:]]
    closed = any(says_duplicate(text(record, key)) for key in ("status", "resolution"))
    formal = [Link(number_of(record, "dupe_of"), "dupe_of")] if record.get("dupe_of") else []
    unnamed = closed and not formal
    links = [*formal, *comment_links(counted_comments(comments, unnamed), REFERENCES, "", unnamed, "comment")]
    values = {field: names(record, COLUMNS[field]) for field in NAMED}
    values |= {"title": (title,), "description": (described,), "url": (text(record, "web_url"),)}
    history = None if record.get("history") is None else parts(record, "history")
    issue = make_issue(record, DATES, number, values, links, closed, history, changes_of)
    # A reopened bug keeps the date of its former resolution.
    is_open = "resolution" in record and not text(record, "resolution")
    return issue._replace(resolved_at=None) if is_open else issue


def counted_comments(comments: list[Comment], unnamed: bool) -> list[Comment]:
    """Drops Bugzilla's automatic duplicate comments, except the last one on a duplicate without ``dupe_of``.

    Those about another bug are dropped because that bug's own record says the same and may have been reopened since.
    """
    marks = [MARKED.search(QUOTED.sub("", comment.text)) for comment in comments]
    user_comments = [comment for comment, mark in zip(comments, marks, strict=True) if mark is None]
    from_bugzilla = [Comment(mark[0].strip()) for mark in marks if mark and mark[1].lower() == "this"]
    return user_comments + from_bugzilla[-1:] if unnamed else user_comments


def changes_of(history: Iterable[Record]) -> Iterator[FieldChange]:
    """Yields the changes of fields of the corpus."""
    for entry in history:
        when = moment(entry, "when")
        for change in parts(entry, "changes"):
            name = text(change, "field_name")
            field = HISTORY.get(name)
            if name == "keywords":
                removed = KEYWORD.findall(text(change, "removed"))
                yield from list_changes(when, "labels", removed, KEYWORD.findall(text(change, "added")))
            elif field:
                yield FieldChange(when, field, text(change, "removed"), text(change, "added"))
