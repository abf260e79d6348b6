"""Read Bugzilla bugs: pages of ``/rest/bug``, with ``comments`` and ``history`` under each bug if they were fetched."""

import re
from collections.abc import Iterator

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.comments import Comment, References, comment_links
from gedbd.corpora.readers.issue import Change, Issue, Link
from gedbd.corpora.readers.json_values import Record, dates_outside, moment, names, needed_text, number_of, parts, text
from gedbd.corpora.readers.tracker_export import ELSEWHERE, NAMED_NOWHERE, read_tracker
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
}
# Names of older versions stand beside those of the REST interface.
HISTORY = {key: field for field, key in COLUMNS.items() if field not in {"id", "description", "created_at"}} | {
    "short_desc": "title",
    "bug_status": "status",
}
FIELD_KEYS = ("product", "component", "version", "os", "priority", "status", "resolution")
# An address cannot be told to be this tracker's: the answers of its interface do not say where it is.
REFERENCES = References(
    r"(?:https?://(?P<place1>[^\s?()]{1,200})/show_bug\.cgi\?id=(?P<id1>\d+)(?:#c\d+)?|\bbugs?\s+#?(?P<id2>\d+)\b|#(?P<id3>\d+)\b)"
)
BUG_PAGE = f"/show_bug.cgi?id={PLACEHOLDER}"
MARKED = re.compile(r"\*\*\* (this bug|bug \d+) has been marked as a duplicate of", re.IGNORECASE)


def read_bugzilla(
    name: str | None,
    path: str,
    as_filed: bool = True,
    last_n: int | None = None,
    image_dir: str | None = None,
    base_url: str | None = None,
    url_template: str | None = None,
) -> Corpus:
    """Read the bugs of one Bugzilla; the description is a bug's first comment.

    Args:
        name: Short name of the corpus; null takes it from the path.
        path: A file of bugs, ``.json`` or one a line, plain or packed, or a folder of such pages.
        as_filed: Set summary and fields back to what they were when the bug was filed, where its history is there.
        last_n: If given, only so many reports are kept, those filed last.
        image_dir: Folder under which attached images lie, by default that of the export.
        base_url: Address of the Bugzilla, which gives reports the address of their page; exports do not tell it, but
            those of ``gedbd.fetch`` do.
        url_template: Address of a report that has none, with ``{issue_id}`` in place of its id; null takes
            ``base_url``, if there is one.

    Raises:
        ValueError: The export is not as it should be; names file and record.
    """
    if base_url is not None and not web_url(base_url):
        raise ValueError(
            f"dataset.base_url={base_url} must be an http or https address, such as https://bugzilla.mozilla.org"
        )
    if base_url is not None and url_template is None:
        url_template = base_url.rstrip("/") + BUG_PAGE
    return read_tracker(
        "bugzilla", parse_bug, COLUMNS, path, name, as_filed, last_n, image_dir, url_template=url_template
    )


def parse_bug(record: Record) -> Issue:
    """Read one bug."""
    number = number_of(record, "id")
    title = needed_text(record, "summary", "fetch whole bugs, or ask for it in include_fields")
    described, comments = comments_of(record)
    closed = text(record, "resolution").upper() == "DUPLICATE"
    formal = [Link(number_of(record, "dupe_of"), "dupe_of")] if record.get("dupe_of") else []
    told, elsewhere = comment_links(said(comments, closed, bool(formal)), REFERENCES, "", closed, "comment")
    links = (*formal, *told)
    remarks = [ELSEWHERE] * elsewhere + [NAMED_NOWHERE] * (closed and not links)
    values = {field: names(record, COLUMNS[field]) for field in FIELD_KEYS}
    values |= {"title": (title,), "description": (described,), "url": (text(record, "web_url"),)}
    changes = None if record.get("history") is None else tuple(changes_of(record))
    created, updated = moment(record, "creation_time"), moment(record, "last_change_time")
    outside = (
        *dates_outside("creation_time", record),
        *dates_outside("last_change_time", record),
        *dates_outside("when", *parts(record, "history")),
    )
    return Issue(number, "", created, updated, values, links, changes, tuple(remarks), outside)


def comments_of(record: Record) -> tuple[str, list[Comment]]:
    """The description and the comments behind it."""
    bodies = [text(comment, "text") for comment in parts(record, "comments")]
    if text(record, "description"):
        return text(record, "description"), [Comment(body) for body in bodies[1:]]
    return bodies[0] if bodies else "", [Comment(body) for body in bodies[1:]]


def said(comments: list[Comment], closed: bool, formal: bool) -> list[Comment]:
    """The comments that count: of Bugzilla's own marks the last one, if the bug is still closed and has no ``dupe_of``.

    Marks about another bug tell what that bug's own record tells, which may have been reopened since.
    """
    marks = [(match[1].lower(), comment) for comment in comments if (match := MARKED.search(comment.text))]
    own = [comment for subject, comment in marks if subject == "this bug"]
    valid = own[-1:] if closed and not formal else []
    return [comment for comment in comments if not MARKED.search(comment.text)] + valid


def changes_of(record: Record) -> Iterator[Change]:
    """The changes of fields; keywords and the like are passed over."""
    for entry in parts(record, "history"):
        when = moment(entry, "when")
        for change in parts(entry, "changes"):
            field = HISTORY.get(text(change, "field_name"))
            if field:
                yield Change(when, field, text(change, "removed"), text(change, "added"))
