"""The index on disk: one SQLite file with reports, vectors, terms, links, and the model that encoded them.

Why SQLite and not a vector database: the first stage of a search reads vectors, words, fields and dates of all reports,
which are read into memory when the index is opened; the file only has to be safe. SQLite changes a file in
transactions, is in the standard library and needs no server. Model and reports are in one file and change together, so
that vectors of two models are never mixed, and a process that is killed leaves the last complete state.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.corpora.bug_report import DATES, FIELDS, Report
from gedbd.io.sqlite_file import LOCK_TIMEOUT_S, MARKS, SqliteFile, StoreUnavailable, code_of
from gedbd.retrieval.reports.report_features import terms_of
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.triage.storage.report_store import forget_in
from gedbd.triage.storage.rows import (
    CURE,
    TERM_COLUMNS,
    FeatureRow,
    StoredReport,
    Version,
    damaged,
    not_an_index,
    report_from_values,
    report_values,
    written_date,
)

FEATURES = ", ".join(FeatureRow._fields)
FORMAT = 6  # of the tables; SQLite keeps it as user_version
TABLES = {"about", "weights", "terms", "reports", "links", "identity", "changes"}
# Triggers write the log of changes, so that no change can be forgotten. A change of a link has no row.
SCHEMA = f"""
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE weights (part INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE terms (number INTEGER PRIMARY KEY, term TEXT NOT NULL);
CREATE TABLE reports (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    {", ".join(f"{name} TEXT" if name in DATES else f"{name} TEXT NOT NULL" for name in FIELDS)},
    content TEXT NOT NULL, vector BLOB NOT NULL, {", ".join(f"{name} BLOB NOT NULL" for name in TERM_COLUMNS)}
);
CREATE UNIQUE INDEX by_id ON reports (issue_id);
CREATE TABLE links (
    report TEXT NOT NULL, duplicate TEXT NOT NULL, source TEXT NOT NULL, PRIMARY KEY (report, duplicate, source)
) WITHOUT ROWID;
CREATE TABLE identity (token TEXT NOT NULL);
INSERT INTO identity VALUES (lower(hex(randomblob(8))));
CREATE TABLE changes (number INTEGER PRIMARY KEY AUTOINCREMENT, row INTEGER);
CREATE TRIGGER added AFTER INSERT ON reports BEGIN INSERT INTO changes (row) VALUES (new.row); END;
CREATE TRIGGER replaced AFTER UPDATE ON reports BEGIN INSERT INTO changes (row) VALUES (new.row); END;
CREATE TRIGGER deleted AFTER DELETE ON reports BEGIN INSERT INTO changes (row) VALUES (old.row); END;
CREATE TRIGGER linked AFTER INSERT ON links BEGIN INSERT INTO changes (row) VALUES (NULL); END;
CREATE TRIGGER unlinked AFTER DELETE ON links BEGIN INSERT INTO changes (row) VALUES (NULL); END;
CREATE INDEX by_duplicate ON links (duplicate)"""
CHUNK_BYTES = 1 << 26  # of the weights: SQLite bounds the size of a value
MAX_READ = 10_000  # reports whose terms are read at once
COLUMNS = ", ".join(FIELDS)


class IndexStore(SqliteFile):
    """One index file; a ``ReportStore``. Several threads and processes may share it; they see complete changes only.

    Every method raises ``StoreUnavailable`` if the file cannot be used.

    The file logs what was changed. Changes are numbered 1, 2, 3, ...; triggers write them.

    Args:
        path: The file.
        create: Create it if there is none.
        timeout_s: How long to wait for a lock that another process has.
        must_stay: See ``SqliteFile``.
        read_only: See ``SqliteFile``.

    Raises:
        ValueError: If it is not an index, has another format, is damaged, or cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        create: bool = True,
        timeout_s: float = LOCK_TIMEOUT_S,
        must_stay: bool = False,
        read_only: bool = False,
    ) -> None:
        try:
            super().__init__(path, CURE, create, timeout_s, must_stay, read_only)
        except StoreUnavailable as error:
            cause = error.__cause__
            if isinstance(cause, sqlite3.Error) and (code_of(cause) == sqlite3.SQLITE_NOTADB or not path.exists()):
                raise not_an_index(path, str(cause)) from cause
            raise ValueError(str(error)) from error

    def prepare(self) -> None:
        """See ``SqliteFile``."""
        version = self._version()
        tables = {name for (name,) in self.query("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if version == 0 and tables:
            raise not_an_index(self.path, "it has other tables")
        if version not in (0, FORMAT):  # 0: nothing was written yet
            cure = "delete it and build it again with gedbd index"
            raise ValueError(f"{self.path} has format {version}, but this version of gedbd reads {FORMAT}: {cure}")
        missing = sorted(TABLES - tables)
        if version and missing:
            raise damaged(self.path, f"it has no table {missing[0]}")
        if not self.read_only and (self.create or version):
            self.enable_wal()

    def _version(self) -> int:
        return int(self.query("PRAGMA user_version")[0][0])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See ``SqliteFile``; the first one creates the tables."""
        with super().transaction():
            if self.is_empty:
                for statement in SCHEMA.split(";\n"):
                    self.query(statement)
                self.query(f"PRAGMA user_version={FORMAT}")
            yield

    @property
    def changes(self) -> int:
        """A number that changes whenever another connection has changed the file."""
        return int(self.query("PRAGMA data_version")[0][0])

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written yet."""
        return self._version() == 0

    def count(self) -> int:
        """Number of reports."""
        return int(self.query("SELECT count(*) FROM reports")[0][0])

    def about(self) -> dict[str, str]:
        """See ``ReportStore``."""
        return dict(self.query("SELECT name, value FROM about"))

    def fact(self, name: str) -> str:
        """See ``ReportStore``."""
        return next((value for (value,) in self.query("SELECT value FROM about WHERE name = ?", name)), "")

    def dim(self) -> int:
        """Size of the vectors. Raises ValueError if the file has none."""
        written = self.fact("dim")
        if not written.isdecimal():
            raise damaged(self.path, f"{written!r} is not the size of a vector")
        return int(written)

    def write_about(self, values: dict[str, str]) -> None:
        """See ``ReportStore``."""
        self.write_all("INSERT OR REPLACE INTO about VALUES (?, ?)", values.items())

    def weights(self) -> bytes:
        """See ``ReportStore``."""
        chunks = self.query("SELECT data FROM weights ORDER BY part")
        return b"".join(data for (data,) in chunks)

    def write_model(self, values: dict[str, str], weights: bytes) -> None:
        """See ``ReportStore``."""
        for table in ("about", "weights", "terms", "reports"):
            self.query(f"DELETE FROM {table}")
        self.write_about(values)
        starts = range(0, len(weights), CHUNK_BYTES)
        chunks = ((weights[start : start + CHUNK_BYTES],) for start in starts)
        self.write_all("INSERT INTO weights (data) VALUES (?)", chunks)

    def terms(self, first: int = 0) -> list[str]:
        """The terms with the numbers ``first``, ``first + 1``, ... in order."""
        query = "SELECT term FROM terms WHERE number >= ? ORDER BY number"
        return [term for (term,) in self.query(query, first)]

    def add_terms(self, first: int, terms: Sequence[str]) -> None:
        """Adds terms with consecutive numbers from ``first``."""
        self.write_all("INSERT INTO terms VALUES (?, ?)", enumerate(terms, start=first))

    def add(self, reports: Iterable[StoredReport]) -> None:
        """Adds reports at the end; a report with a stored id replaces it in its row: rows are chronological."""
        names = (*FIELDS, "content", "vector", *TERM_COLUMNS)
        update = ", ".join(f"{name} = excluded.{name}" for name in names)
        self.write_all(
            f"INSERT INTO reports ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
            f" ON CONFLICT (issue_id) DO UPDATE SET {update}",
            (
                [*report_values(one.report), one.vector.tobytes(), *map(np.ndarray.tobytes, one.terms)]
                for one in reports
            ),
        )

    def write_reports(self, reports: Sequence[Report], vectors: Sequence[np.ndarray]) -> None:
        """See ``ReportStore``; the terms that they bring are added too."""
        vocabulary = Vocabulary(self.terms())
        known = len(vocabulary.terms)
        table = pd.DataFrame([[one.title, one.description] for one in reports], columns=["title", "description"])
        terms = terms_of(table, vocabulary, learn=True)
        self.add_terms(known, vocabulary.terms[known:])
        self.add(map(StoredReport, reports, vectors, zip(*terms.values(), strict=True)))

    def delete(self, ids: Iterable[str]) -> None:
        """See ``ReportStore``."""
        self.write_all("DELETE FROM reports WHERE issue_id = ?", ((one,) for one in ids))

    def forget(self, ids: Sequence[str]) -> None:
        """See ``ReportStore``; ``checkpoint`` erases the bytes."""
        forget_in(self, ids)
        self.empty_terms(self.unused_terms())
        self._restart_log()

    def take_links(self, issue_id: str) -> list[tuple[str, str, str]]:
        """See ``ReportStore``."""
        query = "DELETE FROM links WHERE report = ?1 OR duplicate = ?1 RETURNING report, duplicate, source"
        return list(self.query(query, issue_id))

    def unused_terms(self) -> np.ndarray:
        """The numbers of the terms that no report has."""
        named = self.query("SELECT number FROM terms WHERE term != ''")
        is_used = np.zeros(1 + max((number for (number,) in named), default=0), dtype=bool)
        columns = ", ".join(TERM_COLUMNS)
        key = -1
        while True:
            query = f"SELECT row, {columns} FROM reports WHERE row > ? ORDER BY row LIMIT {MAX_READ}"
            rows = self.query(query, key)
            if not rows:
                numbers = np.array([number for (number,) in named], dtype=np.int64)
                return numbers[~is_used[numbers]]
            found = np.frombuffer(b"".join(chain.from_iterable(row[1:] for row in rows)), dtype=np.int32)
            is_used[found] = True
            key = rows[-1][0]

    def empty_terms(self, numbers: np.ndarray) -> None:
        """Deletes the words of some terms, which no report has; their numbers stay, so that others keep theirs."""
        self.write_all("UPDATE terms SET term = '' WHERE number = ?", ((one,) for one in numbers.tolist()))

    def restore_terms(self, terms: Iterable[tuple[int, str]]) -> None:
        """Writes the words of terms again that were deleted, by number, as a report has them once more."""
        values = ((term, number) for number, term in terms)
        self.write_all("UPDATE terms SET term = ? WHERE number = ? AND term = ''", values)

    def write_links(self, links: Iterable[tuple[str, str, str]]) -> None:
        """See ``ReportStore``."""
        self.write_all("INSERT OR IGNORE INTO links VALUES (?, ?, ?)", links)

    def urls(self, ids: Sequence[str]) -> dict[str, str]:
        """See ``ReportStore``."""
        return dict(self.select(f"SELECT issue_id, url FROM reports WHERE url != '' AND issue_id IN {MARKS}", ids))

    def components_like(self, name: str, limit: int) -> list[str]:
        """See ``StoredIndex``."""
        query = (
            "SELECT component FROM reports WHERE component != '' GROUP BY component"
            " ORDER BY instr(lower(component), lower(?)) = 0, count(*) DESC, component LIMIT ?"
        )
        return [component for (component,) in self.query(query, name, limit)]

    def write_not_encoded(self, reports: Iterable[Report]) -> None:
        """See ``ReportStore``."""
        values = ((report.url, written_date(report.resolved_at), report.issue_id) for report in reports)
        self.write_all("UPDATE reports SET url = ?, resolved_at = ? WHERE issue_id = ?", values)

    def clear_links(self, source: str) -> None:
        """See ``ReportStore``."""
        self.query("DELETE FROM links WHERE substr(source, 1, length(?)) = ?", source, source)

    def delete_links(self, report: str, duplicate: str, source: str | None) -> bool:
        """See ``ReportStore``."""
        query = "DELETE FROM links WHERE report = ? AND duplicate = ? AND source = coalesce(?, source) RETURNING 1"
        one_way = self.query(query, report, duplicate, source)
        other_way = self.query(query, duplicate, report, source)
        return bool(one_way or other_way)

    def links(self) -> list[tuple[str, str, str]]:
        """All links, each of a report, its duplicate and a source."""
        query = "SELECT report, duplicate, source FROM links ORDER BY report, duplicate, source"
        return [(str(first), str(second), str(source)) for first, second, source in self.query(query)]

    def links_if_any_names(self, ids: Sequence[str]) -> list[tuple[str, str, str]]:
        """All links if any of them names one of some reports, else none."""
        for one in ids:
            if self.query("SELECT 1 FROM links WHERE report = ?1 OR duplicate = ?1 LIMIT 1", one):
                return self.links()
        return []

    def contents(self) -> dict[str, Version]:
        """See ``ReportStore``."""
        names = ", ".join(Version._fields)
        rows = self.query(f"SELECT issue_id, {names} FROM reports ORDER BY row")
        return {issue_id: Version(*values) for issue_id, *values in rows}

    def features(self, after: int = -1, limit: int = -1) -> tuple[np.ndarray, list[FeatureRow]]:
        """The keys and features of the reports whose keys are higher than ``after``, in order; the first ``limit``."""
        query = f"SELECT row, {FEATURES} FROM reports WHERE row > ? ORDER BY row LIMIT ?"
        return _split(self.query(query, after, limit))

    def features_of(self, keys: Sequence[int]) -> tuple[np.ndarray, list[FeatureRow]]:
        """The keys and features of the reports that have some keys, which ascend."""
        return _split(self.select(f"SELECT row, {FEATURES} FROM reports WHERE row IN {MARKS} ORDER BY row", keys))

    def reports(self, ids: Sequence[str]) -> dict[str, Report]:
        """See ``ReportStore``."""
        rows = self.select(f"SELECT {COLUMNS} FROM reports WHERE issue_id IN {MARKS}", ids)
        for row in rows:
            if not all(isinstance(value, str | None) for value in row):
                raise StoreUnavailable(str(damaged(self.path, f"a field of report {str(row[0])[:100]} is not text")))
        return {row[0]: report_from_values(row) for row in rows}

    def token(self) -> str:
        """A text that no other index file has."""
        return str(self.query("SELECT token FROM identity")[0][0])

    def last_change(self) -> int:
        """The number of the last change; 0 if there was none."""
        found = self.query("SELECT seq FROM sqlite_sequence WHERE name = 'changes'")
        return int(found[0][0]) if found else 0

    def has_all_changes_since(self, number: int) -> bool:
        """Whether the log has all changes behind one."""
        ((first,),) = self.query("SELECT min(number) FROM changes")
        last = self.last_change()
        return (last if first is None else first - 1) <= number <= last

    def rows_since(self, number: int) -> np.ndarray:
        """The keys of the reports that were added, replaced or deleted behind a change, ascending."""
        query = "SELECT DISTINCT row FROM changes WHERE number > ? AND row IS NOT NULL ORDER BY row"
        return np.array([row for (row,) in self.query(query, number)], dtype=np.int64)

    def has_links_since(self, number: int) -> bool:
        """Whether links were added or deleted behind a change."""
        query = "SELECT 1 FROM changes WHERE number > ? AND row IS NULL LIMIT 1"
        return bool(self.query(query, number))

    def forget_changes(self, number: int) -> None:
        """Deletes the changes up to one from the log."""
        self.query("DELETE FROM changes WHERE number <= ?", number)

    def _restart_log(self) -> None:
        """Deletes all changes behind a last one, so that no files that were made before can be used again."""
        self.query("INSERT INTO changes (row) VALUES (NULL)")
        self.query("DELETE FROM changes")


def _split(found: Sequence[tuple[object, ...]]) -> tuple[np.ndarray, list[FeatureRow]]:
    keys = np.array([row[0] for row in found], dtype=np.int64)
    return keys, [FeatureRow(*row[1:]) for row in found]  # type: ignore[arg-type]
