"""A cache of commits by their ids, which several repositories may share."""

from pathlib import Path
from typing import Any

from gedbd.corpora.repository.commits import Commit, FileChange, Hunk, Limits
from gedbd.corpora.repository.objects import Losses, ReadCommit
from gedbd.corpora.repository.row_cache import RowCache
from gedbd.corpora.repository.walk import WalkedCommit

FORMAT = 1  # to be raised when commits are read or stored differently


class CommitCache(RowCache):
    """Commits as they were read with some limits.

    The date is not stored: it depends on the history that the commit is part of.

    Args:
        folder: The folder of the file, made if absent.
        limits: Limits with which the commits were read.

    Raises:
        ValueError: The folder or file cannot be used.
    """

    def __init__(self, folder: str | Path, limits: Limits) -> None:
        super().__init__(folder, "commits", [FORMAT, *limits])

    def get(self, walked: WalkedCommit) -> ReadCommit | None:
        """A commit with the date of this history; None if its row is absent or damaged."""
        values = self.value(walked.id)
        try:
            return None if values is None else _commit(walked, *values)
        except (ValueError, TypeError):
            return None

    def add(self, read: ReadCommit) -> None:
        """Store a commit, see ``RowCache.store``."""
        commit = read.commit
        files = [_file_values(file) for file in commit.files]
        self.store(commit.id, [commit.message, commit.parents, files, commit.is_cut, read.losses])


def _file_values(file: FileChange) -> list[object]:
    hunks = [
        (hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count, hunk.section, hunk.lines)
        for hunk in file.hunks
    ]
    return [file.status, file.path, file.old_path, file.is_binary, file.is_submodule, hunks, file.is_cut]


def _commit(walked: WalkedCommit, message: str, parents: Any, files: Any, is_cut: bool, losses: Any) -> ReadCommit:
    changes = tuple(_file(*values) for values in files)
    commit = Commit(walked.id, tuple(parents), walked.created_at, message, changes, is_cut)
    return ReadCommit(commit, Losses(*losses))


def _file(status: str, path: str, old_path: str, binary: bool, submodule: bool, hunks: Any, cut: bool) -> FileChange:
    parts = tuple(_hunk(*values) for values in hunks)
    return FileChange(status, path, old_path, binary, submodule, parts, cut)


def _hunk(old_start: int, old_count: int, new_start: int, new_count: int, section: str, lines: list[str]) -> Hunk:
    return Hunk(old_start, old_count, new_start, new_count, section, tuple(lines))
