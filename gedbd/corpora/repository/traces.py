"""Where the code that a fix removed comes from, by ``git blame``, and a cache of this."""

import hashlib
import json
import sqlite3
import warnings
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from gedbd.corpora.repository.blame import BlamedLine, blame_lines, stored_name
from gedbd.corpora.repository.commits import Commit, FileChange
from gedbd.corpora.repository.decoding import decode
from gedbd.corpora.repository.git import Git
from gedbd.corpora.repository.removed_lines import is_source, removed_code

FORMAT = 1  # to be raised whenever other lines are found
FILE_NAME = "blame.sqlite"

ROOT = "no parent"
NO_SOURCE = "no source file"
ONLY_ADDED = "only additions"
NO_CODE = "only comments, blank lines and formatting removed"


class Trace(NamedTuple):
    """The origins of the code that a fix removed or changed.

    Attributes:
        origins: Where each line comes from.
        reason: Why there is none; empty if there are some.
    """

    origins: list[BlamedLine]
    reason: str


def trace_fix(git: Git, fix: Commit, suffixes: Sequence[str] | None) -> Trace:
    """Blames the code that a commit removed or changed, in its first parent.

    Args:
        git: The repository.
        fix: The commit, with its changes relative to its first parent.
        suffixes: Of source files; None for all text files.
    """
    if not fix.parents:
        return Trace([], ROOT)
    sources = [change for change in fix.files if is_source(change, suffixes)]
    changed = [change for change in sources if _removes(change)]
    if not changed:
        return Trace([], ONLY_ADDED if sources else NO_SOURCE)
    origins: list[BlamedLine] = []
    for change in changed:
        lines = removed_code(change, file_text(git, fix.parents[0], change.old_path))
        if lines:
            origins += blame_lines(git, fix.parents[0], change.old_path, lines)
    return Trace(origins, "" if origins else NO_CODE)


def file_text(git: Git, commit: str, path: str) -> str:
    """The content of a file in a commit. Raises ValueError if there is no such file."""
    name = stored_name(git, commit, path)
    text, _ = decode(git.run("cat-file", "blob", commit.encode("ascii") + b":" + name))
    return text


def _removes(change: FileChange) -> bool:
    """Whether lines are gone; those that a copy lacks are still in the file that it was copied from."""
    return change.status != "C" and any(line.startswith("-") for hunk in change.hunks for line in hunk.lines)


class TraceCache:
    """Traces by fix and options in an SQLite file, which is made if absent; a damaged file is deleted.

    Args:
        folder: Folder of the file; None keeps nothing.
        options: What the traces depend on beside the commit.
    """

    def __init__(self, folder: Path | None, options: object) -> None:
        self._file = None if folder is None else folder / FILE_NAME
        self._options = json.dumps([FORMAT, options])

    def trace(self, git: Git, fix: Commit, suffixes: Sequence[str] | None) -> Trace:
        """The trace of a fix, see ``trace_fix``, stored or found now."""
        if self._file is None:
            return trace_fix(git, fix, suffixes)
        stored = self._read(fix.id)
        if stored is not None:
            return stored
        found = trace_fix(git, fix, suffixes)
        content = json.dumps(found)
        with closing(self._open(self._file)) as database, database:
            row = (self._key(fix.id), content, _checksum(content))
            database.execute("INSERT OR REPLACE INTO traces VALUES (?, ?, ?)", row)
        return found

    def _read(self, commit: str) -> Trace | None:
        """The stored trace; None if there is none, or it is damaged."""
        assert self._file is not None
        try:
            with closing(self._open(self._file)) as database:
                query = "SELECT content, checksum FROM traces WHERE key = ?"
                row = database.execute(query, (self._key(commit),)).fetchone()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            warnings.warn(f"{self._file} is damaged ({error}): it is deleted, and fixes are traced again", stacklevel=2)
            self._file.unlink(missing_ok=True)
            return None
        if row is None or _checksum(row[0]) != row[1]:
            return None
        origins, reason = json.loads(row[0])
        return Trace([BlamedLine(*origin) for origin in origins], reason)

    def _key(self, commit: str) -> str:
        return hashlib.blake2b(f"{commit} {self._options}".encode(), digest_size=16).hexdigest()

    @staticmethod
    def _open(file: Path) -> sqlite3.Connection:
        database = sqlite3.connect(file, timeout=60)
        database.execute("CREATE TABLE IF NOT EXISTS traces (key TEXT PRIMARY KEY, content TEXT, checksum TEXT)")
        return database


def _checksum(content: str) -> str:
    return hashlib.blake2b(str(content).encode("utf-8", "replace"), digest_size=16).hexdigest()
