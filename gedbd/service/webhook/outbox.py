"""The comments to post: which are posted, which have failed, and when the others are tried next."""

import random
from datetime import UTC, datetime
from typing import NamedTuple

from gedbd.service.webhook.database import WebhookFile

FIRST_WAIT_S = 10.0
MAX_WAIT_S = 3600.0
MAX_TRIES = 33  # waits double from 10 s up to an hour, so the last try is made after 24 hours
MAX_REQUESTED_WAIT_S = 6 * 3600.0
JITTER = 0.2


class Comment(NamedTuple):
    """A comment that waits."""

    repository: str
    issue_id: str
    body: str


class Outbox:
    """Keeps comments on disk until they are posted, at most one for each issue.

    Args:
        file: The open file of the webhook.
        first_wait_s: Seconds until the second try; each further wait is twice as long.
    """

    def __init__(self, file: WebhookFile, first_wait_s: float = FIRST_WAIT_S) -> None:
        self.file = file
        self.first_wait_s = first_wait_s

    def put(self, comment: Comment) -> bool:
        """Adds a comment; returns False if there was ever one for this issue."""
        moment = datetime.now(UTC).isoformat(timespec="microseconds")
        columns = "repository, issue_id, body, state, moment"
        added = f"INSERT OR IGNORE INTO comments ({columns}) VALUES (?, ?, ?, 'pending', ?) RETURNING 1"
        return bool(self.file.query(added, *comment, moment))

    def waiting(self) -> list[Comment]:
        """All comments that wait, the oldest first."""
        return self._pending("ORDER BY moment")

    def due(self, now: float) -> list[Comment]:
        """Comments whose next try is due, the most urgent first.

        Args:
            now: Seconds since 1970.
        """
        # tried_at > now: the clock was set back since the last try, so next_try_at may be far in the future.
        return self._pending("AND (next_try_at <= ? OR tried_at > ?) ORDER BY next_try_at, moment", now, now)

    def next_due(self) -> float | None:
        """When the next try is due, in seconds since 1970; None if no comment waits."""
        ((moment,),) = self.file.query("SELECT min(next_try_at) FROM comments WHERE state = 'pending'")
        return None if moment is None else float(moment)

    def settle(self, comment: Comment, state: str) -> None:
        """Records the final state of a comment: "posted" or "failed"."""
        settled = "UPDATE comments SET state = ?, tries = tries + 1 WHERE repository = ? AND issue_id = ?"
        self.file.query(settled, state, comment.repository, comment.issue_id)

    def postpone(self, comments: list[Comment], now: float, requested_wait_s: float = 0.0) -> list[Comment]:
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
                key = (comment.repository, comment.issue_id)
                query = "SELECT tries + 1 FROM comments WHERE repository = ? AND issue_id = ?"
                ((tries,),) = self.file.query(query, *key)
                if tries >= MAX_TRIES:
                    given_up.append(comment)
                requested = min(requested_wait_s, MAX_REQUESTED_WAIT_S) * random.uniform(1, 1 + JITTER)
                wait = max(wait_after(tries, self.first_wait_s), requested)
                state = "failed" if tries >= MAX_TRIES else "pending"
                changed = "SET tries = ?, state = ?, tried_at = ?, next_try_at = ?"
                where = "WHERE repository = ? AND issue_id = ?"
                self.file.query(f"UPDATE comments {changed} {where}", tries, state, now, now + wait, *key)
        return given_up

    def state(self, repository: str, issue_id: str) -> str | None:
        """State of the comment on an issue: "pending", "posted" or "failed"; None if there never was one."""
        query = "SELECT state FROM comments WHERE repository = ? AND issue_id = ?"
        found = self.file.query(query, repository, issue_id)
        return str(found[0][0]) if found else None

    def _pending(self, condition: str, *values: object) -> list[Comment]:
        query = f"SELECT repository, issue_id, body FROM comments WHERE state = 'pending' {condition}"
        return [Comment(*row) for row in self.file.query(query, *values)]


def wait_after(tries: int, first_wait_s: float = FIRST_WAIT_S) -> float:
    """Seconds until the next try: doubled after each try up to an hour, then up to a fifth longer or shorter."""
    doubled = first_wait_s * 2.0 ** min(tries - 1, 30)
    # Random, so that comments that failed together are not tried together again.
    return min(doubled, MAX_WAIT_S) * random.uniform(1 - JITTER, 1 + JITTER)
