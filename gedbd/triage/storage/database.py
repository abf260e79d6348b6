"""The small SQLite files in an index folder, for feedback and webhook; errors are one line."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gedbd.io.files import connect_database
from gedbd.triage.storage.connection import MAX_CHECKED_BYTES, StoreUnavailable, file_identity, is_damage, wal_path

BUSY_TIMEOUT_S = 5.0
RETRY_AFTER_S = 10


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
