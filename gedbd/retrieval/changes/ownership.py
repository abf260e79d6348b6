"""Which commits the lines of a file come from, reconstructed from the diffs of its changes."""

from typing import NamedTuple

import numpy as np

UNKNOWN = -1
# Lines that a file is taken to have where a cut diff does not show what a commit added.
ASSUMED_LINES = 100
MAX_LINES = 100_000


class Change(NamedTuple):
    """What a commit did to a file.

    Attributes:
        commit: Row of the commit.
        edits: See ``FileDiff``.
        is_deleted: The file is gone.
        has_hunks: Whether the lines are shown.
    """

    commit: int
    edits: np.ndarray
    is_deleted: bool
    has_hunks: bool


class Owners(NamedTuple):
    """How many lines of a file come from which commits.

    Attributes:
        commits: ``(O,)`` rows of commits, ascending; lines of unknown origin are left out.
        lines: ``(O,)`` numbers of lines.
        total: All lines, those of unknown origin among them.
    """

    commits: np.ndarray
    lines: np.ndarray
    total: int


class FileLines:
    """The lines of one file, each as the row of the commit that it comes from.

    The result is that of ``git blame`` where all diffs of a linear history are complete. Lines that no diff shows come
    from the first commit of the file if its diff was cut, or from an unknown one.

    Args:
        lines: ``(L,)`` int32, to begin with: of the file that this one was renamed from.
    """

    def __init__(self, lines: np.ndarray | None = None) -> None:
        self.lines = np.empty(0, dtype=np.int32) if lines is None else lines
        self._base = UNKNOWN
        self._is_new = lines is None

    def copy(self) -> "FileLines":
        """The same lines; what is applied to one does not change the other."""
        other = FileLines(self.lines)
        other._base = self._base
        other._is_new = self._is_new
        return other

    def apply(self, change: Change) -> None:
        """Applies the next change."""
        if self._is_new and not change.has_hunks:
            self._base = change.commit
            self.lines = np.full(ASSUMED_LINES, change.commit, dtype=np.int32)
        self._is_new = False
        if change.is_deleted:
            self.lines = np.empty(0, dtype=np.int32)
            return
        pieces = []
        end = 0  # of what is copied so far
        self._extend(change.edits)
        for place, removed, added in change.edits.tolist():
            if place + removed + added > MAX_LINES:
                break
            pieces += [self.lines[end:place], np.full(added, change.commit, dtype=np.int32)]
            end = max(end, place + removed)
        self.lines = np.concatenate([*pieces, self.lines[end:]])[:MAX_LINES]

    def _extend(self, edits: np.ndarray) -> None:
        """Adds lines that earlier diffs did not show, as many as the edits need."""
        if len(edits):
            needed = min(int((edits[:, 0] + edits[:, 1]).max()), MAX_LINES) - len(self.lines)
            if needed > 0:
                self.lines = np.concatenate([self.lines, np.full(needed, self._base, dtype=np.int32)])

    @property
    def owners(self) -> Owners:
        """Whose lines these are."""
        commits, lines = np.unique(self.lines, return_counts=True)
        is_known = commits != UNKNOWN
        return Owners(commits[is_known], lines[is_known], len(self.lines))
