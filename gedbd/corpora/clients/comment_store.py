"""Comments and events of a whole tracker, kept on disk until the issues that they belong to come."""

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from gedbd.corpora.clients.http import Record


class Note(NamedTuple):
    """A comment or an event, and the number of its issue."""

    id: int
    issue: int | None
    record: Record


class Notes:
    """Notes in an SQLite file; one that comes again replaces what it was.

    Raises:
        ValueError: The file is damaged.
    """

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(file)
        try:
            with self._connection as rows:
                rows.execute("CREATE TABLE IF NOT EXISTS note (kind, id, issue, record, PRIMARY KEY (kind, id))")
                rows.execute("CREATE INDEX IF NOT EXISTS by_issue ON note (kind, issue)")
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{file}: damaged ({error}); fetch into another folder") from error

    def close(self) -> None:
        """Lets go of the file."""
        self._connection.close()

    def add(self, kind: str, notes: Iterable[Note]) -> None:
        """Keep all, or none."""
        rows = [(kind, note.id, note.issue, json.dumps(note.record)) for note in notes]
        with self._connection as connection:
            connection.executemany("REPLACE INTO note VALUES (?, ?, ?, ?)", rows)

    def of(self, kind: str, issue: int) -> list[Record]:
        """An issue's notes, the oldest first."""
        query = "SELECT record FROM note WHERE kind = ? AND issue = ? ORDER BY id"
        return [json.loads(text) for (text,) in self._connection.execute(query, (kind, issue))]
