"""A connection to an SQLite file that reports in one line why the file cannot be used.

Errors of SQLite become ``StoreUnavailable``: the file is locked or damaged, its disk is full or read-only. A file that
cannot be written is opened for reading.
"""

import logging
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gedbd.io.files import connect_database
from gedbd.triage.storage.rows import CURE

BUSY_TIMEOUT_S = 5.0
RETRY_AFTER_S = 10
LOCK_TIMEOUT_S = 5.0
MAX_CHECKED_BYTES = 1 << 26  # of a file whose structure is checked when it is opened; 40 ms
MAX_REASON = 120  # characters; SQLite quotes text that it cannot decode
PRIMARY_CODE = 0xFF  # the bits above tell kinds of one error apart
LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
NO_PERMISSION = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH)
FAILING = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOLFS)
# SQLite also reports these for a file that can be read: its folder takes no further files, or its disk is full.
STILL_READABLE = (*NO_PERMISSION, *FAILING, sqlite3.SQLITE_FULL)
log = logging.getLogger("gedbd")


class StoreUnavailable(Exception):  # noqa: N818 (it names a state of the store, and callers wait until it ends)
    """The file cannot be used at the moment.

    Attributes:
        retry_after_s: Seconds after which another try may succeed.
    """

    def __init__(self, message: str, retry_after_s: int = 5) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Connection:
    """One connection. It may be used from several threads, one at a time.

    Args:
        path: The file.
        create: Create it if there is none; it must be writable then.
        timeout_s: How long to wait for a lock that another process has.

    Attributes:
        refusal: Why it is open for reading only; empty if it can be written.

    Raises:
        sqlite3.DatabaseError: If it cannot be opened.
        ValueError: If it is a symbolic link of another user.
    """

    def __init__(self, path: Path, create: bool, timeout_s: float = LOCK_TIMEOUT_S) -> None:
        self.path = path
        self.refusal = ""
        self._damage_logged = False
        try:
            self._sqlite = self._connect("mode=rwc" if create else "mode=rw", timeout_s)
        except sqlite3.DatabaseError as error:
            if create or code_of(error) not in STILL_READABLE:
                raise
            self._sqlite = self._connect_to_read(error, timeout_s)
            self.refusal = str(error)

    def _connect(self, options: str, timeout_s: float) -> sqlite3.Connection:
        """A connection that has read something: SQLite opens a file no earlier."""
        connection = connect_database(
            self.path, options, timeout=timeout_s, check_same_thread=False, isolation_level=None
        )
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError:
            connection.close()
            raise
        return connection

    def _connect_to_read(self, refused: sqlite3.DatabaseError, timeout_s: float) -> sqlite3.Connection:
        """A connection to a file that cannot be changed."""
        try:
            return self._connect("mode=ro", timeout_s)
        except sqlite3.DatabaseError:
            # SQLite cannot create its files in this folder. The file alone can be read all the same, unless its last
            # changes are still in the write-ahead log.
            wal = wal_path(self.path)
            if wal.exists() and wal.stat().st_size:
                raise refused from None
            try:
                return self._connect("immutable=1", timeout_s)
            except sqlite3.DatabaseError:
                raise refused from None

    def enable_wal(self) -> None:
        """Writes changes to a write-ahead log, so that readers and a writer do not wait for each other."""
        self.rows("PRAGMA journal_mode=WAL")
        self.rows("PRAGMA synchronous=FULL")

    def checkpoint(self) -> None:
        """Moves all changes to the file, and empties the write-ahead log, where deleted text is until then.

        Raises:
            StoreUnavailable: If the file cannot be used, or another process still reads an older state of it.
        """
        ((is_busy, _, _),) = self.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        if is_busy:
            raise StoreUnavailable(
                f"{wal_path(self.path)} still holds what was deleted, as it is being read: try again"
            )

    def close(self) -> None:
        """Closes the connection."""
        self._sqlite.close()

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raises errors of SQLite as ``StoreUnavailable``; damage is logged once."""
        try:
            yield
        except (sqlite3.ProgrammingError, sqlite3.IntegrityError):
            raise  # a bug of this package, not a state of the file
        except sqlite3.DatabaseError as error:
            message = explain_error(self.path, error)
            if is_damage(error) and not self._damage_logged:
                self._damage_logged = True
                log.error("%s", message)
            raise StoreUnavailable(message) from error

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement. Raises StoreUnavailable."""
        with self._translated_errors():
            return self._sqlite.execute(statement, values).fetchall()

    def write_all(self, statement: str, values: Iterable[Sequence[object]]) -> None:
        """Runs a statement with each of several values. Raises StoreUnavailable."""
        with self._translated_errors():
            self._sqlite.executemany(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction that writes: at its end all changes are on disk, or none. Raises StoreUnavailable."""
        self.rows("BEGIN IMMEDIATE")
        try:
            yield
            self.rows("COMMIT")
        except BaseException:
            if self._sqlite.in_transaction:  # SQLite rolls back by itself if the disk is full
                self.rows("ROLLBACK")
            raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A transaction that reads: all reads see the same state, whatever other processes write."""
        if self._sqlite.in_transaction:
            yield
            return
        self.rows("BEGIN")
        try:
            yield
        finally:
            self.rows("ROLLBACK")


def code_of(error: sqlite3.Error) -> int:
    """SQLite's code of an error; 0 if Python's module gives none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & PRIMARY_CODE


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that the content of the file is damaged."""
    return code_of(error) not in (*LOCKED, *STILL_READABLE)


def explain_error(path: Path, error: sqlite3.Error) -> str:
    """Why a file cannot be used, and what to do."""
    code = code_of(error)
    reason = " ".join(str(error).split())[:MAX_REASON]
    if code in LOCKED:
        return f"{path} is locked by another process: try again when it has finished"
    if code == sqlite3.SQLITE_FULL:
        return f"{path} cannot be changed because its disk is full: free some space"
    if code in NO_PERMISSION:
        return f"{path} cannot be changed ({reason}): check the permissions of the file, its folder and its disk"
    if code in FAILING:
        return f"{path} cannot be used ({reason}): check its disk, and free some space"
    return f"{path} is damaged ({reason}): {CURE}"


def file_identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of a file, which differ for another file of the same name; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def wal_path(path: Path) -> Path:
    """The write-ahead log of a file."""
    return path.with_name(f"{path.name}-wal")


class Database:
    """An open file, which several threads may share; committed changes are on disk.

    A file of up to 64 MiB is checked as a whole when it is opened. Damage in a larger file shows when the damaged part
    is read.

    Args:
        path: The file, which is created if there is none.
        schema: Statements that change nothing if their tables exist.
        loss: What is lost with the file, for the error message.

    Raises:
        ValueError: If the file is damaged or of another kind, or cannot be written.
    """

    def __init__(self, path: Path, schema: str, loss: str) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._connection = _open(path, schema, loss)
        self._identity = self._current_identity()

    def query(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows of a statement; outside of ``transaction`` it is a transaction of its own.

        Raises:
            StoreUnavailable: If the file cannot be used at the moment.
        """
        with self._available():
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction: at its end all changes are on disk, or none; other threads wait.

        Raises:
            StoreUnavailable: If the file cannot be used at the moment.
        """
        with self._available():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            self._check_identity()  # a file that was replaced meanwhile does not have the changes

    def checkpoint(self) -> None:
        """Moves all changes to the file, and empties the write-ahead log, where deleted text is until then.

        Raises:
            StoreUnavailable: If the file cannot be used, or another process reads an older state of it.
        """
        ((is_busy, _, _),) = self.query("PRAGMA wal_checkpoint(TRUNCATE)")
        if is_busy:
            message = f"{wal_path(self.path)} still holds what was deleted, as it is being read: try again"
            raise StoreUnavailable(message, RETRY_AFTER_S)

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _available(self) -> Iterator[None]:
        """Lets one thread at a time use the file. Raises StoreUnavailable if it cannot be used at the moment."""
        with self._lock:
            if not self._connection.in_transaction:
                self._check_identity()
            try:
                yield
            except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
                raise  # a bug of this package: trying again does not help
            except sqlite3.DatabaseError as error:
                cure = "restore it from a backup" if is_damage(error) else "try again"
                message = f"{self.path} cannot be used at the moment ({error}): {cure}"
                raise StoreUnavailable(message, RETRY_AFTER_S) from error

    def _check_identity(self) -> None:
        if self._current_identity() != self._identity:
            message = f"{self.path} was moved, replaced or deleted: put it back, or restart the service"
            raise StoreUnavailable(message, RETRY_AFTER_S)

    def _current_identity(self) -> tuple[object, object]:
        return file_identity(self.path), file_identity(wal_path(self.path))


def _open(path: Path, schema: str, loss: str) -> sqlite3.Connection:
    """A connection in autocommit mode; see ``Database``."""
    connection = None
    try:
        connection = connect_database(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        if path.stat().st_size <= MAX_CHECKED_BYTES:
            (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if result != "ok":
                raise sqlite3.DatabaseError(result.splitlines()[-1])
        connection.executescript(schema)
    except sqlite3.DatabaseError as error:
        if connection is not None:
            connection.close()
        if is_damage(error):
            cure = f"restore it from a backup, or move it and {path.name}-wal away to start without {loss}"
            raise ValueError(f"{path} is damaged or not a file of gedbd ({error}): {cure}") from error
        cure = "check its permissions, free some space, or stop the process that has locked it"
        raise ValueError(f"{path} cannot be opened for writing ({error}): {cure}") from error
    return connection
