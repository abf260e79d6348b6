"""Which comments are posted, have failed, or wait for their next try."""

import random
from datetime import UTC, datetime
from typing import NamedTuple

from gedbd.service.webhook.database import WebhookFile

FIRST_WAIT_S = 10.0
MAX_WAIT_S = 3600.0
MAX_TRIES = 33  # with the waits between them, 10 s doubled to an hour at most, the last try is made after 24 hours
MAX_ASKED_WAIT_S = 6 * 3600.0
JITTER = 0.2


class Comment(NamedTuple):
    """A comment that waits."""

    repository: str
    issue_id: str
    body: str


class Outbox:
    """Keeps comments until they are posted, at most one for each issue, and when each is to be tried again.

    Args:
        file: Where they are kept.
        first_wait_s: Seconds after which a comment that failed is tried again; each further wait is twice as long.
    """

    def __init__(self, file: WebhookFile, first_wait_s: float = FIRST_WAIT_S) -> None:
        self.file, self.first_wait_s = file, first_wait_s

    def put(self, comment: Comment) -> bool:
        """Lets a comment wait; False if there was ever one for this issue."""
        moment = datetime.now(UTC).isoformat(timespec="microseconds")
        columns = "repository, issue_id, body, state, moment"
        added = f"INSERT OR IGNORE INTO comments ({columns}) VALUES (?, ?, ?, 'pending', ?) RETURNING 1"
        return bool(self.file.ask(added, *comment, moment))

    def waiting(self) -> list[Comment]:
        """All comments that wait, the oldest first."""
        return self._comments("ORDER BY moment")

    def due(self, now: float) -> list[Comment]:
        """Comments whose next try is due, the most urgent first.

        A comment is also due where the clock shows a time before its last try: it was set back since, and the time of
        the next try may be far away.

        Args:
            now: Seconds since 1970.
        """
        return self._comments("AND (next_try_at <= ? OR tried_at > ?) ORDER BY next_try_at, moment", now, now)

    def next_due(self) -> float | None:
        """When the next try is due, in seconds since 1970; None if nothing waits."""
        ((moment,),) = self.file.ask("SELECT min(next_try_at) FROM comments WHERE state = 'pending'")
        return None if moment is None else float(moment)

    def settle(self, comment: Comment, state: str) -> None:
        """Keeps what became of a comment: "posted" or "failed"."""
        settled = "UPDATE comments SET state = ?, tries = tries + 1 WHERE repository = ? AND issue_id = ?"
        self.file.ask(settled, state, comment.repository, comment.issue_id)

    def postpone(self, comments: list[Comment], now: float, asked_wait_s: float = 0.0) -> list[Comment]:
        """Sets the next try of comments after one that failed.

        Args:
            comments: Those that could not be posted.
            now: Seconds since 1970.
            asked_wait_s: How long the server asks to wait at least; more than 6 hours are not obeyed.

        Returns:
            Those that have failed too often and are given up.
        """
        given_up = []
        with self.file.change():
            for comment in comments:
                key = comment.repository, comment.issue_id
                query = "SELECT tries + 1 FROM comments WHERE repository = ? AND issue_id = ?"
                ((tries,),) = self.file.ask(query, *key)
                if tries >= MAX_TRIES:
                    given_up.append(comment)
                asked = min(asked_wait_s, MAX_ASKED_WAIT_S) * random.uniform(1, 1 + JITTER)
                wait = max(wait_after(tries, self.first_wait_s), asked)
                state = "failed" if tries >= MAX_TRIES else "pending"
                changed = "SET tries = ?, state = ?, tried_at = ?, next_try_at = ?"
                where = "WHERE repository = ? AND issue_id = ?"
                self.file.ask(f"UPDATE comments {changed} {where}", tries, state, now, now + wait, *key)
        return given_up

    def state(self, repository: str, issue_id: str) -> str | None:
        """What became of an issue's comment; None if there never was one."""
        query = "SELECT state FROM comments WHERE repository = ? AND issue_id = ?"
        found = self.file.ask(query, repository, issue_id)
        return str(found[0][0]) if found else None

    def _comments(self, which: str, *values: object) -> list[Comment]:
        rows = self.file.ask(
            f"SELECT repository, issue_id, body FROM comments WHERE state = 'pending' {which}", *values
        )
        return [Comment(*row) for row in rows]


def wait_after(tries: int, first_wait_s: float = FIRST_WAIT_S) -> float:
    """Seconds until the next try: doubled with each try up to an hour, then made up to a fifth longer or shorter."""
    doubled = first_wait_s * 2.0 ** min(tries - 1, 30)
    return min(doubled, MAX_WAIT_S) * random.uniform(1 - JITTER, 1 + JITTER)
