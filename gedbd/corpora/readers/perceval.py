"""Read the output of Perceval: one JSON document per issue, for most trackers.

Perceval (GrimoireLab, GPL) is a separate program, which gedbd neither contains nor imports.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Unpack

import jmespath

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.dates import OutOfRangeError, check_range, parse_date
from gedbd.corpora.readers import bugzilla, github, gitlab, jira
from gedbd.corpora.readers.comments import Comment, References, comment_links
from gedbd.corpora.readers.export_pages import Record, part, text
from gedbd.corpora.readers.issue import DUPLICATE, Issue, Link
from gedbd.corpora.readers.tracker_export import ExportOptions, read_tracker

COLUMNS = {"id": "id", "title": "title", "description": "description", "created_at": "created_at"}
TEXTS = ("title", "description", "product", "component", "version", "os", "priority", "status", "resolution", "labels")
DATES = ("created_at", "updated_at", "resolved_at")
OTHERS = ("id", "url", "duplicates", "comments")
NUMBER_SIGN = r"#(?P<id1>\d+)\b"
COMMENTS = "comments_data"  # where Perceval puts the comments of GitHub and Jira


def read_perceval(
    name: str | None, path: str, backends: Mapping[str, Mapping[str, str]], **options: Unpack[ExportOptions]
) -> Corpus:
    """Reads the documents of one or more backends.

    Args:
        name: Short name of the corpus; ``None`` takes it from the path.
        path: A file of documents, plain or packed, or a folder of such files.
        backends: Name of a backend, in lower case, to where its documents hold each field: JMESPath expressions, see
            ``conf/dataset/perceval.yaml``.
        options: See ``ExportOptions``.

    Raises:
        ValueError: A document is malformed, or of an unknown backend. The message names file and record.
    """
    readers: dict[str, Callable[[Record, str], Issue | str]] = {
        "bugzillarest": lambda data, _: bugzilla.parse_bug(data),
        "github": lambda data, _: github.parse_issue(dict(data) | {"comments": data.get(COMMENTS)}, prefixes=()),
        "gitlab": lambda data, _: gitlab.parse_issue(dict(data) | {"notes": data.get("notes_data")}, prefixes=()),
        "jira": lambda data, _: jira.parse_issue(_with_comments(data)),
    }
    readers |= {backend: FieldMap(backend, fields) for backend, fields in backends.items()}

    def parse(record: Record) -> Issue | str:
        backend = text(record, "backend_name").lower()
        if backend not in readers:
            known = ", ".join(sorted(readers))
            raise ValueError(f"Perceval's backend {backend!r} is not supported: choose from {known}")
        return readers[backend](part(record, "data"), text(record, "origin"))

    return read_tracker("perceval", parse, COLUMNS, path, name, **options)


class FieldMap:
    """Converts the documents of a backend to issues.

    Args:
        backend: Its name, for messages.
        fields: Field to JMESPath expression: those of ``TEXTS`` and ``DATES``, ``id``, ``url``, ``duplicates`` (ids or
            addresses of others) and ``comments`` (texts); and ``page``, the address of an issue with ``{origin}`` and
            ``{id}``, and ``reference``, a regular expression for other issues in comments, see ``References``.

    Raises:
        ValueError: ``id`` or ``title`` is missing, a field is unknown, or an expression invalid.
    """

    def __init__(self, backend: str, fields: Mapping[str, str]) -> None:
        self.page = fields.get("page", "")
        self.references = References(fields.get("reference", NUMBER_SIGN))
        self.expressions = {}
        missing = [field for field in ("id", "title") if field not in fields]
        if missing:
            raise ValueError(
                f"dataset.backends.{backend}.{missing[0]}= is required: where its documents hold the {missing[0]}"
            )
        for field, written in fields.items():
            if field in {"page", "reference"}:
                continue
            option = f"dataset.backends.{backend}.{field}"
            if field not in (*TEXTS, *DATES, *OTHERS):
                raise ValueError(f"{option} is unknown: choose from {', '.join((*TEXTS, *DATES, *OTHERS))}")
            try:
                self.expressions[field] = jmespath.compile(written)
            except jmespath.exceptions.JMESPathError as error:
                reason = str(error).partition("\n")[0]
                raise ValueError(f"{option}={written} is not a JMESPath expression: {reason}") from error

    def __call__(self, data: Record, origin: str) -> Issue:
        """The issue of a document; its repository is the address that Perceval fetched it from."""
        matches = {field: list(_flat(expression.search(data))) for field, expression in self.expressions.items()}
        number = "".join(matches["id"][:1])
        if not number or not matches["title"]:
            raise ValueError(f"the document has no {'title' if number else 'id'}")
        values = {field: tuple(matches.get(field, ())) for field in TEXTS}
        values["description"] = ("\n".join(values["description"]),)
        values["url"] = tuple(matches.get("url", ())[:1]) or (
            self.page.replace("{origin}", origin).replace("{id}", number),
        )
        closed = any(DUPLICATE in value.lower() for value in (*values["status"], *values["resolution"]))
        here = origin.partition("://")[2].rstrip("/")
        comments = [Comment(value) for value in matches.get("comments", ())]
        links = [
            Link(value.rstrip("/").rpartition("/")[2], "duplicate link") for value in matches.get("duplicates", ())
        ]
        links += comment_links(comments, self.references, here, closed, "comment")
        dates = {field: _moment(field, matches.get(field, ())) for field in DATES}
        return Issue(
            number,
            here,
            dates["created_at"],
            dates["updated_at"],
            values,
            tuple(link for link in links if link.named != number),
            is_duplicate=closed,
            resolved_at=dates["resolved_at"],
        )


def _with_comments(issue: Record) -> Record:
    """Moves the comments of a Jira document to where REST has them."""
    fields = dict(part(issue, "fields"))
    if issue.get(COMMENTS) is not None:
        fields["comment"] = {"comments": issue[COMMENTS]}
    return dict(issue) | {"fields": fields}


def _flat(value: Any) -> Iterator[str]:
    """The texts and numbers of a value, which may be a list of lists."""
    if isinstance(value, list):
        for item in value:
            yield from _flat(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool) and str(value).strip():
        yield str(value)


def _moment(field: str, value: Any) -> datetime | None:
    """A date, written as such or in seconds since 1970, UTC; ``None`` if it is missing or out of range."""
    written = "".join(value[:1]).strip()
    if not written:
        return None
    try:
        if written.replace(".", "", 1).isdecimal() and len(written) > len("20240131"):
            return check_range(datetime.fromtimestamp(float(written), UTC))
        return parse_date(written)
    except (OutOfRangeError, OverflowError, OSError):
        return None
    except ValueError as error:
        raise ValueError(f"{field}: unreadable date {written[:40]!r}") from error
