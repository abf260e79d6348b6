"""A cache of values by id: one SQLite file, which several processes may share."""

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gedbd.io.files import connect_database

MAX_PLACEHOLDERS = 500
MAX_UNSTORED = 200  # rows of a transaction
FAST = 1  # of zlib's levels
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
PRIMARY = 0xFF  # the lowest byte of an SQLite error code is the kind of error


class RowCache:
    """JSON values in an SQLite file. The key of a row is a hash of its id and the settings.

    Args:
        folder: The folder of the file, made if absent.
        name: The name of the file, without its ending, and of its table.
        settings: What the values depend on beside the id; a JSON value.

    Attributes:
        file: The file.
        was_damaged: The file was damaged and was deleted.

    Raises:
        ValueError: The folder or file cannot be used.
    """

    def __init__(self, folder: str | Path, name: str, settings: object) -> None:
        self.file = Path(folder).expanduser() / f"{name}.sqlite"
        self.was_damaged = False
        self._table = name
        self._unstored: list[tuple[bytes, bytes]] = []
        self._settings = json.dumps(settings).encode()
        try:
            self.file.parent.mkdir(0o700, parents=True, exist_ok=True)
            self._rows = self._open()
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._store()
        finally:
            self._rows.close()

    def known(self, ids: Sequence[str]) -> set[str]:
        """Those of some ids that the file holds.

        Raises:
            ValueError: The file cannot be read.
        """
        by_key = {self._key(id_): id_ for id_ in ids}
        keys = sorted(by_key)  # in the order of the file's index
        found: set[str] = set()
        for start in range(0, len(keys), MAX_PLACEHOLDERS):
            some = keys[start : start + MAX_PLACEHOLDERS]
            query = f"SELECT key FROM {self._table} WHERE key IN ({','.join('?' * len(some))})"
            try:
                found |= {by_key[key] for (key,) in self._rows.execute(query, some)}
            except sqlite3.Error as error:
                raise self._unusable(error) from error
        return found

    def value(self, id_: str) -> Any:
        """The value of an id; None if its row is absent or damaged."""
        query = f"SELECT content FROM {self._table} WHERE key = ?"
        try:
            row = self._rows.execute(query, (self._key(id_),)).fetchone()
            return None if row is None else json.loads(zlib.decompress(row[0]))
        except (sqlite3.DatabaseError, zlib.error, ValueError, TypeError):
            return None  # zlib compares a checksum, so that flipped bits arrive here too

    def store(self, id_: str, value: object) -> None:
        """Store a value together with the next ones; those before the end of the context are stored there.

        Raises:
            ValueError: The file cannot be written to.
        """
        content = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        self._unstored.append((self._key(id_), zlib.compress(content, FAST)))
        if len(self._unstored) >= MAX_UNSTORED:
            self._store()

    def _store(self) -> None:
        try:
            with self._rows:
                self._rows.executemany(f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?)", self._unstored)
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        self._unstored = []

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connected()
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & PRIMARY not in DAMAGED:
                raise
        self.was_damaged = True
        for suffix in ("", "-journal"):
            self.file.with_name(self.file.name + suffix).unlink(missing_ok=True)
        return self._connected()

    def _connected(self) -> sqlite3.Connection:
        rows = connect_database(self.file, timeout=60)
        try:
            with rows:
                rows.execute(f"CREATE TABLE IF NOT EXISTS {self._table} (key BLOB PRIMARY KEY, content BLOB)")
        except sqlite3.Error:
            rows.close()
            raise
        return rows

    def _key(self, id_: str) -> bytes:
        return hashlib.blake2b(self._settings + id_.encode(), digest_size=16).digest()

    def _unusable(self, error: Exception) -> ValueError:
        return ValueError(f"{self.file} cannot be used ({error}): delete it, or set cache_dir= to another folder")
