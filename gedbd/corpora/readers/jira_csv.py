"""Jira's CSV export, in which a field with several values has several columns of the same name."""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from io import StringIO
from typing import Any

from gedbd.corpora.readers.export_pages import ExportPage, ExportRecord

# Key of REST to the names of the column, in versions of Jira from 5 to the cloud, lower-cased.
SINGLE = {
    "summary": ("summary",),
    "description": ("description",),
    "created": ("created",),
    "updated": ("updated",),
    "resolutiondate": ("resolved",),
    "project": ("project name", "project"),
    "environment": ("environment",),
    "priority": ("priority",),
    "status": ("status",),
    "resolution": ("resolution",),
}
SEVERAL = {
    "components": ("component/s", "components"),
    "versions": ("affects version/s", "affects versions"),
    "labels": ("labels",),
}
DATES = ("created", "updated", "resolutiondate")
KEY = ("issue key", "key")
LINK = re.compile(r"(?:inward|outward) issue link \((.+)\)")
# 01/Jan/24 9:05 AM and its relatives; dates in ISO 8601 stay as they are.
FORMATS = tuple(f"%d/%b/{year} {time}" for year in ("%y", "%Y") for time in ("%I:%M %p", "%H:%M", "%I:%M:%S %p"))
UNRESOLVED = "unresolved"  # written where there is no resolution


def read_rows(page: ExportPage) -> Iterator[ExportRecord]:
    """Yield the issues of a CSV page as REST gives them, without a history.

    Raises:
        ValueError: There is no column of keys, or a row does not fit the header.
    """
    first = page.text.lstrip("\ufeff").partition("\n")[0]
    separator = max(",;\t", key=first.count)
    csv.field_size_limit(2**31 - 1)
    try:
        header, *rows = filter(None, csv.reader(StringIO(page.text.lstrip("\ufeff"), newline=""), delimiter=separator))
    except (csv.Error, ValueError) as error:
        raise ValueError(f"{page.path}: not readable as CSV ({error}); export the issues again") from error
    columns = [column.strip().lower() for column in header]
    if not set(KEY) & set(columns):
        raise ValueError(f"{page.path}, row 1: no column 'Issue key': for another tracker's CSV set dataset=csv")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(columns):
            raise ValueError(f"{page.path}, row {number}: {len(row)} fields under a header of {len(columns)}")
        values: dict[str, list[str]] = {}
        for column, value in zip(columns, row, strict=True):
            if value.strip():
                values.setdefault(column, []).append(value)
        yield ExportRecord(f"{page.path}, row {number}", record_of(values))


def record_of(values: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """A record of REST from the values of each column."""
    fields: dict[str, Any] = {}
    for key, names in SINGLE.items():
        found = _all(values, names)
        fields[key] = found[0] if found else None
    for key in DATES:
        fields[key] = iso_date(fields[key] or "")
    if (fields["resolution"] or "").lower() == UNRESOLVED:
        fields["resolution"] = None
    fields |= {key: _all(values, names) for key, names in SEVERAL.items()}
    fields["attachment"] = [{"filename": _last(value)} for value in _all(values, ("attachment", "attachments"))]
    fields["comment"] = {"comments": [comment_of(value) for value in _all(values, ("comment", "comments"))]}
    fields["issuelinks"] = [
        {"type": {"name": kind[1]}, "outwardIssue": {"key": key.strip()}}
        for column, keys in values.items()
        if (kind := LINK.fullmatch(column))
        for key in keys
    ]
    return {"key": "".join(_all(values, KEY)[:1]).strip(), "fields": fields}


def iso_date(written: str) -> str:
    """A date of Jira's in ISO 8601, or what was written, for messages."""
    for form in FORMATS:
        with suppress(ValueError):
            return datetime.strptime(written.strip(), form).isoformat()
    return written


def comment_of(value: str) -> dict[str, Any]:
    """A comment: ``date;author;text``, or its text alone."""
    written, _, rest = value.partition(";")
    author, found, body = rest.partition(";")
    created = iso_date(written)
    if not found or created == written:
        return {"body": value}
    return {"body": body, "author": {"name": author}, "created": created}


def _all(values: Mapping[str, Sequence[str]], names: Sequence[str]) -> list[str]:
    return [value for name in names for value in values.get(name, ())]


def _last(value: str) -> str:
    """The file's name in ``date;author;name;address``, or the whole."""
    parts = value.split(";")
    return parts[2] if len(parts) > 2 else value
