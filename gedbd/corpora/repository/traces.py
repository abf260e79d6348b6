"""Where the code that a fix removed comes from, by ``git blame``, and a cache of this."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gedbd.corpora.repository.blame import BlamedLine, blame_lines, stored_name
from gedbd.corpora.repository.commits import Commit, FileChange
from gedbd.corpora.repository.decoding import decode
from gedbd.corpora.repository.git import Git
from gedbd.corpora.repository.removed_lines import is_source, removed_code
from gedbd.corpora.repository.row_cache import RowCache

FORMAT = 1  # to be raised whenever other lines are found

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


class TraceCache(RowCache):
    """Traces by fix.

    Args:
        folder: The folder of the file, made if absent.
        suffixes: Of source files; None for all text files.
        options: What the traces depend on beside the commit and the suffixes; a JSON value.

    Raises:
        ValueError: The folder or file cannot be used.
    """

    def __init__(self, folder: str | Path, suffixes: Sequence[str] | None, options: object) -> None:
        super().__init__(folder, "blame", [FORMAT, suffixes, options])
        self._suffixes = suffixes

    def trace(self, git: Git, fix: Commit) -> Trace:
        """The trace of a fix, see ``trace_fix``, stored or found now."""
        stored = self.value(fix.id)
        if stored is not None:
            origins, reason = stored
            return Trace([BlamedLine(*origin) for origin in origins], reason)
        found = trace_fix(git, fix, self._suffixes)
        self.store(fix.id, found)
        return found
