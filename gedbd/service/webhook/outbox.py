"""The comments to post: which are posted, which have failed, and when the others are tried next."""

import random
import time
from datetime import UTC, datetime
from typing import NamedTuple

from gedbd.service.webhook.database import WebhookFile

FIRST_WAIT_S = 10.0
MAX_WAIT_S = 3600.0
MAX_TRIES = 33  # waits double from 10 s up to an hour, so the last try is made after 24 hours
MAX_REQUESTED_WAIT_S = 6 * 3600.0
JITTER = 0.2
RESULT_WAIT_S = 60.0  # until GitHub shows a comment that it creates although its answer did not arrive


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
        self._set_posted_at(comment, now)
        self._rests_until[comment.repository, comment.issue_id] = time.monotonic() + self.result_wait_s

    def record_refusal(self, comment: OutboxComment) -> None:
        """Records that GitHub has not created a comment, so that it need not rest."""
        self._set_posted_at(comment, 0.0)
        self._rests_until.pop((comment.repository, comment.issue_id), None)

    def rest_s(self) -> float:
        """Seconds until no comment rests."""
        return max((self._rest_s(comment.repository, comment.issue_id) for comment in self.waiting()), default=0.0)

    def settle(self, comment: OutboxComment, state: str) -> None:
        """Records the final state of a comment: "posted" or "failed"."""
        settled = "UPDATE comments SET state = ?, tries = tries + 1 WHERE repository = ? AND issue_id = ?"
        self.file.query(settled, state, comment.repository, comment.issue_id)
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

    def _set_posted_at(self, comment: OutboxComment, moment: float) -> None:
        changed = "UPDATE comments SET posted_at = ? WHERE repository = ? AND issue_id = ?"
        self.file.query(changed, moment, comment.repository, comment.issue_id)

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
