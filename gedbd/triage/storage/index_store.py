"""The index on disk: one SQLite file with reports, vectors, terms, links, and the model that encoded them.

Why SQLite and not a vector database: the first stage of a search reads vectors, words, fields and dates of all reports,
which are read into memory when the index is opened; the file only has to be safe. SQLite changes a file in
transactions, is in the standard library and needs no server. Model and reports are in one file and change together, so
that vectors of two models are never mixed, and a process that is killed leaves the last complete state.
"""

import shutil
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.bug_report import DATES, FIELDS, Report
from gedbd.io.console import track
from gedbd.io.files import UNFINISHED
from gedbd.io.sqlite_file import LOCK_TIMEOUT_S, MARKS, SqliteFile, StoreUnavailable, code_of
from gedbd.retrieval.inverted_index import Vocabulary
from gedbd.retrieval.report_ranking.feature_store import terms_of
from gedbd.triage.storage.index_folder import CACHE, CACHE_SUFFIX
from gedbd.triage.storage.report_store import (
    CURE,
    TERM_COLUMNS,
    Link,
    ReportStore,
    damaged,
    report_values,
    written_date,
)

FORMAT = 8  # of the tables; SQLite keeps it as user_version
READ_FORMATS = (7, FORMAT)  # format 7 differs in that no description is compressed
# Triggers write the log of changes, so that no change can be forgotten. A change of a link has no row.
SCHEMA = f"""
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE weights (part INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE terms (number INTEGER PRIMARY KEY, term TEXT NOT NULL);
CREATE UNIQUE INDEX by_term ON terms (term) WHERE term != '';
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
MAX_READ = 10_000  # reports whose terms are read at once
PAGE_BYTES = 1 << 14  # of a new file: several reports fit into a page


class FeatureRow(NamedTuple):
    """The columns of one stored report that make its features; dates in ISO 8601, the vector as ``(D,)`` float32 bytes.

    The last four are terms as ``(L,)`` int32 bytes: of title and description, of the title, identifiers, error lines.
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


FEATURES = ", ".join(FeatureRow._fields)


class IndexStore(SqliteFile, ReportStore):
    """One index file. Several threads and processes may share it; they see complete changes only.

    Every method raises ``StoreUnavailable`` if the file cannot be used. The file logs what was changed; triggers number
    the changes 1, 2, 3, .... For the arguments see ``SqliteFile``.

    Raises:
        ValueError: If it is not an index, has another format, is damaged, or cannot be opened.
    """

    path: Path
    key_column = "row"
    report_columns = ", ".join("unpacked(description)" if name == "description" else name for name in FIELDS)

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
        """Checks or creates the tables. Raises ValueError or StoreUnavailable."""
        self._sqlite.create_function("packed", 1, packed)
        self._sqlite.create_function("unpacked", 1, unpacked)
        version = self._version()
        if version == 0 and self.query("SELECT 1 FROM sqlite_master LIMIT 1"):
            raise not_an_index(self.path, "it has other tables")
        if version not in (0, *READ_FORMATS):  # 0: nothing was written yet
            read = " and ".join(map(str, READ_FORMATS))
            advice = "delete it and build it again with gedbd index"
            raise ValueError(f"{self.path} has format {version}, but this version of gedbd reads {read}: {advice}")
        if version:
            self.check_schema(SCHEMA, may_lack=False)
        if not self.read_only and (self.create or version):
            self.query(f"PRAGMA page_size={PAGE_BYTES}")  # without effect on a file that has pages
            self.enable_wal()

    def _version(self) -> int:
        return int(self.query("PRAGMA user_version")[0][0])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A writing transaction, of which all takes effect or nothing; the first one creates the tables."""
        with super().transaction():
            if self.is_empty:
                for statement in SCHEMA.split(";\n"):
                    self.query(statement)
            if self._version() != FORMAT:
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

    def dim(self) -> int:
        """Size of the vectors. Raises ValueError if the file has none."""
        written = self.fact("dim")
        if not written.isdecimal():
            raise damaged(self.path, f"{written!r} is not the size of a vector")
        return int(written)

    def clear_model(self) -> None:
        """Deletes the model and its reports. Terms stay: running searches refer to them by number."""
        for table in ("about", "weights", "reports"):
            self.query(f"DELETE FROM {table}")

    def num_terms(self) -> int:
        """The number of the next new term."""
        return int(self.query("SELECT coalesce(max(number) + 1, 0) FROM terms")[0][0])

    def write_reports(self, reports: Sequence[Report], vectors: Sequence[np.ndarray]) -> None:
        """Adds reports and their new terms; a report with a stored id replaces the stored one in place."""
        vocabulary = StoredVocabulary(self)
        table = pd.DataFrame(
            [[report.title, report.description] for report in reports], columns=["title", "description"]
        )
        terms = terms_of(table, vocabulary, learn=True)
        first = vocabulary.num_stored
        rows = zip(reports, vectors, zip(*terms.values(), strict=True), strict=True)
        self.write_all("INSERT INTO terms VALUES (?, ?)", enumerate(vocabulary.terms, start=first))
        names = (*FIELDS, "content", "vector", *TERM_COLUMNS)
        update = ", ".join(f"{name} = excluded.{name}" for name in names)
        self.write_all(
            f"INSERT INTO reports ({', '.join(names)})"
            f" VALUES ({', '.join('packed(?)' if name == 'description' else '?' for name in names)})"
            f" ON CONFLICT (issue_id) DO UPDATE SET {update}",
            (
                [*report_values(report), vector.tobytes(), *map(np.ndarray.tobytes, numbers)]
                for report, vector, numbers in track(rows, "write the index", len(reports))
            ),
        )

    def delete(self, ids: Iterable[str]) -> None:
        """Deletes reports. Their links stay: two duplicates of a deleted report are still duplicates of each other."""
        self.write_all("DELETE FROM reports WHERE issue_id = ?", ((issue_id,) for issue_id in ids))

    def forget(self, ids: Sequence[str]) -> list[str]:
        """Erases reports from the bytes of the file, its write-ahead log and the files beside it.

        Raises:
            StoreUnavailable: Also if another process reads an older state; a second call continues.
            OSError: If a file cannot be deleted.
        """
        with self.transaction():
            missing = self.erase(ids)
            self.empty_unused_terms()
        self.checkpoint()
        remove_caches(self.path.parent, self.last_change())  # no process reads an older state any more
        return missing

    def empty_unused_terms(self) -> None:
        """Deletes the words of terms that no report has; their numbers stay, so that others keep theirs."""
        is_used = np.zeros(self.num_terms(), dtype=bool)
        columns = ", ".join(TERM_COLUMNS)
        key = -1
        while rows := self.query(
            f"SELECT row, {columns} FROM reports WHERE row > ? ORDER BY row LIMIT ?", key, MAX_READ
        ):
            is_used[np.frombuffer(b"".join(chain.from_iterable(row[1:] for row in rows)), dtype=np.int32)] = True
            key = rows[-1][0]
        unused = ((number,) for number in np.flatnonzero(~is_used).tolist())
        self.write_all("UPDATE terms SET term = '' WHERE number = ? AND term != ''", unused)

    def write_links(self, links: Iterable[Link]) -> None:
        """Adds links, each of a report, its duplicate and a source."""
        self.write_all("INSERT OR IGNORE INTO links VALUES (?, ?, ?)", links)

    def write_not_encoded(self, reports: Iterable[Report]) -> None:
        """Updates the fields of stored reports that are not encoded: addresses and dates of resolution."""
        values = ((report.url, written_date(report.resolved_at), report.issue_id) for report in reports)
        self.write_all("UPDATE reports SET url = ?, resolved_at = ? WHERE issue_id = ?", values)

    def links(self) -> list[Link]:
        """All links, each of a report, its duplicate and a source."""
        links: list[Link] = self.query("SELECT report, duplicate, source FROM links ORDER BY report, duplicate, source")
        return links

    def has_links_of(self, ids: Sequence[str]) -> bool:
        """Whether any link names one of ``ids``."""
        query = "SELECT 1 FROM links WHERE report = ?1 OR duplicate = ?1 LIMIT 1"
        return any(self.query(query, issue_id) for issue_id in ids)

    def features(self, keys: Sequence[int] | None = None) -> tuple[np.ndarray, list[FeatureRow]]:
        """The keys and features of all reports, or of those with ``keys``, in ascending order of keys."""
        if keys is None:
            rows = self.query(f"SELECT row, {FEATURES} FROM reports ORDER BY row")
        else:
            rows = self.select(f"SELECT row, {FEATURES} FROM reports WHERE row IN {MARKS} ORDER BY row", keys)
        return np.array([row[0] for row in rows], dtype=np.int64), [FeatureRow(*row[1:]) for row in rows]

    def token(self) -> str:
        """A random text that identifies the index file."""
        return str(self.query("SELECT token FROM identity")[0][0])

    def last_change(self) -> int:
        """The number of the last change; 0 if there was none."""
        rows = self.query("SELECT seq FROM sqlite_sequence WHERE name = 'changes'")
        return int(rows[0][0]) if rows else 0

    def has_all_changes_since(self, number: int) -> bool:
        """Whether the log has all changes after one of some number."""
        ((first,),) = self.query("SELECT min(number) FROM changes")
        last = self.last_change()
        return (last if first is None else first - 1) <= number <= last

    def rows_since(self, number: int) -> np.ndarray:
        """The keys of the reports that were added, replaced or deleted after a change, ascending."""
        query = "SELECT DISTINCT row FROM changes WHERE number > ? AND row IS NOT NULL ORDER BY row"
        return np.array([row for (row,) in self.query(query, number)], dtype=np.int64)

    def mark(self) -> str:
        """Names the current state for ``changed_since``; empty if nothing was written yet."""
        return "" if self.is_empty else f"{self.token()}:{self.last_change()}"

    def changed_since(self, mark: str) -> set[str]:
        """Ids of the stored reports that were added or replaced after a mark; all if the log does not tell."""
        if self.is_empty:
            return set()
        token, _, number = mark.partition(":")
        if token != self.token() or not self.has_all_changes_since(int(number)):
            return set(self.contents())
        query = "SELECT issue_id FROM reports WHERE row IN (SELECT row FROM changes WHERE number > ?)"
        return {issue_id for (issue_id,) in self.query(query, int(number))}

    def has_links_since(self, number: int) -> bool:
        """Whether links were added or deleted after a change."""
        query = "SELECT 1 FROM changes WHERE number > ? AND row IS NULL LIMIT 1"
        return bool(self.query(query, number))

    def forget_changes(self, number: int) -> None:
        """Deletes the changes up to ``number`` from the log."""
        self.query("DELETE FROM changes WHERE number <= ?", number)


class StoredVocabulary(Vocabulary):
    """The numbers of terms in an index file, each looked up when it is first needed.

    Attributes:
        num_stored: The number of the first term that is learned.
        terms: The learned terms, which are not in the file yet.
    """

    def __init__(self, store: IndexStore) -> None:
        super().__init__()
        self._store = store
        self._names: dict[int, str] = {}
        self.num_stored = store.num_terms()

    def __len__(self) -> int:
        return self.num_stored + len(self.terms)

    def __getitem__(self, number: int) -> str:
        return self._names[number]

    def __call__(self, texts: Sequence[Sequence[str]], learn: bool) -> list[np.ndarray]:
        """Converts texts to the numbers of their words, each ``(L,)`` int32."""
        missing = list(set(chain.from_iterable(texts)) - self._numbers.keys())
        numbers = dict(
            self._store.select(f"SELECT term, number FROM terms WHERE term != '' AND term IN {MARKS}", missing)
        )
        self._numbers |= numbers
        self._names |= {number: term for term, number in numbers.items()}
        return super().__call__(texts, learn)


def check_features(rows: Sequence[FeatureRow], dim: int, terms: int, path: Path) -> None:
    """Raises ValueError if the features of reports are invalid: a length, a type, a value that is not finite, a term.

    ``dim`` is the size of the vectors, ``terms`` the number of terms in the index; ``path`` is for the message.
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


def packed(description: str) -> str | bytes:
    """A description as it is stored: compressed where that is shorter."""
    encoded = description.encode()
    compressed = zlib.compress(encoded)
    return compressed if len(compressed) < len(encoded) else description


def unpacked(stored: str | bytes | float | None) -> str | bytes | float | None:
    """The description that ``packed`` has stored; a damaged one as it is."""
    if isinstance(stored, bytes):
        with suppress(zlib.error, UnicodeDecodeError):
            return zlib.decompress(stored).decode()
    return stored


def not_an_index(path: Path, reason: str) -> ValueError:
    """The error for a file of another kind."""
    return ValueError(f"{path} is not an index ({reason}): build one with gedbd index")


def remove_caches(folder: Path, change: int) -> None:
    """Deletes the cache files of states before a change, unfinished ones, and the folders of earlier versions."""
    for path in (*folder.glob(f"{CACHE}*"), *folder.glob(f"*{UNFINISHED}{CACHE_SUFFIX}")):
        number = path.stem.removeprefix(CACHE)
        if path.is_dir():
            shutil.rmtree(path)
        elif not number.isdecimal() or int(number) < change:
            path.unlink(missing_ok=True)
