"""Commits by their ids, whole or abbreviated."""

from bisect import bisect_left
from collections.abc import Sequence

MIN_ID_LENGTH = 4  # Git's own limit for abbreviations


class CommitIds:
    """Finds commits by the beginning of their ids.

    Args:
        ids: N ids, one a row; capital and small letters are the same.
    """

    def __init__(self, ids: Sequence[str]) -> None:
        # Sorted with their rows: the ids that begin with "ab" follow the place where "ab" itself would be.
        self._sorted = sorted((id_.lower(), row) for row, id_ in enumerate(ids))

    def row(self, text: str) -> int | None:
        """The row of the only commit whose id begins with a text; None if there is none, or more than one."""
        wanted = text.strip().lower()
        if len(wanted) < MIN_ID_LENGTH:
            return None
        start = bisect_left(self._sorted, (wanted, -1))
        found = [row for id_, row in self._sorted[start : start + 2] if id_.startswith(wanted)]
        return found[0] if len(found) == 1 else None
