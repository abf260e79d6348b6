"""A cache of values by id: one SQLite file, which several processes may share."""

import hashlib
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gedbd.io.files import cache_folder
from gedbd.io.sqlite_file import MARKS, CacheFile, DamagedFileError, StoreUnavailable, delete_database

MAX_UNSTORED = 200  # rows of a transaction
ZLIB_LEVEL = 1  # the fastest level


class RowCache(CacheFile):
    """JSON values in an SQLite file. The key of a row is a hash of its id and the settings.

    The end of the context stores the last values and closes the file. A damaged file is deleted, and
    ``was_damaged`` is set.

    ``folder`` is created if missing; ``name`` is that of the file, without its suffix, and of its table; ``settings``
    is what the values depend on beside the id, a JSON value. Raises ValueError if the folder cannot be used,
    ``StoreUnavailable`` if the file cannot.
    """

    def __init__(self, folder: str | Path, name: str, settings: object) -> None:
        path = cache_folder(folder) / f"{name}.sqlite"
        self.was_damaged = False
        self._name = name
        self._unstored: list[tuple[bytes, bytes]] = []
        self._settings = json.dumps(settings).encode()
        table = f"{name} (key BLOB PRIMARY KEY, content BLOB)"
        try:
            super().__init__(path, table)
        except DamagedFileError:
            self.was_damaged = True
            delete_database(path)
            super().__init__(path, table)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._flush()
        finally:
            self.close()

    def known(self, ids: Sequence[str]) -> set[str]:
        """The ids among ``ids`` whose values are stored."""
        by_key = {self._key(id_): id_ for id_ in ids}
        keys = sorted(by_key)  # in the order of the file's index
        return {by_key[key] for (key,) in self.select(f"SELECT key FROM {self._name} WHERE key IN {MARKS}", keys)}

    def value(self, id_: str) -> Any:
        """The value of an id; None if its row is absent or damaged."""
        try:
            rows = self.query(f"SELECT content FROM {self._name} WHERE key = ?", self._key(id_))
            return json.loads(zlib.decompress(rows[0][0])) if rows else None
        except (StoreUnavailable, zlib.error, ValueError, TypeError):
            return None  # zlib compares a checksum, so that flipped bits arrive here too

    def put(self, id_: str, value: object) -> None:
        """Stores a value in a batch with the next ones; the end of the context stores the last batch."""
        content = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        self._unstored.append((self._key(id_), zlib.compress(content, ZLIB_LEVEL)))
        if len(self._unstored) >= MAX_UNSTORED:
            self._flush()

    def _flush(self) -> None:
        self.store(self._unstored)
        self._unstored = []

    def _key(self, id_: str) -> bytes:
        return hashlib.blake2b(self._settings + id_.encode(), digest_size=16).digest()
