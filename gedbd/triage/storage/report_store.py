"""The tables of reports, links and facts of an index that a file and a server have in common."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from gedbd.corpora.bug_report import DATES, FIELDS, Filters, Report
from gedbd.corpora.dates import MAX_YEAR, MIN_YEAR
from gedbd.io.sqlite_file import MARKS, StoreUnavailable
from gedbd.retrieval.inverted_index import words
from gedbd.retrieval.report_ranking.feature_store import days_of

Link = tuple[str, str, str]  # a report, its duplicate, and the source
ReportOrFilters = TypeVar("ReportOrFilters", Report, Filters)
MAX_REPORTS = 1_000  # that are read at once with their texts
CHUNK_BYTES = 1 << 26  # of the weights: databases limit the size of a value
CURE = "restore it from a copy, or delete it and build it again with gedbd index; delete its -wal and -shm files first"
# Columns of terms, in the order of ``TERM_KINDS``; "title" is a field of the report.
TERM_COLUMNS = ("text", "heading", "identifiers", "errors")


class Version(NamedTuple):
    """The version of a stored report: its content hash, and the fields that the hash leaves out."""

    content: str
    url: str
    resolved_at: str | None

    def has_rest_of(self, report: Report) -> bool:
        """Whether the fields that the content hash leaves out equal those of a report."""
        return (self.url, self.resolved_at) == (report.url, written_date(report.resolved_at))


class ReportStore(ABC):
    """The reports of one index, its links, and the model that encoded the reports, in tables of SQLite or PostgreSQL.

    The statements of this class are valid in both; ``?`` marks a value. Every method raises ``StoreUnavailable`` if the
    store cannot be used.
    """

    path: Path | str  # name of the store in messages
    key_column: ClassVar[str]  # by which the reports are ordered
    report_columns: ClassVar[str] = ", ".join(FIELDS)  # the fields of a report

    @abstractmethod
    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement."""

    @abstractmethod
    def select(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The rows of a query with ``MARKS`` in place of a list of values."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether nothing was written yet."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Runs several statements that see one state."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Runs several statements, of which all take effect or none."""

    @abstractmethod
    def clear_model(self) -> None:
        """Deletes the model and everything that it encoded. Links stay."""

    @abstractmethod
    def write_reports(self, reports: Sequence[Report], vectors: Sequence[np.ndarray]) -> None:
        """Appends reports with their vectors, each ``(D,)``; one with a stored id replaces that report in place."""

    @abstractmethod
    def write_not_encoded(self, reports: Iterable[Report]) -> None:
        """Updates the fields of stored reports that are not encoded: addresses and dates of resolution."""

    @abstractmethod
    def write_links(self, links: Iterable[Link]) -> None:
        """Adds links, each of a report, its duplicate and a source."""

    @abstractmethod
    def delete(self, ids: Iterable[str]) -> None:
        """Deletes reports. Their links stay: two duplicates of a deleted report are still duplicates of each other."""

    @abstractmethod
    def forget(self, ids: Sequence[str]) -> list[str]:
        """Erases everything derived from reports, stored or not, in a separate transaction; see ``erase``."""

    def storable(self, item: ReportOrFilters) -> ReportOrFilters:
        """A report, or filters of reports, with texts that the store can hold."""
        return item

    def touch(self, ids: Iterable[str]) -> None:  # noqa: B027 (a file needs no such note)
        """Called with the reports whose links change."""

    def about(self) -> dict[str, str]:
        """Name of the tracker, settings, model and other facts about the index, by name."""
        return dict(self.query("SELECT name, value FROM about"))

    def fact(self, name: str) -> str:
        """A fact of ``about``; empty if the index does not have it."""
        return next((value for (value,) in self.query("SELECT value FROM about WHERE name = ?", name)), "")

    def weights(self) -> bytes:
        """The encoder's weights, as ``torch.save`` wrote them; empty for an untrained encoder."""
        return b"".join(data for (data,) in self.query("SELECT data FROM weights ORDER BY part"))

    def contents(self) -> dict[str, Version]:
        """The version of each report by id, in order."""
        names = ", ".join(Version._fields)
        rows = self.query(f"SELECT issue_id, {names} FROM reports ORDER BY {self.key_column}")
        return {issue_id: Version(*values) for issue_id, *values in rows}

    def reports(self, ids: Sequence[str]) -> dict[str, Report]:
        """Stored reports by id; unknown ids are left out."""
        rows = self.select(f"SELECT {self.report_columns} FROM reports WHERE issue_id IN {MARKS}", ids)
        for row in rows:
            if not all(isinstance(value, str | None) for value in row):  # SQLite checks no types
                raise StoreUnavailable(str(damaged(self.path, f"a field of report {str(row[0])[:100]} is not text")))
        fields = [dict(zip(FIELDS, row, strict=True)) for row in rows]
        return {
            values["issue_id"]: Report(**values | {name: usable_date(values[name]) for name in DATES})
            for values in fields
        }

    def each_report(self, ids: Sequence[str]) -> Iterator[Report]:
        """The stored reports among many ids, in their order, read in batches."""
        for start in range(0, len(ids), MAX_REPORTS):
            batch = ids[start : start + MAX_REPORTS]
            reports = self.reports(batch)
            yield from (reports[issue_id] for issue_id in batch if issue_id in reports)

    def urls(self, ids: Sequence[str]) -> dict[str, str]:
        """Addresses of the reports that have one, by id."""
        return dict(self.select(f"SELECT issue_id, url FROM reports WHERE url != '' AND issue_id IN {MARKS}", ids))

    def components_like(self, name: str, limit: int) -> list[str]:
        """Components of stored reports: those that contain ``name``, then the others, most common first."""
        query = (
            "SELECT component FROM reports WHERE component != '' GROUP BY component"
            " ORDER BY replace(lower(component), lower(?), '') = lower(component), count(*) DESC, component LIMIT ?"
        )
        return [component for (component,) in self.query(query, name, limit)]

    def write_about(self, values: Mapping[str, str]) -> None:
        """Adds or replaces facts about the index."""
        for name, value in values.items():
            add = "INSERT INTO about VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
            self.query(add, name, value)

    def write_model(self, values: Mapping[str, str], weights: bytes) -> None:
        """Replaces the model, and deletes everything that the former model encoded. Links stay."""
        self.clear_model()
        self.write_about(values)
        for start in range(0, len(weights), CHUNK_BYTES):
            self.query("INSERT INTO weights (data) VALUES (?)", weights[start : start + CHUNK_BYTES])

    def clear_links(self, source: str) -> list[tuple[str, str]]:
        """Deletes all links whose source begins with ``source``; returns their pairs of reports."""
        drop = "DELETE FROM links WHERE substr(source, 1, ?) = ? RETURNING report, duplicate"
        pairs: list[tuple[str, str]] = self.query(drop, len(source), source)
        self.touch(chain.from_iterable(pairs))
        return pairs

    def delete_links(self, report: str, duplicate: str, source: str | None) -> bool:
        """Deletes the links of two reports in both directions, of one source or all; returns whether there were any."""
        drop = "DELETE FROM links WHERE report = ? AND duplicate = ? AND source = coalesce(?, source) RETURNING 1"
        self.touch((report, duplicate))
        one_way = self.query(drop, report, duplicate, source)
        return bool(self.query(drop, duplicate, report, source) or one_way)

    def erase(self, ids: Sequence[str]) -> list[str]:
        """Deletes reports with their links, in a transaction; returns the ids of those that were not stored.

        The reports that an erased one was linked to are linked to the first of them, and stay duplicates of each other.
        """
        stored = self.reports(ids)
        for report in stored.values():
            written = self.about().get("calibration")
            if written is not None:
                self.write_about({"calibration": _calibration_without(report, written)})
        self.delete(ids)
        drop = "DELETE FROM links WHERE report = ? OR duplicate = ? RETURNING report, duplicate, source"
        for issue_id in ids:
            source_of: dict[str, str] = {}
            for report_id, duplicate, source in sorted(self.query(drop, issue_id, issue_id)):
                source_of.setdefault(duplicate if report_id == issue_id else report_id, source)
            self.touch(source_of)
            first, *rest = sorted(source_of) or [""]
            self.write_links((duplicate_id, first, source_of[duplicate_id]) for duplicate_id in rest)
        return [issue_id for issue_id in ids if issue_id not in stored]


def report_values(report: Report) -> list[object]:
    """The fields of a report in order, and its content hash, as they are written."""
    fields = {name: getattr(report, name) for name in FIELDS}
    fields |= {name: written_date(fields[name]) for name in DATES}
    return [*fields.values(), report.content_hash]


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
