"""Read the export of any tracker, as records of JSON or XML or as a table, given where each field is."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Unpack
from xml.etree.ElementTree import Element

import jmespath
import pandas as pd
from jmespath.parser import ParsedResult

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.comments import NUMBER, Comment, References, comment_links
from gedbd.corpora.readers.csv_export import TableOptions, build_from_table, read_csv
from gedbd.corpora.readers.csv_file import read_header
from gedbd.corpora.readers.duplicate_cells import NO_ID, make_links, says_duplicate
from gedbd.corpora.readers.export_pages import JSON_KINDS, ExportPage, ExportRecord, kind_of, read_pages, read_records
from gedbd.corpora.readers.fields_read import UnreadKeys
from gedbd.corpora.readers.formats import columns_in
from gedbd.corpora.readers.jira_xml import parse_safely, read_items
from gedbd.corpora.readers.record_values import SURROGATE, Record
from gedbd.corpora.readers.tracker_export import numbered_rows
from gedbd.corpora.urls import check_template
from gedbd.io.files import corpus_name

SINGLE = ("id", "title", "created_at", "updated_at", "resolved_at", "url", "repository", "group")
JOINED = {
    **dict.fromkeys(("product", "component", "version", "os", "priority", "status", "resolution"), ", "),
    **dict.fromkeys(("labels", "attachments", "duplicate"), ";"),
    "description": "\n",
}
COMMENTS = "comments"
RECORDS_ONLY = ("updated_at", "repository", COMMENTS)  # the fields that tables do not have
# Expressions of JMESPath whose first part alone reads the record.
FROM_FIRST = {"index_expression", "projection", "filter_projection", "value_projection", "flatten", "pipe"}
FIELDS = (*SINGLE, *JOINED, COMMENTS)
TEXT = "__text__"  # the key of an element's text, as Perceval writes it
NUMBER_SIGN = r"#(?P<id1>\d+)\b"
Expressions = Mapping[str, ParsedResult]  # field to where a record holds it


def read_record_export(
    name: str | None,
    path: str,
    fields: Mapping[str, str | None],
    columns: Mapping[str, Any] | None = None,
    reference: str | None = None,
    repositories: Sequence[str] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    **options: Unpack[TableOptions],
) -> Corpus:
    """Reads records of JSON, JSON lines or XML, or a table.

    Args:
        name: Short name of the corpus; ``None`` takes it from the path.
        path: A file, plain or packed, or a folder of pages of records.
        fields: Field to JMESPath expression: where a record holds it. The fields are those of ``FIELDS``.
        columns: Field to column of a table, or to several, see ``columns_in``; ``None`` takes the names in ``fields``.
        reference: Regular expression of other issues in comments, see ``References``; ``None`` for ``#12``.
        repositories: Keep only the records whose ``repository`` is one of these; ``None`` keeps all.
        separator: Of a table, see ``read_csv``.
        encoding: Likewise.
        options: See ``TableOptions``.

    Raises:
        ValueError: An expression is invalid or the export malformed. The message names file and record.
    """
    location = Path(path).expanduser()
    if location.is_file() and kind_of(location) not in (*JSON_KINDS, "xml"):
        header = read_header(location, separator, encoding)
        named = columns or {field: column for field, column in fields.items() if field not in RECORDS_ONLY}
        present = columns_in(named, header)
        if present.get("duplicate") not in header:
            present["duplicate"] = None  # a table may have no column of duplicates
        return read_csv(name, path, present, separator, encoding, mutual=True, **options)
    for option, value in {"separator": separator, "encoding": encoding}.items():
        if value is not None:
            raise ValueError(f"dataset.{option}= is for tables, and {location} holds records: leave it out")
    check_template(options.get("url_template"))
    pages, warnings = read_pages(location, (*JSON_KINDS, "xml"))
    expressions = compile_fields(fields)
    references = References(reference or NUMBER_SIGN, NUMBER)
    unread = UnreadKeys(*keys_read(expressions))
    rows: dict[str, Row] = {}
    num_read = 0
    for page in pages:
        for position, record in records_on(page):
            row = row_of(position, record, expressions)
            unread.add(record)
            num_read += 1
            number = f"{row.repository} {row.values['id']}"  # unique within a repository only
            before = rows.get(number)
            if before is None or row.updated_at >= before.updated_at:
                rows[number] = row
    if not rows:
        raise ValueError(f"{location}: no issue in the export; at least one is needed")
    chosen = [row for row in rows.values() if repositories is None or row.repository in repositories]
    if len(chosen) < len(rows):
        warnings += (f"issues of other repositories: {len(rows) - len(chosen):,}, dropped",)
    places = sorted({row.repository for row in chosen})
    if len(places) != 1:
        known = ", ".join(sorted({row.repository for row in rows.values()}))
        raise ValueError(f"{location}: set dataset.repositories= to one of {known}: ids are unique within one only")
    if num_read > len(rows):
        count = f"{num_read - len(rows):,}"
        warnings += (f"issues that occur on several pages: {count}, only the most recently updated record is used",)
    index = numbered_rows({number: row.position for number, row in enumerate(chosen, start=1)})
    fields_read = [field for field in expressions if field in chosen[0].values]
    table = pd.DataFrame([row.values for row in chosen], index=index, dtype=str)[fields_read]
    mentions = [comment_links(row.comments, references, "", row.is_unnamed, "comment") for row in chosen]
    mentioned = pd.Series([[link.named for link in links] for links in mentions], index=index, dtype=object)
    links = make_links(table["id"], mentioned.explode().dropna(), "comment")
    columns_read = dict(zip(fields_read, fields_read, strict=True))
    title = name or corpus_name(location)
    where = {field: expressions[field].expression for field in fields_read}
    return build_from_table(title, table, location, columns_read, warnings, True, links, where, unread, **options)


class Row(NamedTuple):
    """The fields of a record as text."""

    position: str  # file, and number of the record
    values: dict[str, str]  # field to its value, empty where the record has none
    updated_at: str
    repository: str
    comments: list[Comment]

    @property
    def is_unnamed(self) -> bool:
        """Whether the issue was closed as a duplicate of one that no field names."""
        has_no_id = self.values.get("duplicate", "") in NO_ID
        return has_no_id and any(says_duplicate(self.values.get(field, "")) for field in ("status", "resolution"))


def compile_fields(fields: Mapping[str, str | None]) -> Expressions:
    """Compiles the expressions of fields, ``None`` for a field that the records do not have; see ``FIELDS``.

    Raises:
        ValueError: ``id`` or ``title`` is missing, a field is unknown, or an expression invalid.
    """
    expressions = {}
    for field in ("id", "title"):
        if fields.get(field) is None:
            raise ValueError(f"dataset.fields.{field}= is required: where a record holds the {field}")
    for field, written in fields.items():
        if field not in FIELDS:
            raise ValueError(f"dataset.fields.{field} is unknown: choose from {', '.join(FIELDS)}")
        if written is None:
            continue
        try:
            expressions[field] = jmespath.compile(written)
        except jmespath.exceptions.JMESPathError as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(f"dataset.fields.{field}={written} is not a JMESPath expression: {reason}") from error
    return expressions


def keys_read(expressions: Expressions) -> tuple[set[str], str]:
    """The keys that are read, and the object inside which titles are, as in ``fields.title``; empty if none."""
    inside = next((path[0] for path in paths_of(expressions["title"].parsed) if path[1:]), "")
    paths = [path for expression in expressions.values() for path in paths_of(expression.parsed)]
    return {path[1] if path[0] == inside and path[1:] else path[0] for path in paths}, inside


def row_of(position: str, record: Record, expressions: Expressions) -> Row:
    """The fields of a record. Raises ValueError if it has no id or no title."""
    matches: dict[str, list[str]] = {}
    for field, expression in expressions.items():
        try:
            matches[field] = list(texts_of(expression.search(record)))
        except (jmespath.exceptions.JMESPathError, RecursionError) as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(f"{position}: dataset.fields.{field}={expression.expression}: {reason}") from error
        if field in ("id", "title") and not matches[field]:
            raise ValueError(f"{position}: the record has no {field}, read from {expression.expression!r}")
    values = {field: "".join(matches[field][:1]) for field in SINGLE if field in matches}
    # Some trackers name both ends of a link.
    matches["duplicate"] = [named for named in matches.get("duplicate", ()) if named != values["id"]]
    values |= {field: joiner.join(matches[field]) for field, joiner in JOINED.items() if field in matches}
    comments = [Comment(comment) for comment in matches.get(COMMENTS, ())]
    return Row(position, values, values.pop("updated_at", ""), values.pop("repository", ""), comments)


def paths_of(node: Mapping[str, Any]) -> set[tuple[str, ...]]:
    """The keys that an expression of JMESPath reads from a record, each with those below it."""
    if node["type"] == "field":
        return {(node["value"],)}
    parts = [paths_of(part) for part in node["children"] if isinstance(part, dict)]
    if node["type"] == "subexpression":
        return {(*first, *then) for first in parts[0] for then in parts[1] or {()}}
    return set().union(*parts[: 1 if node["type"] in FROM_FIRST else None])


def texts_of(value: Any) -> Iterator[str]:
    """The texts and numbers of a value, which may be a list of lists or an element of XML."""
    if isinstance(value, list):
        for item in value:
            yield from texts_of(item)
    elif isinstance(value, dict) and TEXT in value:
        yield value[TEXT]
    elif isinstance(value, str | int | float) and not isinstance(value, bool) and str(value).strip():
        yield SURROGATE.sub("\ufffd", str(value))


def records_on(page: ExportPage) -> Iterator[ExportRecord]:
    """The records of a page: those of JSON, the issues of Jira's XML, or the elements of any other XML."""
    if not page.text.lstrip("\ufeff \t\r\n").startswith("<"):
        yield from read_records(page)
        return
    root = parse_safely(page)
    if root.tag == "rss":
        yield from read_items(page)
        return
    for number, element in enumerate((child for child in root if len(child)), start=1):
        yield ExportRecord(f"{page.path}, record {number}", content_of(element))


def content_of(element: Element) -> dict[str, Any]:
    """An element with the lists of its children by their names, and its own text, as Perceval writes it."""
    content: dict[str, Any] = dict(element.attrib)
    for child in element:
        content.setdefault(child.tag, []).append(content_of(child))
    if element.text is not None and element.text.strip():
        content[TEXT] = element.text.strip()
    return content
