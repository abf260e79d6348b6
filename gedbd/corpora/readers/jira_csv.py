"""Jira's CSV export, in which a field with several values has several columns of the same name."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gedbd.corpora.dates import ISO_FORMAT, OutOfRangeError, check_format, find_format, parse_date
from gedbd.corpora.readers.csv_file import table_rows
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
MULTIVALUED = {
    "components": ("component/s", "components"),
    "versions": ("affects version/s", "affects versions"),
    "labels": ("labels",),
}
DATE_COLUMNS = ("created", "updated", "resolved")
OUT_OF_RANGE = "0001-01-01"  # replaces dates out of range, which are counted later
KEY = ("issue key", "key")
READ = {*KEY, "attachment", "attachments", "comment", "comments"}.union(*SINGLE.values(), *MULTIVALUED.values())
LINK = re.compile(r"(?:inward|outward) issue link \((.+)\)")
# 01/Jan/24 9:05 AM and similar formats.
TIMES = (" %I:%M %p", " %H:%M", " %I:%M:%S %p", "")
FORMATS = tuple(f"%d/%b/{year}{time}" for year in ("%y", "%Y") for time in TIMES)
EXPECTED = "27/Nov/24 9:15 AM or 2024-01-31T09:30:00Z; other formats: dataset.date_format=, such as '%d.%m.%Y %H:%M'"
UNRESOLVED = "unresolved"  # written where there is no resolution


def read_rows(page: ExportPage, date_format: str | None = None) -> Iterator[ExportRecord]:
    """Yields the issues of a CSV page as records of REST, without a history.

    Args:
        page: The page.
        date_format: Format of ``datetime.strptime`` for dates that are not in one of Jira's formats; ``None`` detects
            it.

    Raises:
        ValueError: There is no column of keys, a row does not fit the header, or a date cannot be read.
    """
    separator = max(",;\t|^", key=page.text.partition("\n")[0].count)
    header, numbered = table_rows(page.text.encode(), page.path, separator)
    columns = [column.lower() for column in header]
    if not set(KEY) & set(columns):
        raise ValueError(f"{page.path}, row 1: no column 'Issue key': for another tracker's CSV set dataset=csv")
    rows = list(numbered)
    dated = [position for position, column in enumerate(columns) if column in DATE_COLUMNS]
    try:
        formats = formats_of((row[position] for _, row in rows for position in dated), date_format)
    except ValueError as error:
        raise ValueError(f"{page.path}: {error}") from error
    for number, row in rows:
        values: dict[str, list[str]] = {}
        for column, value in zip(columns, row, strict=True):
            if value.strip():
                values.setdefault(column, []).append(value)
        row_position = f"{page.path}, row {number}"
        for column in values.keys() & DATE_COLUMNS:
            written = values[column][0]
            values[column] = [iso_date(written, formats)]
            if not values[column][0]:
                raise ValueError(f"{row_position}: {column!r}: unreadable date {written[:40]!r}; expected: {EXPECTED}")
        yield ExportRecord(row_position, record_of(values, formats))


def formats_of(dates: Iterable[str], date_format: str | None) -> tuple[str, ...]:
    """``date_format``, ISO 8601 and Jira's own formats; without ``date_format``, the detected format of other dates.

    Raises:
        ValueError: ``date_format`` is invalid, or it is ambiguous whether days or months come first.
    """
    if date_format is not None:
        check_format(date_format)
        return (date_format, ISO_FORMAT, *FORMATS)
    known = (ISO_FORMAT, *FORMATS)
    return (*known, find_format(date for date in dict.fromkeys(dates) if not iso_date(date, known)))


def record_of(values: Mapping[str, Sequence[str]], formats: Sequence[str]) -> dict[str, Any]:
    """A record of REST from the values of each column; the formats are those of the dates in comments."""
    # Other columns are kept under their names.
    fields: dict[str, Any] = {
        column: ", ".join(cells)
        for column, cells in values.items()
        if column not in READ and not LINK.fullmatch(column)
    }
    for key, names in SINGLE.items():
        cells = _all(values, names)
        fields[key] = cells[0] if cells else None
    if (fields["resolution"] or "").lower() == UNRESOLVED:
        fields["resolution"] = None
    fields |= {key: _all(values, names) for key, names in MULTIVALUED.items()}
    fields["attachment"] = [{"filename": _file_name(value)} for value in _all(values, ("attachment", "attachments"))]
    fields["comment"] = {"comments": [comment_of(cell, formats) for cell in _all(values, ("comment", "comments"))]}
    fields["issuelinks"] = [
        {"type": {"name": kind[1]}, "outwardIssue": {"key": key.strip()}}
        for column, keys in values.items()
        if (kind := LINK.fullmatch(column))
        for key in keys
    ]
    return {"key": "".join(_all(values, KEY)[:1]).strip(), "fields": fields}


def iso_date(written: str, formats: Sequence[str]) -> str:
    """A date in ISO 8601, as the first format that fits reads it; empty if none does."""
    for form in formats:
        try:
            return parse_date(written, form).isoformat()
        except OutOfRangeError:
            return OUT_OF_RANGE
        except ValueError:
            pass  # in another format
    return ""


def comment_of(value: str, formats: Sequence[str]) -> dict[str, Any]:
    """A comment: ``date;author;text``, or its text alone."""
    written, _, rest = value.partition(";")
    author, has_body, body = rest.partition(";")
    created = iso_date(written, formats)
    if not has_body or not created:
        return {"body": value}
    return {"body": body, "author": {"name": author}, "created": created}


def _all(values: Mapping[str, Sequence[str]], names: Sequence[str]) -> list[str]:
    return [value for name in names for value in values.get(name, ())]


def _file_name(value: str) -> str:
    """The file's name in ``date;author;name;address``, or the whole value."""
    parts = value.split(";")
    return parts[2] if len(parts) > 2 else value
