"""A connection to an SQLite file which says in one line why the file cannot be used.

Whatever SQLite refuses becomes a ``StoreUnavailable``: the file is locked or damaged, its disk is full or read-only. A
file that may only be read is opened for reading.
"""

import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gedbd.triage.storage.damage import CURE

LOCK_TIMEOUT_S = 5.0
MAX_REASON = 120  # characters; SQLite quotes what it cannot decode
PRIMARY_CODE = 0xFF  # SQLite tells kinds of one error apart in the bits above
LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
NO_PERMISSION = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH)
FAILING = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOLFS)
# What may also be said of a file that can be read: its folder takes no further files, or its disk is full.
STILL_READABLE = (*NO_PERMISSION, *FAILING, sqlite3.SQLITE_FULL)

log = logging.getLogger("gedbd")


class StoreUnavailable(Exception):  # noqa: N818 (it names a state of the store, and callers wait for its end)
    """The index file cannot be used at the moment.

    Attributes:
        retry_after_s: After so many seconds it may be tried again.
    """

    def __init__(self, message: str, retry_after_s: int = 5) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Connection:
    """One connection. It may be used from several threads, one at a time.

    Args:
        path: The file.
        create: Make it if there is none; it must be writable then.
        timeout_s: The longest wait for a lock that somebody else has.

    Attributes:
        refusal: Why it is open for reading only; empty if it may be written to.

    Raises:
        sqlite3.DatabaseError: If it cannot be opened.
    """

    def __init__(self, path: Path, create: bool, timeout_s: float = LOCK_TIMEOUT_S) -> None:
        self.path = path
        self.refusal = ""
        self._damage_told = False
        try:
            self._sqlite = self._connect("mode=rwc" if create else "mode=rw", timeout_s)
        except sqlite3.DatabaseError as error:
            if create or code_of(error) not in STILL_READABLE:
                raise
            self._sqlite = self._connect_to_read(error, timeout_s)
            self.refusal = str(error)

    def _connect(self, options: str, timeout_s: float) -> sqlite3.Connection:
        """A connection through which something was read."""
        address = f"{self.path.absolute().as_uri()}?{options}"
        connection = sqlite3.connect(
            address, uri=True, timeout=timeout_s, check_same_thread=False, isolation_level=None
        )
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError:
            connection.close()
            raise
        return connection

    def _connect_to_read(self, refused: sqlite3.DatabaseError, timeout_s: float) -> sqlite3.Connection:
        """A connection to a file that cannot be changed.

        Where no file can be made beside it, it can be read as it stands, unless its last changes are still in the
        write-ahead log.
        """
        try:
            return self._connect("mode=ro", timeout_s)
        except sqlite3.DatabaseError:
            beside = log_of(self.path)
            if beside.exists() and beside.stat().st_size:
                raise refused from None
            try:
                return self._connect("immutable=1", timeout_s)
            except sqlite3.DatabaseError:
                raise refused from None

    def keep_log(self) -> None:
        """Has changes written to a log beside the file, so that readers and a writer do not wait for each other."""
        self.rows("PRAGMA journal_mode=WAL")
        self.rows("PRAGMA synchronous=FULL")

    def close(self) -> None:
        """Ends the connection."""
        self._sqlite.close()

    def run(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """What a statement gives, all of it."""
        return self._sqlite.execute(statement, values).fetchall()

    @contextmanager
    def told(self) -> Iterator[None]:
        """What SQLite refuses within is told as ``StoreUnavailable``; damage goes to the log, once."""
        try:
            yield
        except (sqlite3.ProgrammingError, sqlite3.IntegrityError):
            raise  # a mistake of this package, not the file's state
        except sqlite3.DatabaseError as error:
            message = explain(self.path, error)
            if is_damage(error) and not self._damage_told:
                self._damage_told = True
                log.error("%s", message)
            raise StoreUnavailable(message) from error

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """What a statement gives, all of it. Raises StoreUnavailable."""
        with self.told():
            return self.run(statement, values)

    def write_all(self, statement: str, values: Iterable[Sequence[object]]) -> None:
        """Runs a statement with each of some values. Raises StoreUnavailable."""
        with self.told():
            self._sqlite.executemany(statement, values)

    @contextmanager
    def change(self) -> Iterator[None]:
        """All that is written within is there afterwards and on disk, or nothing of it. Raises StoreUnavailable."""
        self.rows("BEGIN IMMEDIATE")
        try:
            yield
            self.rows("COMMIT")
        except BaseException:
            if self._sqlite.in_transaction:  # SQLite has ended it itself where the disk is full
                self.rows("ROLLBACK")
            raise

    @contextmanager
    def moment(self) -> Iterator[None]:
        """All that is read within is of one moment, whatever others write meanwhile."""
        if self._sqlite.in_transaction:
            yield
            return
        self.rows("BEGIN")
        try:
            yield
        finally:
            self.rows("ROLLBACK")


def code_of(error: sqlite3.Error) -> int:
    """SQLite's number of an error; 0 where Python's module gives none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & PRIMARY_CODE


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that the file does not hold what it should."""
    return code_of(error) not in (*LOCKED, *STILL_READABLE)


def explain(path: Path, error: sqlite3.Error) -> str:
    """Why a file cannot be used, and what to do."""
    code, said = code_of(error), " ".join(str(error).split())[:MAX_REASON]
    if code in LOCKED:
        return f"{path} is locked by another process: try again when that has ended"
    if code == sqlite3.SQLITE_FULL:
        return f"{path} cannot be changed, as its disk is full: free some space there"
    if code in NO_PERMISSION:
        return f"{path} cannot be changed ({said}): get permission for it and its folder, on a disk that is writable"
    if code in FAILING:
        return f"{path} cannot be used ({said}): check its disk, and free some space there"
    return f"{path} is damaged ({said}): {CURE}"


def place_of(path: Path) -> tuple[int, int] | None:
    """Device and number of a file, which tell it from another one of the same name; None if it is gone."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def log_of(path: Path) -> Path:
    """The write-ahead log beside a file."""
    return path.with_name(f"{path.name}-wal")
