"""What was changed in an index file, in order, and reports by the keys of their rows."""

from collections.abc import Sequence

import numpy as np

from gedbd.triage.storage.connection import Connection
from gedbd.triage.storage.rows import FeatureRow

MAX_KEYS = 500  # SQLite bounds the number of values of a statement
FEATURES = ", ".join(FeatureRow._fields)


class ChangeLog:
    """The log of an index file. Changes are numbered 1, 2, 3, ...; triggers of the file write them.

    Args:
        connection: A connection to the file.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def identity(self) -> str:
        """A text that no other index file has."""
        return str(self._connection.rows("SELECT token FROM identity")[0][0])

    def last(self) -> int:
        """The number of the last change; 0 if there was none."""
        found = self._connection.rows("SELECT seq FROM sqlite_sequence WHERE name = 'changes'")
        return int(found[0][0]) if found else 0

    def has_all_since(self, number: int) -> bool:
        """Whether the log has all changes behind one."""
        ((first,),) = self._connection.rows("SELECT min(number) FROM changes")
        last = self.last()
        return (last if first is None else first - 1) <= number <= last

    def rows_since(self, number: int) -> np.ndarray:
        """The keys of the reports that were added, replaced or deleted behind a change, ascending."""
        query = "SELECT DISTINCT row FROM changes WHERE number > ? AND row IS NOT NULL ORDER BY row"
        return np.array([row for (row,) in self._connection.rows(query, (number,))], dtype=np.int64)

    def has_links_since(self, number: int) -> bool:
        """Whether links were added or deleted behind a change."""
        query = "SELECT 1 FROM changes WHERE number > ? AND row IS NULL LIMIT 1"
        return bool(self._connection.rows(query, (number,)))

    def forget(self, number: int) -> None:
        """Deletes the changes up to one from the log."""
        self._connection.rows("DELETE FROM changes WHERE number <= ?", (number,))

    def restart(self) -> None:
        """Deletes all changes behind a last one, so that no files that were made before can be used again."""
        self._connection.rows("INSERT INTO changes (row) VALUES (NULL)")
        self._connection.rows("DELETE FROM changes")

    def features_behind(self, key: int, limit: int) -> tuple[np.ndarray, list[FeatureRow]]:
        """The keys and features of the first reports behind a key, at most ``limit``."""
        query = f"SELECT row, {FEATURES} FROM reports WHERE row > ? ORDER BY row LIMIT ?"
        return _split(self._connection.rows(query, (key, limit)))

    def features_of(self, keys: Sequence[int]) -> tuple[np.ndarray, list[FeatureRow]]:
        """The keys and features of the reports that have some keys, which ascend."""
        found = []
        for start in range(0, len(keys), MAX_KEYS):
            some = keys[start : start + MAX_KEYS]
            marks = ", ".join("?" * len(some))
            query = f"SELECT row, {FEATURES} FROM reports WHERE row IN ({marks}) ORDER BY row"
            found += self._connection.rows(query, some)
        return _split(found)


def _split(found: Sequence[tuple[object, ...]]) -> tuple[np.ndarray, list[FeatureRow]]:
    keys = np.array([row[0] for row in found], dtype=np.int64)
    return keys, [FeatureRow(*row[1:]) for row in found]  # type: ignore[arg-type]
