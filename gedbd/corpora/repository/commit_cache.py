"""A cache of commits by their ids: one SQLite file, which several repositories and processes may share."""

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gedbd.corpora.repository.commits import Commit, FileChange, Hunk, Limits
from gedbd.corpora.repository.objects import Losses, ReadCommit
from gedbd.corpora.repository.walk import WalkedCommit

FILE = "commits.sqlite"
FORMAT = 1  # to be raised when commits are read or stored differently
MAX_PLACEHOLDERS = 500
MAX_UNSTORED = 200  # commits of a transaction
FAST = 1  # of zlib's levels
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
PRIMARY = 0xFF  # the lowest byte of an SQLite error code is the kind of error


class CommitCache:
    """Commits in an SQLite file. The key of a row is a hash of the commit's id, the limits and the format.

    The date is not stored: it depends on the history that the commit is part of.

    Args:
        folder: The folder of the file, made if absent.
        limits: Limits with which the commits were read.

    Attributes:
        was_damaged: The file was damaged and was deleted.

    Raises:
        ValueError: The folder or file cannot be used.
    """

    def __init__(self, folder: str | Path, limits: Limits) -> None:
        self.file = Path(folder).expanduser() / FILE
        self.was_damaged = False
        self._unstored: list[tuple[bytes, bytes]] = []
        self._settings = json.dumps([FORMAT, *limits]).encode()
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
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
        """Those of some commits that the file holds.

        Raises:
            ValueError: The file cannot be read.
        """
        by_key = {self._key(commit): commit for commit in ids}
        keys = sorted(by_key)  # in the order of the file's index
        found: set[str] = set()
        for start in range(0, len(keys), MAX_PLACEHOLDERS):
            some = keys[start : start + MAX_PLACEHOLDERS]
            query = f"SELECT key FROM commits WHERE key IN ({','.join('?' * len(some))})"
            try:
                found |= {by_key[key] for (key,) in self._rows.execute(query, some)}
            except sqlite3.Error as error:
                raise self._unusable(error) from error
        return found

    def get(self, walked: WalkedCommit) -> ReadCommit | None:
        """A commit with the date of this history; None if its row is absent or damaged."""
        try:
            row = self._rows.execute("SELECT content FROM commits WHERE key = ?", (self._key(walked.id),)).fetchone()
            return None if row is None else _decoded(row[0], walked)
        except (sqlite3.DatabaseError, zlib.error, ValueError, TypeError):
            return None  # zlib compares a checksum, so that flipped bits arrive here too

    def add(self, read: ReadCommit) -> None:
        """Store a commit together with the next ones; those before the end of the context are stored there.

        Raises:
            ValueError: The file cannot be written to.
        """
        self._unstored.append((self._key(read.commit.id), _encoded(read)))
        if len(self._unstored) >= MAX_UNSTORED:
            self._store()

    def _store(self) -> None:
        try:
            with self._rows:
                self._rows.executemany("INSERT OR REPLACE INTO commits VALUES (?, ?)", self._unstored)
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
        rows = sqlite3.connect(self.file, timeout=60)
        try:
            with rows:
                rows.execute("CREATE TABLE IF NOT EXISTS commits (key BLOB PRIMARY KEY, content BLOB)")
        except sqlite3.Error:
            rows.close()
            raise
        return rows

    def _key(self, commit: str) -> bytes:
        return hashlib.blake2b(self._settings + commit.encode(), digest_size=16).digest()

    def _unusable(self, error: Exception) -> ValueError:
        return ValueError(f"{self.file} cannot be used ({error}): delete it, or name another folder as cache_dir")


def _encoded(read: ReadCommit) -> bytes:
    commit = read.commit
    files = [_file_values(file) for file in commit.files]
    values = [commit.message, commit.parents, files, commit.is_cut, read.losses]
    return zlib.compress(json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode(), FAST)


def _file_values(file: FileChange) -> list[object]:
    hunks = [
        (hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count, hunk.section, hunk.lines)
        for hunk in file.hunks
    ]
    return [file.status, file.path, file.old_path, file.is_binary, file.is_submodule, hunks, file.is_cut]


def _decoded(content: bytes, walked: WalkedCommit) -> ReadCommit:
    message, parents, files, is_cut, losses = json.loads(zlib.decompress(content))
    changes = tuple(_file(*values) for values in files)
    commit = Commit(walked.id, tuple(parents), walked.created_at, message, changes, is_cut)
    return ReadCommit(commit, Losses(*losses))


def _file(status: str, path: str, old_path: str, binary: bool, submodule: bool, hunks: Any, cut: bool) -> FileChange:
    parts = tuple(_hunk(*values) for values in hunks)
    return FileChange(status, path, old_path, binary, submodule, parts, cut)


def _hunk(old_start: int, old_count: int, new_start: int, new_count: int, section: str, lines: list[str]) -> Hunk:
    return Hunk(old_start, old_count, new_start, new_count, section, tuple(lines))
