"""Store the comments and events of a whole repository on disk until their issues arrive."""

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from gedbd.corpora.clients.http import Record
from gedbd.io.files import connect_database


class StoredComment(NamedTuple):
    """A comment or an event, and the number of its issue; ``issue`` is ``None`` if the issue was deleted."""

    id: int
    issue: int | None
    record: Record


class CommentStore:
    """Comments and events in an SQLite file; a record that arrives again replaces its older version.

    Raises:
        ValueError: The file is damaged.
        sqlite3.OperationalError: The file cannot be written.
    """

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(0o700, parents=True, exist_ok=True)
        try:
            self._connection = connect_database(file)
            # The table keeps the name "note", so that a fetch begun with an older version can be continued.
            with self._connection as rows:
                rows.execute("CREATE TABLE IF NOT EXISTS note (kind, id, issue, record, PRIMARY KEY (kind, id))")
                rows.execute("CREATE INDEX IF NOT EXISTS by_issue ON note (kind, issue)")
        except sqlite3.OperationalError:
            raise  # the disk is full, read-only or failing: the file may be whole
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{file}: damaged ({error}); fetch into another folder") from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def add(self, kind: str, comments: Iterable[StoredComment]) -> None:
        """Store all of them, or none if that fails."""
        rows = [(kind, comment.id, comment.issue, json.dumps(comment.record)) for comment in comments]
        with self._connection as connection:
            connection.executemany("REPLACE INTO note VALUES (?, ?, ?, ?)", rows)

    def of_issue(self, kind: str, issue: int) -> list[Record]:
        """The records of one issue, oldest first."""
        # Ids grow with time, so their order is that of creation.
        query = "SELECT record FROM note WHERE kind = ? AND issue = ? ORDER BY id"
        return [json.loads(text) for (text,) in self._connection.execute(query, (kind, issue))]
