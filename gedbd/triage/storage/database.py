"""The small SQLite files beside an index, which say in one line what is wrong with them."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gedbd.triage.storage.connection import StoreUnavailable, is_damage, log_of, place_of

BUSY_TIMEOUT_S = 5.0
RETRY_AFTER_S = 10
MAX_CHECKED_BYTES = 1 << 26  # a larger file would delay each start by seconds


class Database:
    """An open file, which several threads may share; what it has committed is on the disk.

    A file of up to 64 MiB is checked as a whole, so that damage is found before the first use; in a larger one it is
    found where it is met.

    Args:
        path: The file, which is made if there is none.
        schema: Statements that are harmless where their tables exist.
        loss: What is lost with the file, for the message.

    Raises:
        ValueError: If the file is damaged or something else, or may not be written.
    """

    def __init__(self, path: Path, schema: str, loss: str) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._connection = _open(path, schema, loss)
        self._places = self._find_places()

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows that a statement gives; outside of ``change`` it is a change of its own.

        Raises:
            StoreUnavailable: If the file cannot be used at the moment.
        """
        with self._available():
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def change(self) -> Iterator[None]:
        """All that is asked for within is on the disk afterwards, or nothing of it; other threads wait.

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
            self._check_places()  # or else it was written where nobody will find it

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _available(self) -> Iterator[None]:
        """Lets one thread at a time use the file. Raises StoreUnavailable where it cannot be used at the moment."""
        with self._lock:
            if not self._connection.in_transaction:
                self._check_places()
            try:
                yield
            except (sqlite3.IntegrityError, sqlite3.ProgrammingError):  # mistakes of ours, which time does not mend
                raise
            except sqlite3.DatabaseError as error:
                cure = "restore it from a backup" if is_damage(error) else "try again"
                words = f"{self.path} cannot be used at the moment ({error}): {cure}"
                raise StoreUnavailable(words, RETRY_AFTER_S) from error

    def _check_places(self) -> None:
        if self._find_places() != self._places:
            words = f"{self.path} was moved, replaced or deleted: put it back, or start the service again"
            raise StoreUnavailable(words, RETRY_AFTER_S)

    def _find_places(self) -> tuple[object, object]:
        return place_of(self.path), place_of(log_of(self.path))


def _open(path: Path, schema: str, loss: str) -> sqlite3.Connection:
    """A connection in autocommit mode; see ``Database``."""
    connection = None
    try:
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        if path.stat().st_size <= MAX_CHECKED_BYTES:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise sqlite3.DatabaseError(verdict.splitlines()[-1])
        connection.executescript(schema)
    except sqlite3.DatabaseError as error:
        if connection is not None:
            connection.close()
        if is_damage(error):
            cure = f"restore it from a backup, or move it and {path.name}-wal away: a new one is made, without {loss}"
            raise ValueError(f"{path} is damaged or another kind of file ({error}): {cure}") from error
        cure = "check its permissions, free some space, or end the process that holds it"
        raise ValueError(f"{path} cannot be opened for writing ({error}): {cure}") from error
    return connection
