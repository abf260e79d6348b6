"""What the ranking reads of the diff of one file."""

import re
from typing import NamedTuple

import numpy as np

HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)")
HEADER = "diff --git a/"
DELETED = "+++ /dev/null"


class FileDiff(NamedTuple):
    """The diff of one file of a commit.

    Attributes:
        added: Text of the added lines.
        other: Text of the removed lines, the context and the headers' sections.
        edits: ``(E, 3)`` int32: place in the old file from 0, number of removed lines, number of added lines. Lines 5
            and 6 that become one line are 4, 2, 1.
        old_path: The path before a renaming or copy; empty without one.
        is_deleted: The file is gone.
        has_hunks: Whether changed lines are shown: not so of binary files, and where a diff was cut before the file.
    """

    added: str
    other: str
    edits: np.ndarray
    old_path: str
    is_deleted: bool
    has_hunks: bool


def read_file_diff(diff: str, path: str) -> FileDiff:
    """Reads a diff as of ``ChangeCorpus.files``; it may be cut off anywhere.

    Args:
        diff: The diff.
        path: The path after the change.
    """
    reader = _Reader()
    lines = diff.split("\n")
    for line in lines:
        reader.read(line)
    edits = np.array(reader.edits, dtype=np.int32).reshape(-1, 3)
    return FileDiff(
        added="\n".join(reader.added),
        other="\n".join(reader.other),
        edits=edits,
        old_path=_old_path(lines[0], path),
        is_deleted=reader.is_deleted,
        has_hunks=reader.has_hunks,
    )


class _Reader:
    """Reads the lines of a diff one after the other."""

    def __init__(self) -> None:
        self.added: list[str] = []
        self.other: list[str] = []
        self.edits: list[list[int]] = []
        self.is_deleted = False
        self.has_hunks = False
        self._old_left = 0  # lines that the hunk still has by its header
        self._new_left = 0
        self._place = 0  # in the old file, from 0
        self._open = False  # whether the last line belongs to the last edit

    def read(self, line: str) -> None:
        """Reads a line: of a hunk as long as its header says, else a header."""
        if self._old_left <= 0 and self._new_left <= 0:
            self._read_header(line)
        elif line.startswith("@@ ") and HUNK.match(line):
            self._read_header(line)  # the hunk above was cut
        elif line.startswith("+"):
            self.added.append(line[1:])
            self._new_left -= 1
            self._edit(2)
        elif line.startswith("-"):
            self.other.append(line[1:])
            self._old_left -= 1
            self._edit(1)
            self._place += 1
        elif not line.startswith("\\"):
            self.other.append(line[1:])
            self._old_left -= 1
            self._new_left -= 1
            self._place += 1
            self._open = False

    def _edit(self, column: int) -> None:
        """Counts a removed or added line in the edit at this place."""
        if not self._open:
            self.edits.append([self._place, 0, 0])
        self.edits[-1][column] += 1
        self._open = True

    def _read_header(self, line: str) -> None:
        self._open = False
        header = HUNK.match(line)
        if header is None:
            self.is_deleted = self.is_deleted or line == DELETED
            return
        old_start, old_count, _, new_count, section = header.groups()
        self.has_hunks = True
        self.other.append(section)
        self._old_left = 1 if old_count is None else int(old_count)
        self._new_left = 1 if new_count is None else int(new_count)
        # "-4,0" stands behind line 4, which is place 4; "-4,1" removes line 4, which is place 3.
        self._place = max(int(old_start) - (self._old_left > 0), 0)


def _old_path(first_line: str, path: str) -> str:
    """The path before a renaming: of ``diff --git a/x.c b/y.c``, x.c."""
    old = first_line.removeprefix(HEADER).removesuffix(f" b/{path}")
    return old if len(old) < len(first_line) - len(HEADER) and old != path else ""
