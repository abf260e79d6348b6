"""The SQLite file of the webhook: waiting and processed deliveries, known states, and comments to post."""

import random
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from gedbd.io.sqlite_file import Database

MAX_WAITING = 5000
FIRST_WAIT_S = 10.0
MAX_WAIT_S = 3600.0
MAX_TRIES = 33  # waits double from 10 s up to an hour, so the last try is made after 24 hours
MAX_REQUESTED_WAIT_S = 6 * 3600.0
JITTER = 0.2
RESULT_WAIT_S = 60.0  # until GitHub shows a comment that it creates although its answer did not arrive
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
    tried_at REAL NOT NULL DEFAULT 0,
    next_try_at REAL NOT NULL DEFAULT 0,
    posted_at REAL NOT NULL DEFAULT 0,  -- when the last POST whose result is unknown was begun; 0 if none was
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
CREATE TABLE IF NOT EXISTS proposals (
    repository TEXT NOT NULL,
    issue_id TEXT NOT NULL,
    duplicate TEXT NOT NULL,  -- the number of the issue that it repeats
    rationale TEXT NOT NULL,
    confidence TEXT NOT NULL,
    state TEXT NOT NULL,
    moment TEXT NOT NULL,
    PRIMARY KEY (repository, issue_id)
);
SELECT delivery, moment FROM deliveries LIMIT 0;  -- these fail if another program has created the tables
SELECT repository, issue_id, body, state, tries, moment, tried_at, next_try_at, posted_at FROM comments LIMIT 0;
SELECT number, delivery, kind, event FROM inbox LIMIT 0;
SELECT name, updated_at, gone FROM versions LIMIT 0;
SELECT comment_id, report, duplicate FROM comment_links LIMIT 0;
SELECT repository, issue_id, duplicate, rationale, confidence, state, moment FROM proposals LIMIT 0;
"""


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
            self.query("DELETE FROM proposals WHERE issue_id = ?1 OR duplicate = ?1", issue_id)
            for repository, other, body in self.query("SELECT repository, issue_id, body FROM comments"):
                if other == issue_id or named.search(body):
                    settled = "UPDATE comments SET body = '', state = replace(state, 'pending', 'failed')"
                    self.query(f"{settled} WHERE repository = ? AND issue_id = ?", repository, other)
        self.checkpoint()


class Delivery(NamedTuple):
    """An event that waits; ``event`` is JSON."""

    number: int
    delivery: str
    kind: str
    event: str


class Inbox:
    """Keeps deliveries on disk until they are processed.

    Args:
        file: The open file of the webhook.
        max_waiting: Maximum number of deliveries that wait; more are refused.

    Attributes:
        waiting: How many wait, for the metrics.
    """

    def __init__(self, file: WebhookFile, max_waiting: int = MAX_WAITING) -> None:
        self.file = file
        self.max_waiting = max_waiting
        self.waiting = self._count()

    def put(self, delivery: str, kind: str, event: str) -> str:
        """Stores a delivery.

        Args:
            delivery: Its id, by which a repeated delivery is recognised; empty if it has none.
            kind: Name of the event.
            event: The event as JSON.

        Returns:
            "accepted" once it is on disk, "repeated" if one with this id was accepted before, or "full".
        """
        accepted_before = "SELECT 1 FROM deliveries WHERE delivery = ?"
        with self.file.transaction():
            if delivery and self.file.query(accepted_before, delivery):
                return "repeated"
            waiting = self._count()
            if waiting >= self.max_waiting:
                return "full"
            if delivery:
                now = datetime.now(UTC).isoformat(timespec="microseconds")
                self.file.query("INSERT INTO deliveries VALUES (?, ?)", delivery, now)
            self.file.query("INSERT INTO inbox (delivery, kind, event) VALUES (?, ?, ?)", delivery, kind, event)
        self.waiting = waiting + 1
        return "accepted"

    def first(self) -> Delivery | None:
        """The delivery that has waited longest."""
        rows = self.file.query("SELECT number, delivery, kind, event FROM inbox ORDER BY number LIMIT 1")
        return Delivery(*rows[0]) if rows else None

    def remove(self, delivery: Delivery, remember: bool) -> None:
        """Removes a processed delivery.

        Args:
            delivery: What was processed.
            remember: Whether it is refused when it arrives again. One that failed may be delivered again by hand.
        """
        with self.file.transaction():
            self.file.query("DELETE FROM inbox WHERE number = ?", delivery.number)
            if not remember:
                self.file.query("DELETE FROM deliveries WHERE delivery = ?", delivery.delivery)

    def recount(self) -> None:
        """Updates ``waiting``. A removal does not: whoever sees it fall may rely on all effects of the delivery."""
        self.waiting = self._count()

    def _count(self) -> int:
        ((count,),) = self.file.query("SELECT count(*) FROM inbox")
        return int(count)


class EventHistory:
    """When each issue and comment was last changed, whether it is deleted, and which comment linked which reports.

    Args:
        file: The open file of the webhook.
    """

    def __init__(self, file: WebhookFile) -> None:
        self.file = file

    def is_outdated(self, name: str, updated_at: datetime | None) -> bool:
        """Whether a later state is known.

        GitHub's times are whole seconds: of several states with the same time, the last to arrive counts. A deleted
        item returns only with a later time, since the last state before the deletion has the same time.

        Args:
            name: "issue 12" or "comment 345".
            updated_at: GitHub's time of the change.
        """
        rows = self.file.query("SELECT updated_at, gone FROM versions WHERE name = ?", name)
        if not rows:
            return False
        known, gone = rows[0]
        if updated_at is None:
            return bool(gone)
        moment = updated_at.timestamp()
        return bool(moment <= known if gone else moment < known)

    def remember(self, name: str, updated_at: datetime | None, gone: bool = False) -> None:
        """Records that a state was processed; the recorded time of a name never decreases."""
        query = (
            "INSERT INTO versions VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
            " SET updated_at = max(updated_at, excluded.updated_at), gone = excluded.gone"
        )
        self.file.query(query, name, updated_at.timestamp() if updated_at else 0.0, int(gone))

    def link_of(self, comment_id: int) -> tuple[str, str] | None:
        """The two reports that a comment has linked."""
        rows = self.file.query("SELECT report, duplicate FROM comment_links WHERE comment_id = ?", comment_id)
        return rows[0] if rows else None

    def remember_link(self, comment_id: int, report: str, duplicate: str) -> None:
        """Records which reports a comment has linked."""
        self.file.query("INSERT OR REPLACE INTO comment_links VALUES (?, ?, ?)", comment_id, report, duplicate)

    def forget_link(self, comment_id: int) -> None:
        """Deletes the record of a comment's link."""
        self.file.query("DELETE FROM comment_links WHERE comment_id = ?", comment_id)

    def called_duplicates(self, ids: Sequence[str]) -> set[str]:
        """Those of some reports that a comment calls a duplicate of another one of them."""
        pairs = chain.from_iterable(
            self.file.query("SELECT report, duplicate FROM comment_links WHERE report = ?", one) for one in ids
        )
        return {report for report, duplicate in pairs if duplicate in ids}

    def comments_linking(self, report: str, duplicate: str) -> int:
        """Number of comments that link two reports, in either direction."""
        # Two conditions, for each of which there is an index; IN with both pairs would scan the table.
        one_way = "(report = ? AND duplicate = ?)"
        query = f"SELECT count(*) FROM comment_links WHERE {one_way} OR {one_way}"
        ((count,),) = self.file.query(query, report, duplicate, duplicate, report)
        return int(count)


class OutboxComment(NamedTuple):
    """A comment that waits."""

    repository: str
    issue_id: str
    body: str


class Outbox:
    """Keeps comments on disk until they are posted, at most one for each issue.

    A comment whose POST was begun, and whose result is unknown, is not due for ``result_wait_s``: until then GitHub may
    still create it. The beginning is on disk, so this also holds if the process is killed. The wait is measured by the
    monotonic clock while the process runs, since the time of day may be set.

    Args:
        file: The open file of the webhook.
        first_wait_s: Seconds until the second try; each further wait is twice as long.
        result_wait_s: Seconds that a comment rests after a POST whose result is unknown.
    """

    def __init__(
        self, file: WebhookFile, first_wait_s: float = FIRST_WAIT_S, result_wait_s: float = RESULT_WAIT_S
    ) -> None:
        self.file = file
        self.first_wait_s = first_wait_s
        self.result_wait_s = result_wait_s
        now = time.time()
        begun = "SELECT repository, issue_id, posted_at FROM comments WHERE state = 'pending' AND posted_at > 0"
        self._rests_until: dict[tuple[str, str], float] = {}  # by the monotonic clock
        for repository, issue_id, posted_at in file.query(begun):
            # No longer than after a POST of now: the clock may have been set back since.
            rest_s = min(posted_at + result_wait_s - now, result_wait_s)
            self._rests_until[repository, issue_id] = time.monotonic() + rest_s

    def put(self, comment: OutboxComment) -> bool:
        """Adds a comment; returns False if there was ever one for this issue."""
        moment = datetime.now(UTC).isoformat(timespec="microseconds")
        columns = "repository, issue_id, body, state, moment"
        added = f"INSERT OR IGNORE INTO comments ({columns}) VALUES (?, ?, ?, 'pending', ?) RETURNING 1"
        return bool(self.file.query(added, *comment, moment))

    def waiting(self) -> list[OutboxComment]:
        """All comments that wait, the oldest first."""
        return self._pending("ORDER BY moment")

    def due(self, now: float) -> list[OutboxComment]:
        """Comments whose next try is due, the most urgent first.

        Args:
            now: Seconds since 1970.
        """
        # tried_at > now: the clock was set back since the last try, so next_try_at may be far in the future.
        pending = self._pending("AND (next_try_at <= ? OR tried_at > ?) ORDER BY next_try_at, moment", now, now)
        return [comment for comment in pending if self._rest_s(comment.repository, comment.issue_id) <= 0]

    def next_due(self) -> float | None:
        """When the next try is due, in seconds since 1970; None if no comment waits."""
        moments = []
        for *key, moment in self.file.query(
            "SELECT repository, issue_id, next_try_at FROM comments WHERE state = 'pending'"
        ):
            rest_s = self._rest_s(*key)
            moments.append(max(moment, time.time() + rest_s) if rest_s > 0 else float(moment))
        return min(moments, default=None)

    def record_post(self, comment: OutboxComment, now: float) -> None:
        """Records that a comment is being posted, or that the result of that is unknown: it rests from now on."""
        self._set(comment, "posted_at = ?", now)
        self._rests_until[comment.repository, comment.issue_id] = time.monotonic() + self.result_wait_s

    def record_refusal(self, comment: OutboxComment) -> None:
        """Records that GitHub has not created a comment, so that it need not rest."""
        self._set(comment, "posted_at = 0")
        self._rests_until.pop((comment.repository, comment.issue_id), None)

    def rest_s(self) -> float:
        """Seconds until no comment rests."""
        return max((self._rest_s(comment.repository, comment.issue_id) for comment in self.waiting()), default=0.0)

    def settle(self, comment: OutboxComment, state: str) -> None:
        """Records the final state of a comment: "posted" or "failed"."""
        self._set(comment, "state = ?, tries = tries + 1", state)
        self._rests_until.pop((comment.repository, comment.issue_id), None)

    def postpone(self, comments: list[OutboxComment], now: float, requested_wait_s: float = 0.0) -> list[OutboxComment]:
        """Schedules the next try of comments after a failed one.

        Args:
            comments: The comments that could not be posted.
            now: Seconds since 1970.
            requested_wait_s: How long the server asks to wait; at most 6 hours are granted.

        Returns:
            The comments that have failed too often and are given up.
        """
        given_up = []
        with self.file.transaction():
            for comment in comments:
                query = "SELECT tries + 1 FROM comments WHERE repository = ? AND issue_id = ?"
                ((tries,),) = self.file.query(query, comment.repository, comment.issue_id)
                if tries >= MAX_TRIES:
                    given_up.append(comment)
                requested = min(requested_wait_s, MAX_REQUESTED_WAIT_S) * random.uniform(1, 1 + JITTER)
                wait = max(wait_after(tries, self.first_wait_s), requested)
                state = "failed" if tries >= MAX_TRIES else "pending"
                changed = "tries = ?, state = ?, tried_at = ?, next_try_at = ?"
                self._set(comment, changed, tries, state, now, now + wait)
        return given_up

    def state(self, repository: str, issue_id: str) -> str | None:
        """State of the comment on an issue: "pending", "posted" or "failed"; None if there never was one."""
        query = "SELECT state FROM comments WHERE repository = ? AND issue_id = ?"
        found = self.file.query(query, repository, issue_id)
        return str(found[0][0]) if found else None

    def _set(self, comment: OutboxComment, columns: str, *values: object) -> None:
        where = "WHERE repository = ? AND issue_id = ?"
        self.file.query(f"UPDATE comments SET {columns} {where}", *values, comment.repository, comment.issue_id)

    def _rest_s(self, repository: str, issue_id: str) -> float:
        """Seconds until a comment has rested; 0 or below if it has."""
        return self._rests_until.get((repository, issue_id), 0.0) - time.monotonic()

    def _pending(self, condition: str, *values: object) -> list[OutboxComment]:
        query = f"SELECT repository, issue_id, body FROM comments WHERE state = 'pending' {condition}"
        return [OutboxComment(*row) for row in self.file.query(query, *values)]


def wait_after(tries: int, first_wait_s: float = FIRST_WAIT_S) -> float:
    """Seconds until the next try: doubled after each try up to an hour, then up to a fifth longer or shorter."""
    doubled = first_wait_s * 2.0 ** min(tries - 1, 30)
    # Random, so that comments that failed together are not tried together again.
    return min(doubled, MAX_WAIT_S) * random.uniform(1 - JITTER, 1 + JITTER)
