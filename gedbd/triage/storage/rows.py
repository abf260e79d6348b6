"""Conversion of reports to rows of an index file and back."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.bug_report import DATES, FIELDS, Report
from gedbd.corpora.dates import MAX_YEAR, MIN_YEAR
from gedbd.retrieval.reports.report_features import days_of

CURE = "restore it from a copy, or delete it and build it again with gedbd index"
# Columns of terms, in the order of ``TERM_KINDS``; "title" is a field of the report.
TERM_COLUMNS = ("text", "heading", "identifiers", "errors")


class StoredReport(NamedTuple):
    """A report and its features, as they are written.

    Attributes:
        report: The report.
        vector: ``(D,)`` float32.
        terms: Its terms of each kind of ``TERM_COLUMNS``, each ``(L,)`` int32.
    """

    report: Report
    vector: np.ndarray
    terms: tuple[np.ndarray, ...]


class Version(NamedTuple):
    """What tells whether a stored report is up to date: its content hash, and the fields that this leaves out.

    Attributes:
        content: See ``Report.content_hash``.
        url: Its address.
        resolved_at: Date of resolution in ISO 8601, if it has one.
    """

    content: str
    url: str
    resolved_at: str | None

    def has_rest_of(self, report: Report) -> bool:
        """Whether the fields that the content hash leaves out are those of a report."""
        return (self.url, self.resolved_at) == (report.url, written_date(report.resolved_at))


class FeatureRow(NamedTuple):
    """The features of one stored report, as they are read. The fields are columns of the file.

    Attributes:
        issue_id: Id of the report.
        created_at: Date in ISO 8601, if it has one.
        resolved_at: Date of resolution, likewise.
        product: Product as the tracker gives it; likewise component, version and priority.
        vector: ``(D,)`` float32, as bytes.
        text: Terms of title and description, ``(L,)`` int32, as bytes.
        heading: Terms of the title, likewise.
        identifiers: Identifiers, likewise.
        errors: Lines about errors, likewise.
    """

    issue_id: str
    created_at: str | None
    resolved_at: str | None
    product: str
    component: str
    version: str
    priority: str
    vector: bytes
    text: bytes
    heading: bytes
    identifiers: bytes
    errors: bytes


def report_values(report: Report) -> list[object]:
    """The fields of a report in order, and its content hash, as they are written."""
    fields = {name: getattr(report, name) for name in FIELDS}
    fields |= {name: written_date(fields[name]) for name in DATES}
    return [*fields.values(), report.content_hash]


def report_from_values(values: tuple[Any, ...]) -> Report:
    """A report from its fields in order."""
    fields = dict(zip(FIELDS, values, strict=True))
    fields |= {name: usable_date(fields[name]) for name in DATES}
    return Report(**fields)


def written_date(moment: datetime | None) -> str | None:
    """A date as it is stored."""
    return moment.isoformat() if moment else None


def usable_days(dates: Sequence[str | None]) -> np.ndarray:
    """Days since 1970 of stored dates, ``(B,)``; NaN for dates that ``usable_date`` rejects."""
    texts = pd.Series(list(dates), dtype=object)
    moments = pd.to_datetime(texts, utc=True, format="ISO8601", errors="coerce")
    return days_of(moments.where(moments.dt.year.between(MIN_YEAR, MAX_YEAR)))


def usable_date(date: str | None) -> datetime | None:
    """A stored date; None if there is none, it is damaged, or its year is before 1970 or after 2200."""
    if not date:
        return None
    try:
        moment: datetime = pd.Timestamp(date).to_pydatetime()
        year = moment.astimezone(UTC).year
    except (ValueError, OverflowError):
        return None
    return moment if MIN_YEAR <= year <= MAX_YEAR else None


def check_features(rows: Sequence[FeatureRow], dim: int, terms: int, path: Path) -> None:
    """Checks that the features of all reports are valid.

    Args:
        rows: The features of all reports.
        dim: Size D of the vectors.
        terms: Number of terms in the index.
        path: The file, for the error message.

    Raises:
        ValueError: If a vector has another length or a value that is not finite, or a term number is unknown.
    """
    itemsize = np.dtype(np.float32).itemsize  # that of int32 too
    kinds = (str, str | None, str | None, *[str] * 4, bytes, *[bytes] * len(TERM_COLUMNS))  # SQLite checks no types
    for row in rows:
        if not all(map(isinstance, row, kinds)):
            raise damaged(path, f"a value of report {str(row.issue_id)[:100]} has the wrong type")
        if len(row.vector) != dim * itemsize:
            size = len(row.vector) / itemsize
            raise damaged(path, f"the vector of report {row.issue_id} has {size:g} numbers, not {dim}")
        if any(len(getattr(row, column)) % itemsize for column in TERM_COLUMNS):
            raise damaged(path, f"the words of report {row.issue_id} are cut off")
    vectors = np.frombuffer(b"".join(row.vector for row in rows), dtype=np.float32).reshape(len(rows), dim)
    invalid = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(invalid):
        raise damaged(path, f"the vector of report {rows[invalid[0]].issue_id} has a value that is not a number")
    for part in TERM_COLUMNS:
        numbers = np.frombuffer(b"".join(getattr(row, part) for row in rows), dtype=np.int32)
        if numbers.max(initial=-1) >= terms or numbers.min(initial=0) < 0:
            raise damaged(path, f"a report has words that are not among its {terms:,} terms")


def damaged(path: Path | str, reason: str) -> ValueError:
    """The error for a damaged file, or index on a server."""
    return ValueError(f"{path} is damaged ({reason}): {CURE}")


def not_an_index(path: Path, reason: str) -> ValueError:
    """The error for a file of another kind."""
    return ValueError(f"{path} is not an index ({reason}): build one with gedbd index")
