"""What a store of reports offers, a file or a server, and how both write reports."""

import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import pandas as pd

from gedbd.corpora.bug_report import DATES, FIELDS, Filters, Report
from gedbd.corpora.dates import MAX_YEAR, MIN_YEAR
from gedbd.retrieval.inverted_index import words
from gedbd.retrieval.reports.report_features import days_of

ReportOrFilters = TypeVar("ReportOrFilters", Report, Filters)
CURE = "restore it from a copy, or delete it and build it again with gedbd index"
# Columns of terms, in the order of ``TERM_KINDS``; "title" is a field of the report.
TERM_COLUMNS = ("text", "heading", "identifiers", "errors")


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


class ReportStore(Protocol):
    """The reports of one index, its links, and the model that encoded the reports.

    Every method raises ``StoreUnavailable`` if the store cannot be used.
    """

    @property
    def path(self) -> Path | str:
        """What messages call it."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written yet."""

    def snapshot(self) -> AbstractContextManager[Any]:
        """Several statements that see one state."""

    def transaction(self) -> AbstractContextManager[Any]:
        """Several statements, of which all take effect or none."""

    def about(self) -> dict[str, str]:
        """Name of the tracker, settings, model and other facts about the index, by name."""

    def fact(self, name: str) -> str:
        """One of these facts; empty if the index does not have it."""

    def weights(self) -> bytes:
        """The encoder's weights, as ``torch.save`` wrote them; empty for an untrained encoder."""

    def contents(self) -> dict[str, Version]:
        """The version of each report by id, in order."""

    def reports(self, ids: Sequence[str]) -> dict[str, Report]:
        """Stored reports by id; unknown ids are left out."""

    def urls(self, ids: Sequence[str]) -> dict[str, str]:
        """Addresses of the reports that have one, by id."""

    def components_like(self, name: str, limit: int) -> list[str]:
        """Components of stored reports: those whose name contains a text, then the others, most common first."""

    def storable(self, one: ReportOrFilters) -> ReportOrFilters:
        """A report, or filters of reports, with texts that the store can hold."""

    def write_about(self, values: dict[str, str]) -> None:
        """Adds or replaces facts about the index."""

    def write_model(self, values: dict[str, str], weights: bytes) -> None:
        """Replaces the model, and deletes everything that the former model encoded. Links stay."""

    def write_reports(self, reports: Sequence[Report], vectors: Sequence[np.ndarray]) -> None:
        """Adds reports with their vectors, each ``(D,)``, at the end; one with a stored id replaces it in its place."""

    def write_not_encoded(self, reports: Iterable[Report]) -> None:
        """Replaces what is not encoded of stored reports: their addresses and dates of resolution."""

    def delete(self, ids: Iterable[str]) -> None:
        """Deletes reports. Their links stay: two duplicates of a deleted report are still duplicates of each other."""

    def forget(self, ids: Sequence[str]) -> list[str]:
        """Erases all that came from some reports, stored or not, in a transaction of its own.

        Their links go too; instead, the reports that one was linked to are linked to the first of them, and stay
        duplicates of each other.

        Returns:
            The ids of reports that were not stored.
        """

    def take_links(self, issue_id: str) -> list[tuple[str, str, str]]:
        """Deletes the links of a report, and returns them."""

    def write_links(self, links: Iterable[tuple[str, str, str]]) -> None:
        """Adds links, each of a report, its duplicate and a source."""

    def clear_links(self, source: str) -> None:
        """Deletes all links whose source begins with ``source``."""

    def delete_links(self, report: str, duplicate: str, source: str | None) -> bool:
        """Deletes the links between two reports in both directions, of one source or all; returns if there were any."""


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


def damaged(path: Path | str, reason: str) -> ValueError:
    """The error for a damaged file, or index on a server."""
    return ValueError(f"{path} is damaged ({reason}): {CURE}")


def forget_in(store: ReportStore, ids: Sequence[str]) -> list[str]:
    """Deletes reports and their links, in the transaction of ``ReportStore.forget``; returns what that returns."""
    stored = store.reports(ids)
    for report in stored.values():
        written = store.about().get("calibration")
        if written is not None:
            store.write_about({"calibration": _calibration_without(report, written)})
    store.delete(ids)
    for issue_id in ids:
        source_of: dict[str, str] = {}
        for report_id, duplicate, source in sorted(store.take_links(issue_id)):
            source_of.setdefault(duplicate if report_id == issue_id else report_id, source)
        first, *rest = sorted(source_of) or [""]
        store.write_links((duplicate_id, first, source_of[duplicate_id]) for duplicate_id in rest)
    return [issue_id for issue_id in ids if issue_id not in stored]


def _calibration_without(report: Report, written: str) -> str:
    """The texts that an 8-bit backend was fitted to, as JSON, without those that come from a report."""
    texts = json.loads(written)
    title, report_words, *words_of_texts = map(
        set, words([report.title, f"{report.title} {report.description}", *texts])
    )
    # A template cleans and cuts the text of a report, and may add fields to it.
    is_of_report = [
        (bool(title) and title <= text_words) or 2 * len(report_words & text_words) > len(text_words)
        for text_words in words_of_texts
    ]
    return json.dumps([text for text, is_known in zip(texts, is_of_report, strict=True) if not is_known])
