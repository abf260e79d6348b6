"""Commits, the files that they change, and the hunks of these."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Hunk:
    """Neighbouring changed lines of a file, with three lines of context around them.

    Attributes:
        old_start: First line before the change, from 1; the line before the hunk if ``old_count`` is 0.
        old_count: Number of lines before the change.
        new_start: First line after the change, likewise.
        new_count: Number of lines after the change.
        section: What Git shows after ``@@``: mostly the signature of the class or function around the hunk.
        lines: Lines with their prefix ``" "``, ``"+"`` or ``"-"``, without the line end; a carriage return stays. Of a
            cut file they may be fewer than the counts say.
    """

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    section: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileChange:
    """What a commit does to a file.

    Attributes:
        status: A(dded), M(odified, or only the mode), D(eleted), R(enamed), C(opied) or T(ype changed: file, symbolic
            link, submodule).
        path: Path after the change; of a deleted file, its path before.
        old_path: Path before the change; empty for an added file.
        is_binary: The content is no text, or is larger than 16 MB; there are no hunks.
        is_submodule: Before or after the change, the path is a submodule; its hunk holds commit ids.
        hunks: Changed lines; none if only the name or mode changed.
        is_cut: A limit left out lines or parts of lines, or the diff ends in the middle of a hunk.
    """

    status: str
    path: str
    old_path: str
    is_binary: bool
    is_submodule: bool
    hunks: tuple[Hunk, ...]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit and what it changes relative to its first parent.

    Attributes:
        id: Hexadecimal object name.
        parents: Ids of the parents; none for a root commit, two and more for a merge.
        created_at: Time of the commit (not of its author), in UTC; never before that of a parent.
        message: The whole message.
        files: Changed files, by path.
        is_cut: Files were left out, or one of ``files`` is cut.
    """

    id: str
    parents: tuple[str, ...]
    created_at: datetime
    message: str
    files: tuple[FileChange, ...]
    is_cut: bool


class Limits(NamedTuple):
    """How much of a commit is kept. What is left out is flagged with ``is_cut`` and counted, and not held in memory.

    Attributes:
        max_files: Files of a commit.
        max_file_chars: Characters of the hunks of a file.
        max_commit_chars: Characters of the hunks of all files of a commit.
        max_line_chars: Characters of a line, with its prefix.
        max_message_bytes: Bytes of a message.
    """

    max_files: int = 1_000
    max_file_chars: int = 100_000
    max_commit_chars: int = 2_000_000
    max_line_chars: int = 1_000
    max_message_bytes: int = 100_000


NO_LIMITS = Limits(*(2**62,) * len(Limits._fields))
