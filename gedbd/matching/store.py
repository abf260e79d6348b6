"""The index on disk: one SQLite file with reports, vectors, word counts, links, and the model that made them.

Why SQLite, and not a vector database: what is compared is a learnt sum of six scores over *all* reports, each
standardised, so that every search needs every report's numbers; an approximate neighbour search would answer another
question. They are read into memory when the index is opened, and what is left to ask of the disk is to be safe. SQLite
changes a file in transactions, is in the standard library and needs no server. Model and reports lie in one file and
change together, so that vectors of two models never meet; whoever is killed leaves the last whole state.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.data.corpus import FIELDS
from gedbd.matching.report import Report

FILE = "index.sqlite"
FORMAT = 2
PART_BYTES = 1 << 26
QUESTION_MARKS = 500
COLUMNS = ", ".join(FIELDS)
SCHEMA = f"""
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE weights (part INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE terms (number INTEGER PRIMARY KEY, term TEXT NOT NULL);
CREATE TABLE reports (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    {", ".join(f"{name} TEXT NOT NULL" if name != "created_at" else "created_at TEXT" for name in FIELDS)},
    content TEXT NOT NULL, vector BLOB NOT NULL, text BLOB NOT NULL, heading BLOB NOT NULL
);
CREATE UNIQUE INDEX by_id ON reports (issue_id);
CREATE TABLE links (
    report TEXT NOT NULL, duplicate TEXT NOT NULL, source TEXT NOT NULL, PRIMARY KEY (report, duplicate, source)
) WITHOUT ROWID;
"""


class StoreUnavailable(Exception):  # noqa: N818 - says what the index is, as its callers read it
    """An index that cannot be used at the moment.

    Args:
        message: What is wrong and what to do, in one line.
        retry_after_s: When it may be worth trying again, in seconds.
    """

    def __init__(self, message: str, retry_after_s: int = 5) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


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


class Store:
    """One index file. It may be used from several threads, one at a time; readers elsewhere see whole changes only.

    Args:
        path: The file.

    Raises:
        ValueError: If it is no index, or one of another version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._connection = sqlite3.connect(path, timeout=60, check_same_thread=False, isolation_level=None)
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if version == 0 and tables:
                raise sqlite3.DatabaseError("it holds other tables")
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{path} is no index ({error}): build one with python -m gedbd.index") from error
        if version == 1:
            self._add_urls()
        elif version not in (0, FORMAT):
            self.close()
            raise ValueError(f"{path} has format {version}, this gedbd reads {FORMAT}: build it anew")

    def _add_urls(self) -> None:
        """Gives a file of format 1 the column ``url``, empty throughout.

        Raises:
            ValueError: If the file may not be changed.
        """
        try:
            with self.change():
                if self._connection.execute("PRAGMA user_version").fetchone() == (1,):
                    self._connection.execute("ALTER TABLE reports ADD COLUMN url TEXT NOT NULL DEFAULT ''")
                    self._connection.execute(f"PRAGMA user_version={FORMAT}")
        except sqlite3.DatabaseError as error:
            self.close()
            cure = "open it once with the right to change it, or build it again with python -m gedbd.index"
            raise ValueError(f"{self.path} has format 1, this gedbd writes {FORMAT} ({error}): {cure}") from error

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    @contextmanager
    def change(self) -> Iterator[None]:
        """All that is written within is there afterwards and on disk, or nothing of it."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            if self._connection.execute("PRAGMA user_version").fetchone() == (0,):
                for statement in SCHEMA.split(";\n"):
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version={FORMAT}")
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # SQLite has ended it itself where the disk is full
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def moment(self) -> Iterator[None]:
        """All that is read within is of one moment, whatever others write meanwhile."""
        if self._connection.in_transaction:
            yield
            return
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    @property
    def changes(self) -> int:
        """A number that is another one once somebody else has changed the file."""
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever written."""
        return bool(self._connection.execute("PRAGMA user_version").fetchone() == (0,))

    def about(self) -> dict[str, str]:
        """What the index says of itself, by name."""
        return dict(self._connection.execute("SELECT name, value FROM about"))

    def write_about(self, values: dict[str, str]) -> None:
        """Adds to it, or replaces."""
        self._connection.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", values.items())

    def weights(self) -> bytes:
        """The encoder's weights, as ``torch.save`` wrote them; empty for an untrained one."""
        parts = self._connection.execute("SELECT data FROM weights ORDER BY part")
        return b"".join(data for (data,) in parts)

    def write_model(self, values: dict[str, str], weights: bytes) -> None:
        """Begins anew with another model: everything is left out that its predecessor has read."""
        for table in ("about", "weights", "terms", "reports", "links"):
            self._connection.execute(f"DELETE FROM {table}")
        self.write_about(values)
        parts = range(0, len(weights), PART_BYTES)
        self._connection.executemany(
            "INSERT INTO weights (data) VALUES (?)", ((weights[start : start + PART_BYTES],) for start in parts)
        )

    def terms(self) -> list[str]:
        """All terms in the order of their numbers."""
        return [term for (term,) in self._connection.execute("SELECT term FROM terms ORDER BY number")]

    def add_terms(self, first: int, terms: Sequence[str]) -> None:
        """Adds terms, the first of which has a given number."""
        self._connection.executemany("INSERT INTO terms VALUES (?, ?)", enumerate(terms, start=first))

    def add(self, reports: Iterable[Stored]) -> None:
        """Adds reports at the end; one of the same id is replaced where it stands, as rows tell age without dates."""
        names = (*FIELDS, "content", "vector", "text", "heading")
        update = ", ".join(f"{name} = excluded.{name}" for name in names)
        self._connection.executemany(
            f"INSERT INTO reports ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
            f" ON CONFLICT (issue_id) DO UPDATE SET {update}",
            ((*_values(one.report), one.report.content_hash, *(part.tobytes() for part in one[1:])) for one in reports),
        )

    def delete(self, ids: Iterable[str]) -> None:
        """Deletes reports; links that name them stay, for two duplicates of one report are duplicates."""
        self._connection.executemany("DELETE FROM reports WHERE issue_id = ?", ((one,) for one in ids))

    def write_links(self, links: Iterable[tuple[str, str, str]]) -> None:
        """Adds links: report, duplicate, source."""
        self._connection.executemany("INSERT OR IGNORE INTO links VALUES (?, ?, ?)", links)

    def urls(self, ids: Sequence[str]) -> dict[str, str]:
        """Addresses of some reports by id; those without one are left out."""
        found: dict[str, str] = {}
        for start in range(0, len(ids), QUESTION_MARKS):
            some = ids[start : start + QUESTION_MARKS]
            marks = ", ".join("?" * len(some))
            query = f"SELECT issue_id, url FROM reports WHERE url != '' AND issue_id IN ({marks})"
            found |= dict(self._connection.execute(query, some).fetchall())
        return found

    def write_urls(self, urls: dict[str, str]) -> None:
        """Replaces the addresses of some reports, given by id."""
        values = ((url, one) for one, url in urls.items())
        self._connection.executemany("UPDATE reports SET url = ? WHERE issue_id = ?", values)

    def clear_links(self, source: str) -> None:
        """Deletes all links whose source begins so."""
        self._connection.execute("DELETE FROM links WHERE substr(source, 1, length(?)) = ?", (source, source))

    def links(self) -> list[tuple[str, str, str]]:
        """Report, duplicate, source."""
        return list(self._connection.execute("SELECT report, duplicate, source FROM links"))

    def contents(self) -> dict[str, str]:
        """Content hash of each report by id."""
        return dict(self._connection.execute("SELECT issue_id, content FROM reports"))

    def numbers(self) -> Iterator[tuple[str, str | None, str, str, bytes, bytes, bytes]]:
        """Of each report in order: id, date, product, component, vector, terms of the text and of the title."""
        columns = "issue_id, created_at, product, component, vector, text, heading"
        return iter(self._connection.execute(f"SELECT {columns} FROM reports ORDER BY row"))

    def reports(self, ids: Sequence[str]) -> dict[str, Report]:
        """Some reports by id; those that are not there are left out."""
        found: dict[str, Report] = {}
        for start in range(0, len(ids), QUESTION_MARKS):
            some = ids[start : start + QUESTION_MARKS]
            query = f"SELECT {COLUMNS} FROM reports WHERE issue_id IN ({', '.join('?' * len(some))})"
            found |= {row[0]: _report(row) for row in self._connection.execute(query, some).fetchall()}
        return found


def _values(report: Report) -> list[str | None]:
    """The fields in order, dates as text."""
    filed = report.created_at
    values = [getattr(report, name) for name in FIELDS]
    return [
        filed.isoformat() if name == "created_at" and filed else value
        for name, value in zip(FIELDS, values, strict=True)
    ]


def _report(row: tuple[str, ...]) -> Report:
    values = dict(zip(FIELDS, row, strict=True))
    filed = values.pop("created_at")
    return Report(created_at=pd.Timestamp(filed).to_pydatetime() if filed else None, **values)
