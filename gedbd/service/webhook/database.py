"""The SQLite file of the webhook: waiting and processed deliveries, known states, and comments to post."""

import re
import time
from pathlib import Path

from gedbd.triage.storage.database import Database

WEBHOOK_FILE = "webhook.sqlite"
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
CREATE TABLE IF NOT EXISTS inbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery TEXT NOT NULL,
    kind TEXT NOT NULL,
    event TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS versions (name TEXT PRIMARY KEY, updated_at REAL NOT NULL, gone INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS comment_links (
    comment_id INTEGER PRIMARY KEY,
    report TEXT NOT NULL,
    duplicate TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS comment_links_of_pair ON comment_links (report, duplicate);
SELECT delivery, moment FROM deliveries LIMIT 0;  -- these fail if another program has created the tables
SELECT repository, issue_id, body, state, tries, moment FROM comments LIMIT 0;
SELECT number, delivery, kind, event FROM inbox LIMIT 0;
SELECT name, updated_at, gone FROM versions LIMIT 0;
SELECT comment_id, report, duplicate FROM comment_links LIMIT 0;
"""
# Files of earlier versions do not have these columns.
ADDED_COLUMNS = (
    ("tried_at", "REAL NOT NULL DEFAULT 0"),
    ("next_try_at", "REAL NOT NULL DEFAULT 0"),
    ("posted_at", "REAL NOT NULL DEFAULT 0"),  # when the last POST whose result is unknown was begun; 0 if none was
)


class WebhookFile(Database):
    """The open file.

    Args:
        folder: The index folder; the file in it is created if there is none.

    Raises:
        ValueError: If the file is damaged or cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        loss = "the deliveries that wait, and the comments that wait or were posted"
        super().__init__(folder / WEBHOOK_FILE, SCHEMA, loss)
        with self.transaction():
            columns = {str(row[1]) for row in self.query("PRAGMA table_info(comments)")}
            for name, kind in ADDED_COLUMNS:
                if name not in columns:
                    self.query(f"ALTER TABLE comments ADD COLUMN {name} {kind}")

    def forget(self, issue_id: str) -> None:
        """Erases the deliveries of an issue that wait, and the text of comments on it or that name it.

        What stays is its number: the time from which on its events count again, and that its comment was posted, if so,
        since an issue never gets a second one.
        """
        named = re.compile(rf"#{re.escape(issue_id)}(?!\d)")
        with self.transaction():
            gone = "ON CONFLICT (name) DO UPDATE SET updated_at = max(updated_at, excluded.updated_at), gone = 1"
            self.query(f"INSERT INTO versions VALUES (?, ?, 1) {gone}", f"issue {issue_id}", time.time())
            number = "iif(json_valid(event), CAST(json_extract(event, '$.issue.number') AS TEXT), '')"
            self.query(f"DELETE FROM inbox WHERE {number} = ?", issue_id)
            self.query("DELETE FROM comment_links WHERE report = ?1 OR duplicate = ?1", issue_id)
            for repository, other, body in self.query("SELECT repository, issue_id, body FROM comments"):
                if other == issue_id or named.search(body):
                    settled = "UPDATE comments SET body = '', state = replace(state, 'pending', 'failed')"
                    self.query(f"{settled} WHERE repository = ? AND issue_id = ?", repository, other)
        self.checkpoint()
