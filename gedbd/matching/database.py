"""Opens the small SQLite files beside an index, and says in one line what is wrong with one."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gedbd.matching.connection import StoreUnavailable

BUSY_TIMEOUT_S = 5.0
RETRY_AFTER_S = 10


def open_database(path: Path, schema: str, loss: str) -> sqlite3.Connection:
    """A connection in autocommit mode that several threads may share; what it has committed is on the disk.

    The whole file is checked, so that damage is found before the first use.

    Args:
        path: The file, which is made if there is none.
        schema: Statements that are harmless where their tables exist.
        loss: What is lost with the file, for the message.

    Raises:
        ValueError: If the file is damaged or something else, or may not be written.
    """
    connection = None
    try:
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict.splitlines()[-1])
        connection.executescript(schema)
    except sqlite3.DatabaseError as error:
        if connection is not None:
            connection.close()
        if is_passing(error):
            cure = "check its permissions, free some space, or end the process that holds it"
            raise ValueError(f"{path} cannot be opened for writing ({error}): {cure}") from error
        cure = f"restore it from a backup, or move it and {path.name}-wal away: a new one is made, without {loss}"
        raise ValueError(f"{path} is damaged or another kind of file ({error}): {cure}") from error
    return connection


def is_passing(error: sqlite3.Error) -> bool:
    """Whether a lock, a full disk or missing rights are the cause, and not what the file holds."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the extended codes say more than is asked here
    return code in {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
    }


@contextmanager
def unavailable(path: Path) -> Iterator[None]:
    """Raises StoreUnavailable, naming the file, where it cannot be read or written at the moment."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):  # mistakes of ours, which time does not mend
        raise
    except sqlite3.DatabaseError as error:
        cure = "try again" if is_passing(error) else "restore it from a backup"
        raise StoreUnavailable(f"{path} cannot be used at the moment ({error}): {cure}", RETRY_AFTER_S) from error


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is written within is on the disk afterwards, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
