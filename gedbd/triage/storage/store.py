"""The index on disk: one SQLite file with reports, vectors, word counts, links, and the model that made them.

Why SQLite, and not a vector database: what is compared is a learnt sum of six scores over *all* reports, each
standardised, so that every search needs every report's numbers; an approximate neighbour search would answer another
question. They are read into memory when the index is opened, and what is left to ask of the disk is to be safe. SQLite
changes a file in transactions, is in the standard library and needs no server. Model and reports lie in one file and
change together, so that vectors of two models never meet; whoever is killed leaves the last whole state.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from gedbd.triage.report import FIELDS, Report
from gedbd.triage.storage.connection import LOCK_TIMEOUT_S, Connection, StoreUnavailable, code_of, explain
from gedbd.triage.storage.damage import damaged
from gedbd.triage.storage.rows import Row, Stored, report_of, stored_values

FILE = "index.sqlite"
FORMAT = 2
PART_BYTES = 1 << 26
QUESTION_MARKS = 500
COLUMNS = ", ".join(FIELDS)
TABLES = {"about", "weights", "terms", "reports", "links"}
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


class Store:
    """One index file. It may be used from several threads, one at a time; readers elsewhere see whole changes only.

    Every method raises ``StoreUnavailable`` if the file cannot be used.

    Args:
        path: The file.
        create: Make it if there is none.
        timeout_s: The longest wait for a lock that another process has.

    Raises:
        ValueError: If it is no index, one of another version, damaged, or cannot be opened.
    """

    def __init__(self, path: Path, create: bool = True, timeout_s: float = LOCK_TIMEOUT_S) -> None:
        self.path = path
        try:
            self._connection = Connection(path, create, timeout_s)
        except sqlite3.DatabaseError as error:
            if code_of(error) == sqlite3.SQLITE_NOTADB or not path.exists():
                raise _no_index(path, str(error)) from error
            raise ValueError(explain(path, error)) from error
        try:
            self._check_format()
            if create or not self.is_empty:
                self._connection.keep_log()
        except BaseException as error:
            self.close()
            if isinstance(error, StoreUnavailable):
                raise ValueError(str(error)) from error
            raise

    def _check_format(self) -> None:
        version = self._version()
        tables = {name for (name,) in self._connection.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if version == 0 and tables:
            raise _no_index(self.path, "it holds other tables")
        if version == 1:
            self._add_urls()
        elif version not in (0, FORMAT):
            raise ValueError(f"{self.path} has format {version}, this gedbd reads {FORMAT}: build it anew")
        missing = sorted(TABLES - tables)
        if version and missing:
            raise damaged(self.path, f"it has no table {missing[0]}")

    def _version(self) -> int:
        return int(self._connection.rows("PRAGMA user_version")[0][0])

    def _add_urls(self) -> None:
        """Gives a file of format 1 the column ``url``, empty throughout.

        Raises:
            ValueError: If the file may not be changed.
        """
        try:
            with self.change():
                if self._version() == 1:
                    self._connection.rows("ALTER TABLE reports ADD COLUMN url TEXT NOT NULL DEFAULT ''")
                    self._connection.rows(f"PRAGMA user_version={FORMAT}")
        except StoreUnavailable as error:
            cure = "open it once with the right to change it, or build it again with python -m gedbd.index"
            raise ValueError(f"{self.path} has format 1, this gedbd writes {FORMAT} ({error}): {cure}") from error

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    @contextmanager
    def change(self) -> Iterator[None]:
        """All that is written within is there afterwards and on disk, or nothing of it."""
        with self._connection.change():
            if self._version() == 0:
                for statement in SCHEMA.split(";\n"):
                    self._connection.rows(statement)
                self._connection.rows(f"PRAGMA user_version={FORMAT}")
            yield

    def moment(self) -> AbstractContextManager[None]:
        """All that is read within is of one moment, whatever others write meanwhile."""
        return self._connection.moment()

    @property
    def refusal(self) -> str:
        """Why the file is open for reading only; empty if it may be written to."""
        return self._connection.refusal

    @property
    def changes(self) -> int:
        """A number that is another one once somebody else has changed the file."""
        return int(self._connection.rows("PRAGMA data_version")[0][0])

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever written."""
        return self._version() == 0

    def about(self) -> dict[str, str]:
        """What the index says of itself, by name."""
        return dict(self._connection.rows("SELECT name, value FROM about"))

    def dim(self) -> int:
        """Size of the vectors. Raises ValueError if the file does not say it."""
        written = self.about().get("dim", "")
        if not written.isdecimal():
            raise damaged(self.path, f"it gives {written!r} as the size of its vectors")
        return int(written)

    def write_about(self, values: dict[str, str]) -> None:
        """Adds to it, or replaces."""
        self._connection.write_all("INSERT OR REPLACE INTO about VALUES (?, ?)", values.items())

    def weights(self) -> bytes:
        """The encoder's weights, as ``torch.save`` wrote them; empty for an untrained one."""
        parts = self._connection.rows("SELECT data FROM weights ORDER BY part")
        return b"".join(data for (data,) in parts)

    def write_model(self, values: dict[str, str], weights: bytes) -> None:
        """Begins again with another model: everything is deleted that its predecessor has read. Links stay."""
        for table in ("about", "weights", "terms", "reports"):
            self._connection.rows(f"DELETE FROM {table}")
        self.write_about(values)
        parts = range(0, len(weights), PART_BYTES)
        self._connection.write_all(
            "INSERT INTO weights (data) VALUES (?)", ((weights[start : start + PART_BYTES],) for start in parts)
        )

    def terms(self) -> list[str]:
        """All terms in the order of their numbers."""
        return [term for (term,) in self._connection.rows("SELECT term FROM terms ORDER BY number")]

    def add_terms(self, first: int, terms: Sequence[str]) -> None:
        """Adds terms, the first of which has a given number."""
        self._connection.write_all("INSERT INTO terms VALUES (?, ?)", enumerate(terms, start=first))

    def add(self, reports: Iterable[Stored]) -> None:
        """Adds reports at the end; one of the same id is replaced where it stands, as rows tell age without dates."""
        names = (*FIELDS, "content", "vector", "text", "heading")
        update = ", ".join(f"{name} = excluded.{name}" for name in names)
        self._connection.write_all(
            f"INSERT INTO reports ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
            f" ON CONFLICT (issue_id) DO UPDATE SET {update}",
            (stored_values(one) for one in reports),
        )

    def delete(self, ids: Iterable[str]) -> None:
        """Deletes reports; links that name them stay, for two duplicates of one report are duplicates."""
        self._connection.write_all("DELETE FROM reports WHERE issue_id = ?", ((one,) for one in ids))

    def write_links(self, links: Iterable[tuple[str, str, str]]) -> None:
        """Adds links: report, duplicate, source."""
        self._connection.write_all("INSERT OR IGNORE INTO links VALUES (?, ?, ?)", links)

    def urls(self, ids: Sequence[str]) -> dict[str, str]:
        """Addresses of some reports by id; those without one are left out."""
        return dict(self._of_ids("SELECT issue_id, url FROM reports WHERE url != '' AND", ids))

    def write_urls(self, urls: dict[str, str]) -> None:
        """Replaces the addresses of some reports, given by id."""
        values = ((url, one) for one, url in urls.items())
        self._connection.write_all("UPDATE reports SET url = ? WHERE issue_id = ?", values)

    def clear_links(self, source: str) -> None:
        """Deletes all links whose source begins so."""
        self._connection.rows("DELETE FROM links WHERE substr(source, 1, length(?)) = ?", (source, source))

    def delete_links(self, report: str, duplicate: str, source: str | None) -> bool:
        """Deletes the links between two reports in either direction, of one source or all; whether there were any."""
        query = "DELETE FROM links WHERE report = ? AND duplicate = ? AND source = coalesce(?, source) RETURNING 1"
        one_way = self._connection.rows(query, (report, duplicate, source))
        other_way = self._connection.rows(query, (duplicate, report, source))
        return bool(one_way or other_way)

    def links(self) -> list[tuple[str, str, str]]:
        """Report, duplicate, source."""
        query = "SELECT report, duplicate, source FROM links ORDER BY report, duplicate, source"
        return [(str(first), str(second), str(source)) for first, second, source in self._connection.rows(query)]

    def contents(self) -> dict[str, tuple[str, str]]:
        """Content hash and address of each report by id, in order."""
        rows = self._connection.rows("SELECT issue_id, content, url FROM reports ORDER BY row")
        return {issue_id: (content, url) for issue_id, content, url in rows}

    def numbers(self) -> list[Row]:
        """What is compared of each report, in order."""
        return [
            Row(*row) for row in self._connection.rows(f"SELECT {', '.join(Row._fields)} FROM reports ORDER BY row")
        ]

    def reports(self, ids: Sequence[str]) -> dict[str, Report]:
        """Some reports by id; those that are not there are left out."""
        rows = self._of_ids(f"SELECT {COLUMNS} FROM reports WHERE", ids)
        for row in rows:
            if not all(isinstance(value, str | None) for value in row):
                raise StoreUnavailable(str(damaged(self.path, f"a field of report {str(row[0])[:100]} is no text")))
        return {row[0]: report_of(row) for row in rows}

    def _of_ids(self, query: str, ids: Sequence[str]) -> list[tuple[Any, ...]]:
        """What a query that ends in a condition gives for some ids; a few at a time, as SQLite bounds them."""
        found = []
        for start in range(0, len(ids), QUESTION_MARKS):
            some = ids[start : start + QUESTION_MARKS]
            found += self._connection.rows(f"{query} issue_id IN ({', '.join('?' * len(some))})", some)
        return found


def _no_index(path: Path, reason: str) -> ValueError:
    return ValueError(f"{path} is no index ({reason}): build one with python -m gedbd.index")
