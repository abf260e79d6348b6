"""SQLite files of stores and caches, with one-line errors.

Errors of SQLite become ``StoreUnavailable``: the file is locked or damaged, its disk is full or read-only. A file that
cannot be written is opened for reading.

SQLite creates ``-wal`` and ``-shm`` even to read. A read-only file for which no other process has created them is
opened as immutable, and is checked for changes after each statement.

A file may come from someone else, and SQLite runs its triggers, views and constraints. So a file is only used if it
defines what this package defines, see ``check_schema``.
"""

import logging
import os
import re
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from gedbd.io.files import check_link, check_regular

LOCK_TIMEOUT_S = 5.0
MAX_CHECKED_BYTES = 1 << 26  # size up to which the structure of a file is checked on opening; 40 ms
MAX_REASON = 120  # characters; SQLite quotes text that it cannot decode
MAX_VALUES = 500  # SQLite bounds the number of values of a statement
MARKS = "(?)"
PRIMARY_CODE = 0xFF  # higher bits distinguish kinds of one error
LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
NO_PERMISSION = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH)
FAILING = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOLFS)
# SQLite also reports these for a readable file whose folder cannot be written or whose disk is full.
STILL_READABLE = (*NO_PERMISSION, *FAILING, sqlite3.SQLITE_FULL)
# Comments and spaces of SQL, or one of its other tokens; SQLite keeps the text of a definition.
TOKEN = re.compile(r"""--[^\n]*|/\*.*?\*/|[ \t\n\f\r]+|('[^']*'|"[^"]*"|`[^`]*`|\[[^]]*]|\w+|.)""", re.DOTALL)
STATISTICS = {("table", "sqlite_stat1"): "sqlite_stat1(tbl,idx,stat)"}  # of the statement ANALYZE
log = logging.getLogger("gedbd")


class StoreUnavailable(Exception):  # noqa: N818 (it names a state of the store, and callers wait until it ends)
    """The file cannot be used at the moment.

    Attributes:
        retry_after_s: Seconds after which a retry may succeed.
    """

    def __init__(self, message: str, retry_after_s: int = 5) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DamagedFileError(StoreUnavailable):
    """The file is damaged or not a database of this package."""


def connect_database(path: Path, mode: str = "mode=rwc", **options: Any) -> sqlite3.Connection:
    """Opens an SQLite file in which deleted content is overwritten; only the owner can read a new file.

    Args:
        path: The file.
        mode: The query of its URI, such as ``mode=ro``; by default the file is created if absent.
        **options: Those of ``sqlite3.connect``.

    Raises:
        sqlite3.DatabaseError: If it cannot be opened.
        ValueError: If it is a symbolic link of another user, or no regular file.
    """
    check_link(path)
    if not path.is_dir():  # SQLite reports a folder
        check_regular(path)
    if mode == "mode=rwc" and not path.exists():
        with suppress(OSError):  # SQLite reports what is wrong
            path.touch(mode=0o600)
    connection: sqlite3.Connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, **options)
    try:
        # Only some systems enable it by default. SQLite gives -wal and -shm the mode of the file.
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute("PRAGMA trusted_schema=OFF")  # definitions in the file call no function with side effects
        connection.execute(
            "SELECT count(*) FROM sqlite_master"
        ).fetchone()  # SQLite opens the file with the first query
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def check_schema(connection: sqlite3.Connection, schema: str, may_lack: bool = True) -> None:
    """Checks that a file defines tables, indexes, views and triggers as a schema does, and no others.

    Args:
        connection: The open file.
        schema: The statements that create the tables of a new file.
        may_lack: Whether definitions may be missing, as they are created next.

    Raises:
        sqlite3.DatabaseError: If it does not; the message names the first difference.
    """
    expected = _expected(schema)
    found = _definitions(connection)
    for (kind, name), tokens in found.items():
        if (kind, name) not in expected:
            raise sqlite3.DatabaseError(f"it has the {kind} {name!r:.80}, which gedbd did not make")
        if tokens != expected[kind, name]:
            raise sqlite3.DatabaseError(f"its {kind} {name} is not as gedbd makes it")
    missing = [key for key in expected if key not in found and key not in STATISTICS]
    if missing and not may_lack:
        raise sqlite3.DatabaseError("it has no {} {}".format(*missing[0]))


@cache
def _expected(schema: str) -> dict[tuple[str, str], list[str]]:
    with closing(sqlite3.connect(":memory:")) as own:
        own.executescript(schema)
        return _definitions(own) | {key: TOKEN.findall(f"CREATE TABLE {text}") for key, text in STATISTICS.items()}


def _definitions(connection: sqlite3.Connection) -> dict[tuple[str, str], list[str]]:
    """The tokens of what a file defines, without comments, by kind and name; none for the index of a key."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    return {(str(kind), str(name)): list(filter(None, TOKEN.findall(str(sql or "")))) for kind, name, sql in rows}


class SqliteFile:
    """An open SQLite file that threads can share.

    Args:
        path: The file.
        cure: What to do about a damaged file, for error messages.
        create: Whether to create it if absent; it must be writable then.
        timeout_s: How long to wait for the lock of another process.
        must_stay: Whether statements fail once the file or its log was replaced or deleted, so that no change is lost.
        read_only: Whether to write nothing, neither the file nor ``-wal`` and ``-shm``.

    Attributes:
        refusal: Why it is open for reading only; empty if it can be written.

    Raises:
        StoreUnavailable: If it cannot be opened; ``DamagedFileError`` if it is damaged.
        ValueError: If it is a symbolic link of another user.
    """

    def __init__(
        self, path: Path, cure: str, create: bool, timeout_s: float, must_stay: bool, read_only: bool = False
    ) -> None:
        self.path = path
        self.refusal = ""
        self._immutable_version: tuple[object, ...] | None = None  # see ``_content_version``
        self._cure = cure
        self.create = create
        self.read_only = read_only
        self._must_stay = False
        self._damage_logged = False
        self._lock = threading.RLock()
        try:
            if read_only:
                self._sqlite = self._connect_without_writing(timeout_s)
            else:
                self._sqlite = self._connect("mode=rwc" if create else "mode=rw", timeout_s)
        except sqlite3.DatabaseError as error:
            if create or read_only or code_of(error) not in STILL_READABLE:
                raise self._unavailable(error) from error
            self._sqlite = self._connect_to_read(error, timeout_s)
            self.refusal = str(error)
        try:
            self.prepare()
        except BaseException:
            self.close()
            raise
        self._identity = self._current_identity()
        self._must_stay = must_stay

    def prepare(self) -> None:
        """Checks or creates the tables. Raises ValueError or StoreUnavailable."""

    def _connect(self, options: str, timeout_s: float) -> sqlite3.Connection:
        return connect_database(self.path, options, timeout=timeout_s, check_same_thread=False, isolation_level=None)

    def _connect_without_writing(self, timeout_s: float) -> sqlite3.Connection:
        """A connection that creates no file.

        Raises:
            StoreUnavailable: If a process was killed before its last changes reached the file.
        """
        self.refusal = "it is opened for reading only"
        wal = wal_path(self.path)
        if wal.exists() and self.path.with_name(f"{self.path.name}-shm").exists():
            return self._connect("mode=ro", timeout_s)  # another process has created both, and may change the file
        if self._log_bytes():
            raise StoreUnavailable(f"{wal} holds changes that are not in {self.path.name} yet: run gedbd search once")
        self._immutable_version = self._content_version()
        return self._connect("immutable=1", timeout_s)

    def _content_version(self) -> tuple[object, ...]:
        """Identity, size and time of change of the file, and the size of its log; they change with the content."""
        try:
            status = os.stat(self.path)
        except OSError:
            return (None, 0, 0, 0)
        return ((status.st_dev, status.st_ino), status.st_size, status.st_mtime_ns, self._log_bytes())

    def _log_bytes(self) -> int:
        """Size of the write-ahead log; 0 without one."""
        wal = wal_path(self.path)
        return wal.stat().st_size if wal.exists() else 0

    def _connect_to_read(self, refusal: sqlite3.DatabaseError, timeout_s: float) -> sqlite3.Connection:
        """A connection to a file that cannot be written, or the error for ``refusal``."""
        with suppress(sqlite3.DatabaseError):
            return self._connect("mode=ro", timeout_s)
        # SQLite cannot create its files in this folder, but can read a file whose write-ahead log is empty.
        if not self._log_bytes():
            with suppress(sqlite3.DatabaseError):
                return self._connect("immutable=1", timeout_s)
        raise self._unavailable(refusal) from refusal

    def enable_wal(self) -> None:
        """Enables the write-ahead log, so that readers and a writer do not wait for each other."""
        self.query("PRAGMA journal_mode=WAL")
        self.query("PRAGMA synchronous=FULL")
        self.query("SELECT count(*) FROM sqlite_master")  # creates the log, which ``_check_identity`` compares

    def check_schema(self, schema: str, may_lack: bool = True) -> None:
        """Compares the tables with a schema as ``check_schema`` does. Raises StoreUnavailable."""
        try:
            check_schema(self._sqlite, schema, may_lack)
        except sqlite3.DatabaseError as error:
            raise self._unavailable(error) from error

    def check_structure(self) -> None:
        """Checks the integrity of a file of up to ``MAX_CHECKED_BYTES``, as it may be a copy of several states.

        Raises:
            DamagedFileError: If its pages or indexes are inconsistent.
        """
        if self.path.stat().st_size <= MAX_CHECKED_BYTES:
            ((result,),) = self.query("PRAGMA integrity_check(1)")
            if result != "ok":
                raise DamagedFileError(f"{self.path} is damaged ({' '.join(result.split())}): {self._cure}")

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._sqlite.close()

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Runs a statement, outside ``transaction`` as a transaction of its own, and returns all rows.

        Raises:
            StoreUnavailable: If the file cannot be used at the moment.
        """
        with self._locked():
            return self._sqlite.execute(statement, values).fetchall()

    def select(self, query: str, values: Sequence[object], *first: object) -> list[tuple[Any, ...]]:
        """The rows of a query in chunks of ``values``.

        Args:
            query: The query, with ``MARKS`` in place of the values.
            values: The values.
            first: Values of the placeholders before them.

        Raises:
            StoreUnavailable: If the file cannot be used at the moment.
        """
        rows = []
        for start in range(0, len(values), MAX_VALUES):
            chunk = values[start : start + MAX_VALUES]
            rows += self.query(query.replace(MARKS, f"({', '.join('?' * len(chunk))})"), *first, *chunk)
        return rows

    def write_all(self, statement: str, values: Iterable[Sequence[object]]) -> None:
        """Runs a statement for each row of values. Raises StoreUnavailable."""
        with self._locked():
            self._sqlite.executemany(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A writing transaction: all changes are on disk at its end, or none; other threads wait.

        Raises:
            StoreUnavailable: If the file cannot be used at the moment.
        """
        with self._lock:
            self.query("BEGIN IMMEDIATE")
            try:
                yield
                self.query("COMMIT")
            except BaseException:
                if self._sqlite.in_transaction:  # SQLite rolls back by itself if the disk is full
                    self.query("ROLLBACK")
                raise
            self._check_identity()  # a file that replaced this one lacks the changes

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A reading transaction: all reads see the same state."""
        with self._lock:
            if self._sqlite.in_transaction:
                yield
                return
            self.query("BEGIN")
            try:
                yield
            finally:
                self.query("ROLLBACK")

    def checkpoint(self) -> None:
        """Moves all changes to the file and empties the write-ahead log, which may hold deleted text.

        Raises:
            StoreUnavailable: If the file cannot be used, or another process still reads an older state of it.
        """
        ((is_busy, _, _),) = self.query("PRAGMA wal_checkpoint(TRUNCATE)")
        if is_busy:
            wal = wal_path(self.path)
            raise StoreUnavailable(f"{wal} still holds what was deleted, as it is being read: try again")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds the lock of the file, converts errors to ``StoreUnavailable``, and logs damage once."""
        with self._lock:
            if not self._sqlite.in_transaction:
                self._check_identity()
            try:
                yield
                self._check_unchanged()
            except (sqlite3.ProgrammingError, sqlite3.IntegrityError):
                raise  # a bug of this package, not a state of the file
            except sqlite3.DatabaseError as error:
                unavailable = self._unavailable(error)
                if isinstance(unavailable, DamagedFileError) and not self._damage_logged:
                    self._damage_logged = True
                    log.error("%s", unavailable)
                raise unavailable from error

    def _unavailable(self, error: sqlite3.Error) -> StoreUnavailable:
        """Why the file cannot be used, and what to do."""
        code = code_of(error)
        reason = " ".join(str(error).split())[:MAX_REASON]
        if code in LOCKED:
            return StoreUnavailable(f"{self.path} is locked by another process: try again when it has finished")
        if code == sqlite3.SQLITE_FULL:
            return StoreUnavailable(f"{self.path} cannot be changed because its disk is full: free some space")
        if code in NO_PERMISSION:
            cure = "check the permissions of the file, its folder and its disk"
            return StoreUnavailable(f"{self.path} cannot be changed ({reason}): {cure}")
        if code in FAILING:
            return StoreUnavailable(f"{self.path} cannot be used ({reason}): check its disk, and free some space")
        return DamagedFileError(f"{self.path} is damaged ({reason}): {self._cure}")

    @property
    def is_replaced(self) -> bool:
        """Whether the file at the path was replaced or deleted, or changed if it is read as immutable."""
        if self._immutable_version is not None:
            return self._content_version() != self._immutable_version
        return file_identity(self.path) != self._identity[0]

    @property
    def is_log_kept(self) -> bool:
        """Whether the write-ahead log at the path is still that of the open file."""
        wal = self._identity[1]
        return self._immutable_version is None and wal is not None and file_identity(wal_path(self.path)) == wal

    def _check_unchanged(self) -> None:
        """Raises StoreUnavailable if an immutable file has changed in place."""
        if self._immutable_version is None:
            return
        version = self._content_version()
        # The open file does not change if another one replaces it.
        if version[0] == self._immutable_version[0] and version != self._immutable_version:
            raise StoreUnavailable(f"{self.path} has changed while it was read: try again", 1)

    def _check_identity(self) -> None:
        if not self._must_stay:
            return
        identity, wal = self._current_identity()
        if identity != self._identity[0]:
            raise StoreUnavailable(f"{self.path} was replaced or deleted: put it back as a whole, or restart")
        if wal != self._identity[1]:
            raise StoreUnavailable(
                f"{wal_path(self.path)} was replaced or deleted: stop what uses {self.path.name}, and start it again"
            )

    def _current_identity(self) -> tuple[object, object]:
        return file_identity(self.path), file_identity(wal_path(self.path))


class Database(SqliteFile):
    """A database of an index folder, whose integrity is checked on opening.

    Args:
        path: The file, created if absent.
        schema: Statements that change nothing if their tables exist.
        loss: What is lost with the file, for the error message.

    Raises:
        ValueError: If the file is damaged or of another kind, or cannot be written.
    """

    def __init__(self, path: Path, schema: str, loss: str) -> None:
        self._schema = schema
        cure = f"restore it from a backup, or move it and {path.name}-wal away to start without {loss}"
        try:
            super().__init__(path, cure, create=True, timeout_s=LOCK_TIMEOUT_S, must_stay=True)
        except StoreUnavailable as error:
            raise ValueError(str(error)) from error

    def prepare(self) -> None:
        """Enables the write-ahead log, checks schema and integrity, and creates the tables."""
        self.check_schema(self._schema)
        self.enable_wal()
        self.check_structure()
        with self._locked():
            self._sqlite.executescript(self._schema)


class CacheFile(SqliteFile):
    """A cache in one table, which several processes may share.

    Args:
        path: The file, created if absent.
        table: The table in SQL, such as ``captions (image TEXT PRIMARY KEY, caption TEXT)``.
        page_bytes: Size of the pages of a new file.

    Raises:
        StoreUnavailable: If it cannot be used, as in the methods; ``DamagedFileError`` if it is damaged.
        ValueError: If it is a symbolic link of another user.
    """

    def __init__(self, path: Path, table: str, page_bytes: int = 4_096) -> None:
        self._table = table
        self._page_bytes = page_bytes
        cure = "delete it, or set cache_dir= to another folder"
        super().__init__(path, cure, create=True, timeout_s=60.0, must_stay=False)

    def prepare(self) -> None:
        """Creates the table."""
        create = f"CREATE TABLE IF NOT EXISTS {self._table}"
        self.check_schema(create)
        self.query(f"PRAGMA page_size = {self._page_bytes}")
        self.query(create)

    def store(self, rows: Iterable[Sequence[object]]) -> None:
        """Adds rows, or replaces those with the same keys, in one transaction."""
        values = [tuple(row) for row in rows]
        if not values:
            return
        name = self._table.partition(" ")[0]
        with self.transaction():
            self.write_all(f"INSERT OR REPLACE INTO {name} VALUES ({', '.join('?' * len(values[0]))})", values)


def code_of(error: sqlite3.Error) -> int:
    """SQLite's code of an error; 0 if Python's module gives none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & PRIMARY_CODE


def file_identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of a file, which differ for another file of the same name; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def wal_path(path: Path) -> Path:
    """The write-ahead log of a file."""
    return path.with_name(f"{path.name}-wal")


def delete_database(path: Path) -> None:
    """Deletes a file and its journals; a process that has it open can still read it."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
