"""Which deliveries of the webhook are done, and which comments are posted or wait, in one SQLite file."""

import sqlite3
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

OUTBOX_FILE = "webhook.sqlite"
MOST_TRIES = 5
SCHEMA = """
CREATE TABLE IF NOT EXISTS deliveries (delivery TEXT PRIMARY KEY, moment TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS comments (
    repository TEXT NOT NULL,
    issue_id TEXT NOT NULL,
    body TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'posted', 'failed')),
    tries INTEGER NOT NULL DEFAULT 0,
    moment TEXT NOT NULL,
    PRIMARY KEY (repository, issue_id)
);
"""


class Comment(NamedTuple):
    """A comment that waits."""

    repository: str
    issue_id: str
    body: str


class Outbox:
    """Remembers what was done, so that nothing is done twice and nothing is forgotten when the service stops.

    Args:
        folder: The index folder; the file in it is made if there is none.
    """

    def __init__(self, folder: Path) -> None:
        self.lock = threading.Lock()
        self.store = sqlite3.connect(folder / OUTBOX_FILE, timeout=30, isolation_level=None, check_same_thread=False)
        self.store.execute("PRAGMA journal_mode=WAL")
        self.store.execute("PRAGMA synchronous=FULL")
        self.store.executescript(SCHEMA)

    def is_done(self, delivery: str) -> bool:
        """Whether a delivery was finished before."""
        return bool(self._ask("SELECT 1 FROM deliveries WHERE delivery = ?", delivery))

    def finish(self, delivery: str) -> None:
        """Keeps that a delivery is finished."""
        self._ask("INSERT OR IGNORE INTO deliveries VALUES (?, ?)", delivery, _now())

    def put(self, comment: Comment) -> bool:
        """Lets a comment wait; False if there was ever one for this issue."""
        fresh = "INSERT OR IGNORE INTO comments VALUES (?, ?, ?, 'pending', 0, ?) RETURNING 1"
        return bool(self._ask(fresh, *comment, _now()))

    def waiting(self) -> list[Comment]:
        """Comments that wait, the oldest first."""
        query = "SELECT repository, issue_id, body FROM comments WHERE state = 'pending' ORDER BY moment"
        return [Comment(str(name), str(issue_id), str(body)) for name, issue_id, body in self._ask(query)]

    def settle(self, comment: Comment, state: str) -> None:
        """Keeps what became of a comment: "posted", "failed", or "pending", which after some tries fails too."""
        tried = (
            "UPDATE comments SET tries = tries + 1, state ="
            " CASE WHEN ? = 'pending' AND tries + 1 >= ? THEN 'failed' ELSE ? END WHERE repository = ? AND issue_id = ?"
        )
        self._ask(tried, state, MOST_TRIES, state, comment.repository, comment.issue_id)

    def state(self, repository: str, issue_id: str) -> str | None:
        """What became of an issue's comment; None if there never was one."""
        found = self._ask("SELECT state FROM comments WHERE repository = ? AND issue_id = ?", repository, issue_id)
        return str(found[0][0]) if found else None

    def close(self) -> None:
        """Closes the file."""
        with self.lock:
            self.store.close()

    def _ask(self, query: str, *values: object) -> list[tuple[object, ...]]:
        with self.lock:
            return self.store.execute(query, values).fetchall()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
