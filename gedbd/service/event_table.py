"""The webhook's SQLite table of events: deliveries, states of issues, suggestions and comments."""

import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from gedbd.io.sqlite_file import Database

MAX_WAITING = 5000
WEBHOOK_FILE = "webhook.sqlite"
# Kind and name identify an event. Kinds, names and states:
# received: a delivery, by its id, NULL if it has none: waiting, processed.
# seen: an issue ("issue 12") or a comment ("comment 345") with the two reports that it links: there, gone.
# compared: a new report, by its id, with the suggestion; the state is the outcome.
# comment: "owner/name#12" and the text to post: pending, posted, failed.
SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('received', 'seen', 'compared', 'comment')),
    name TEXT,
    state TEXT NOT NULL,
    moment REAL NOT NULL DEFAULT 0,       -- when added or, if seen, last changed; seconds since 1970
    content TEXT NOT NULL DEFAULT '',
    report TEXT,
    duplicate TEXT,
    tries INTEGER NOT NULL DEFAULT 0,
    tried_at REAL NOT NULL DEFAULT 0,
    next_try_at REAL NOT NULL DEFAULT 0,
    posted_at REAL NOT NULL DEFAULT 0,    -- start of the last POST with unknown result, or 0
    UNIQUE (kind, name)
);
CREATE INDEX IF NOT EXISTS events_by_state ON events (kind, state, number);
CREATE INDEX IF NOT EXISTS events_of_pair ON events (report, duplicate) WHERE report IS NOT NULL;
"""
SEEN = (
    "INSERT INTO events (kind, name, moment, state) VALUES ('seen', ?, ?, ?) ON CONFLICT (kind, name) DO UPDATE"
    " SET moment = max(moment, excluded.moment), state = excluded.state"
    " WHERE excluded.state = 'gone' OR excluded.moment > moment"
)


class Delivery(NamedTuple):
    """A waiting event, as JSON."""

    number: int
    delivery: str
    event: str


class EventTable(Database):
    """The file with the table of events, created if absent. Raises ValueError if it is damaged or has other tables.

    Attributes:
        waiting: Number of waiting deliveries, for the metrics.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, SCHEMA, "the waiting deliveries and comments, and the suggestions")
        self.recount()

    def forget(self, issue_id: str) -> None:
        """Erases the waiting deliveries of an issue, and the suggestions and comments that name it.

        Its number stays, with the time up to which its events are ignored, and whether a comment was posted, since an
        issue never gets a second one.
        """
        named = re.compile(rf"#{re.escape(issue_id)}(?!\d)")
        is_named = "EXISTS (SELECT 1 FROM json_each(content, '$.named') WHERE json_extract(value, '$.issue') = ?1)"
        number = "iif(json_valid(content), CAST(json_extract(content, '$.issue.number') AS TEXT), '')"
        with self.transaction():
            self.remember(f"issue {issue_id}", datetime.now(UTC), gone=True)
            processed = "UPDATE events SET state = 'processed', content = '' WHERE kind = 'received'"
            self.query(f"{processed} AND state = 'waiting' AND {number} = ?", issue_id)
            linked = "kind = 'seen' AND ?1 IN (report, duplicate)"
            self.query(f"UPDATE events SET report = NULL, duplicate = NULL WHERE {linked}", issue_id)
            self.query(f"DELETE FROM events WHERE kind = 'compared' AND (name = ?1 OR {is_named})", issue_id)
            for event, name, body in self.query("SELECT number, name, content FROM events WHERE kind = 'comment'"):
                if name.endswith(f"#{issue_id}") or named.search(body):
                    erased = "UPDATE events SET content = '', state = replace(state, 'pending', 'failed')"
                    self.query(f"{erased} WHERE number = ?", event)
        self.checkpoint()

    def put(self, delivery: str, event: str, max_waiting: int = MAX_WAITING) -> str:
        """Stores an event, as JSON; returns "accepted" once it is on disk, "repeated" if it is known, or "full".

        ``delivery`` is its id, by which a repeated one is recognised; empty if it has none.
        """
        with self.transaction():
            accepted_before = "SELECT 1 FROM events WHERE kind = 'received' AND name = ?"
            if self.query(accepted_before, delivery):
                return "repeated"
            waiting = self._count()
            if waiting >= max_waiting:
                return "full"
            added = "INSERT INTO events (kind, name, state, moment, content) VALUES ('received', ?, 'waiting', ?, ?)"
            self.query(added, delivery or None, time.time(), event)
        self.waiting = waiting + 1
        return "accepted"

    def first(self) -> Delivery | None:
        """The oldest waiting delivery."""
        waiting = "FROM events WHERE kind = 'received' AND state = 'waiting' ORDER BY number LIMIT 1"
        rows = self.query(f"SELECT number, coalesce(name, ''), content {waiting}")
        return Delivery(*rows[0]) if rows else None

    def remove(self, delivery: Delivery, remember: bool) -> None:
        """Removes a processed delivery. If it is remembered, it is refused when it arrives again."""
        if remember and delivery.delivery:
            self.query("UPDATE events SET state = 'processed', content = '' WHERE number = ?", delivery.number)
        else:
            self.query("DELETE FROM events WHERE number = ?", delivery.number)

    def recount(self) -> None:
        """Updates ``waiting``; ``remove`` does not, so that it decreases only after all effects of the delivery."""
        self.waiting = self._count()

    def _count(self) -> int:
        ((count,),) = self.query("SELECT count(*) FROM events WHERE kind = 'received' AND state = 'waiting'")
        return int(count)

    def is_outdated(self, name: str, updated_at: datetime | None) -> bool:
        """Whether a later state of an issue ("issue 12") or a comment ("comment 345") is known.

        GitHub's times are whole seconds: of states with the same time, the last to arrive counts. A deleted item needs
        a later time, since the last state before the deletion has the same time.
        """
        rows = self.query("SELECT moment, state = 'gone' FROM events WHERE kind = 'seen' AND name = ?", name)
        if not rows:
            return False
        known, gone = rows[0]
        if updated_at is None:
            return bool(gone)
        moment = updated_at.timestamp()
        return bool(moment <= known if gone else moment < known)

    def states(self, what: str) -> dict[str, tuple[float, bool]]:
        """When each known "issue" or "comment" changed last, in seconds since 1970, and if it is gone, by number."""
        query = "SELECT substr(name, ?), moment, state = 'gone' FROM events WHERE kind = 'seen' AND name GLOB ?"
        rows = self.query(query, len(what) + 2, f"{what} *")
        return {number: (moment, bool(is_gone)) for number, moment, is_gone in rows}

    def remember(self, name: str, updated_at: datetime | None, gone: bool = False) -> None:
        """Records a processed state of an issue or comment; the recorded time never decreases."""
        self.query(SEEN, name, updated_at.timestamp() if updated_at else 0.0, "gone" if gone else "there")

    def remember_all(self, times: Mapping[str, float]) -> None:
        """Records the last changes of issues by number, in seconds since 1970, unless a later state is known."""
        with self.transaction():
            self.write_all(SEEN, ((f"issue {number}", time, "there") for number, time in times.items()))

    def link_of(self, comment: str) -> tuple[str, str] | None:
        """The two reports that a comment links."""
        linked = "SELECT report, duplicate FROM events WHERE kind = 'seen' AND name = ? AND report IS NOT NULL"
        rows = self.query(linked, comment)
        return rows[0] if rows else None

    def remember_link(self, comment: str, report: str | None, duplicate: str | None) -> None:
        """Records which reports a comment links; None if it no longer links any."""
        self.query(
            "INSERT INTO events (kind, name, state, report, duplicate) VALUES ('seen', ?, 'there', ?, ?)"
            " ON CONFLICT (kind, name) DO UPDATE SET report = excluded.report, duplicate = excluded.duplicate",
            *(comment, report, duplicate),
        )

    def called_duplicates(self, ids: Sequence[str]) -> set[str]:
        """The reports among ``ids`` that a comment calls a duplicate of another report among them."""
        pairs = self.select("SELECT report, duplicate FROM events WHERE report IN (?)", ids)
        return {report for report, duplicate in pairs if duplicate in ids}

    def comments_linking(self, report: str, duplicate: str) -> int:
        """Number of comments that link two reports, in either direction."""
        # Two conditions, each of which uses an index; IN with both pairs would scan the table.
        query = "SELECT count(*) FROM events WHERE (report = ?1 AND duplicate = ?2) OR (report = ?2 AND duplicate = ?1)"
        ((count,),) = self.query(query, report, duplicate)
        return int(count)
