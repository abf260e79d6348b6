"""A report as a row of an index file."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.dates import MAX_YEAR, MIN_YEAR
from gedbd.corpora.documents import FIELDS
from gedbd.retrieval.scorers.fields import days_of
from gedbd.triage.report import Report


class Stored(NamedTuple):
    """A report with its numbers, as it is written.

    Attributes:
        report: The report.
        vector: ``(D,)`` float32.
        text: Terms of title and description, ``(L,)`` int32.
        heading: Terms of the title.
    """

    report: Report
    vector: np.ndarray
    text: np.ndarray
    heading: np.ndarray


class Row(NamedTuple):
    """What is compared of one stored report.

    Attributes:
        issue_id: Its id.
        created_at: Its date in ISO 8601, if it has one.
        product: As the tracker gives it.
        component: Likewise.
        vector: ``(D,)`` float32.
        text: Terms of title and description, ``(L,)`` int32.
        heading: Terms of the title.
    """

    issue_id: str
    created_at: str | None
    product: str
    component: str
    vector: bytes
    text: bytes
    heading: bytes


def stored_values(one: Stored) -> list[object]:
    """The fields of a report in order, dates as text; its content hash; and its numbers."""
    filed = one.report.created_at
    fields = {name: getattr(one.report, name) for name in FIELDS}
    fields["created_at"] = filed.isoformat() if filed else None
    return [*fields.values(), one.report.content_hash, *(part.tobytes() for part in one[1:])]


def report_of(row: tuple[Any, ...]) -> Report:
    """A report, from its fields in order."""
    values = dict(zip(FIELDS, row, strict=True))
    return Report(created_at=usable_date(values.pop("created_at")), **values)


def usable_days(dates: Sequence[str | None]) -> np.ndarray:
    """Days since 1970 of stored dates, ``(B,)``; not a number for those that ``usable_date`` leaves out."""
    texts = pd.Series(list(dates), dtype=object)
    moments = pd.to_datetime(texts, utc=True, format="ISO8601", errors="coerce")
    return days_of(moments.where(moments.dt.year.between(MIN_YEAR, MAX_YEAR)))


def usable_date(date: str | None) -> datetime | None:
    """A stored date; None if there is none, or it is damaged, or of a year before 1970 or after 2200."""
    if not date:
        return None
    try:
        moment: datetime = pd.Timestamp(date).to_pydatetime()
        year = moment.astimezone(UTC).year
    except (ValueError, OverflowError):
        return None
    return moment if MIN_YEAR <= year <= MAX_YEAR else None
