"""Posts comments on GitHub, at most one on each issue.

GitHub cannot make a POST depend on whether a comment exists. So each comment holds a hidden marker, and each attempt
first searches all comments of the issue for it. The result of a POST is unknown if its answer is missing,
unreadable, or has a status of 500 or above: GitHub may create the comment after all.

Guarantee: an attempt posts at most once. An issue can get a second comment only if an attempt comes before GitHub shows
the comment of the previous one, if the marker was removed from that comment, or if another program posts with the same
marker at the same time.
"""

import json
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import requests

from gedbd.corpora.clients.tracker_client import limit_wait_s
from gedbd.io.http import HttpSession
from gedbd.service.event_table import EventTable

log = logging.getLogger("gedbd")
MARKER = "<!-- gedbd -->"
MAX_PAGES = 10
PER_PAGE = 100
MAX_MESSAGE_BYTES = 1 << 16
TEMPORARY = (401, 408, 425, 429)  # 401 occurs in outages too, and a token may be renewed
FIRST_WAIT_S = 10.0
MAX_WAIT_S = 3600.0
MAX_TRIES = 33  # waits double from 10 s up to an hour, so the last attempt is made after 24 hours
MAX_REQUESTED_WAIT_S = 6 * 3600.0
JITTER = 0.2
RESULT_WAIT_S = 60.0  # until GitHub shows a comment whose answer did not arrive
MAX_PAUSE_S = 60.0  # until the clock, which may be set back, is read again


class CommentError(Exception):
    """A comment could not be posted; a later attempt may succeed if ``is_temporary``.

    Args:
        reason: One line.
        is_temporary: Whether a later attempt may succeed.
        wait_s: How long GitHub asks to wait until then, in seconds; 0 if it does not ask.
        status: Status of GitHub's answer; 0 if none was read.

    Attributes:
        is_unknown: Whether GitHub may have created the comment or may still do so.
    """

    def __init__(self, reason: str, is_temporary: bool, wait_s: float = 0.0, status: int = 0) -> None:
        super().__init__(reason)
        self.is_temporary = is_temporary
        self.wait_s = wait_s
        self.status = status
        self.is_unknown = False


class CommentClient:
    """Posts comments on issues, one at a time.

    Args:
        token: A token with permission to write issues.
        api_url: Address of the API.
        timeout_s: Read timeout of a request, in seconds.
        deadline_s: How long an attempt may take, with all its calls, in seconds.
    """

    def __init__(self, token: str, api_url: str, timeout_s: float, deadline_s: float) -> None:
        self.api_url = api_url.rstrip("/")
        self.deadline_s = deadline_s
        self._late = f"not done within {deadline_s:g} seconds"
        secrets = {"Authorization": f"Bearer {token}"}
        accept = {"Accept": "application/vnd.github+json"}
        timeouts_s = (min(timeout_s, deadline_s), timeout_s)  # an open connection is closed at the deadline
        self._session = HttpSession(self.api_url, "webhook.api_url", secrets, accept, timeouts_s)

    def comment_once(self, repository: str, issue_id: str, body: str, before_post: Callable[[], None]) -> bool:
        """Posts a comment unless the issue has one with the hidden marker.

        Args:
            repository: "owner/name".
            issue_id: Number of the issue.
            body: Text of the comment, with the marker.
            before_post: Called right before the comment is sent; if it raises, nothing is sent.

        Returns:
            Whether the comment was posted; False if the issue already has one.

        Raises:
            CommentError: If GitHub refuses, cannot be reached, or takes longer than ``deadline_s``.
        """
        path = f"/repos/{repository}/issues/{issue_id}/comments"
        is_sent = False
        try:
            with self._session.within(self.deadline_s):
                if self._has_marker(path):
                    return False
                before_post()
                if self._session.is_over:
                    raise CommentError(f"{path}: ended before the comment was sent", is_temporary=True)
                is_sent = True
                self._call("POST", path, json={"body": body})
        except CommentError as error:
            error.is_unknown = is_sent and (not 300 <= error.status < 500 or error.status == 408)
            raise
        except requests.Timeout as error:  # the deadline passed right after the last answer
            failure = CommentError(f"{path}: {self._late}", is_temporary=True)
            failure.is_unknown = is_sent
            raise failure from error
        return True

    def cancel(self) -> None:
        """Ends a running attempt, which raises CommentError."""
        self._session.end()

    def _has_marker(self, path: str) -> bool:
        """Whether a comment has the marker. Raises CommentError if there are too many comments to read."""
        for page in range(1, MAX_PAGES + 1):
            comments, has_next = self._call("GET", f"{path}?per_page={PER_PAGE}&page={page}")
            if not isinstance(comments, list):
                raise CommentError(f"{path}: the answer is not a list", is_temporary=True)
            if any(isinstance(comment, dict) and MARKER in str(comment.get("body")) for comment in comments):
                return True
            # GitHub omits comments of blocked accounts, so that a short page need not be the last one.
            if not has_next and len(comments) < PER_PAGE:
                return False
        raise CommentError(f"{path}: more than {MAX_PAGES * PER_PAGE:,} comments", is_temporary=False)

    def _call(self, method: str, path: str, **content: Any) -> tuple[Any, bool]:
        """The parsed JSON of an answer, and whether there is a next page."""
        name = f"{method} {path.partition('?')[0]}"
        try:
            answer, body = self._session.read(method, self.api_url + path, follow=False, **content)
        except (requests.RequestException, ValueError) as error:
            reason = self._late if self._session.is_over else type(error).__name__
            raise CommentError(f"{name}: {reason}", is_temporary=True) from error
        if self._session.is_over:  # the body may be incomplete
            raise CommentError(f"{name}: {self._late}", is_temporary=True)
        status = answer.status_code
        if status >= 300:
            try:
                wait_s = limit_wait_s(
                    status, answer.headers, body[:MAX_MESSAGE_BYTES].decode(errors="replace"), time.time()
                )
            except (ValueError, OverflowError, TypeError):  # the headers hold no valid time
                wait_s = None
            is_temporary = wait_s is not None or status >= 500 or status in TEMPORARY
            raise CommentError(f"{name}: status {status}", is_temporary, wait_s or 0.0, status)
        try:
            return json.loads(body), "next" in answer.links
        except (ValueError, RecursionError) as error:
            raise CommentError(f"{name}: the answer is not JSON", is_temporary=True) from error


class OutboxComment(NamedTuple):
    """A comment to post."""

    repository: str
    issue_id: str
    body: str

    @property
    def name(self) -> str:
        """The key in the table, such as "owner/name#12"."""
        return f"{self.repository}#{self.issue_id}"


class Outbox:
    """Keeps comments on disk until they are posted, at most one for each issue.

    A comment with a POST of unknown result rests for ``RESULT_WAIT_S``, as GitHub may still create it. The time of the
    POST is on disk, so this also holds if the process is killed. While the process runs, the wait is measured by the
    monotonic clock, since the time of day may be set. Waits between attempts begin at ``FIRST_WAIT_S`` and double.
    """

    def __init__(self, table: EventTable) -> None:
        self.table = table
        self.first_wait_s = FIRST_WAIT_S
        self.result_wait_s = RESULT_WAIT_S
        now = time.time()
        select = "SELECT name, posted_at FROM events WHERE kind = 'comment' AND state = 'pending' AND posted_at > 0"
        self._rests_until: dict[str, float] = {}  # by the monotonic clock
        for name, posted_at in table.query(select):
            # At most so long: the clock may have been set back.
            rest_s = min(posted_at + self.result_wait_s - now, self.result_wait_s)
            self._rests_until[name] = time.monotonic() + rest_s

    def put(self, comment: OutboxComment) -> bool:
        """Adds a comment unless there ever was one for this issue; returns whether it was added."""
        columns = "kind, name, state, moment, content"
        insert = f"INSERT OR IGNORE INTO events ({columns}) VALUES ('comment', ?, 'pending', ?, ?)"
        return bool(self.table.query(f"{insert} RETURNING 1", comment.name, time.time(), comment.body))

    def waiting(self) -> list[OutboxComment]:
        """All pending comments, the oldest first."""
        return self._pending("ORDER BY number")

    def due(self, now: float) -> list[OutboxComment]:
        """Comments that are due at ``now``, in seconds since 1970, the most urgent first."""
        # tried_at > now: the clock was set back after the last attempt, so next_try_at may be far in the future.
        pending = self._pending("AND (next_try_at <= ?1 OR tried_at > ?1) ORDER BY next_try_at, number", now)
        return [comment for comment in pending if self._rest_s(comment.name) <= 0]

    def next_due(self) -> float | None:
        """When the next attempt is due, in seconds since 1970; None if no comment is pending."""
        moments = []
        pending = "SELECT name, next_try_at FROM events WHERE kind = 'comment' AND state = 'pending'"
        for name, moment in self.table.query(pending):
            rest_s = self._rest_s(name)
            moments.append(max(moment, time.time() + rest_s) if rest_s > 0 else float(moment))
        return min(moments, default=None)

    def record_post(self, comment: OutboxComment, now: float, is_refused: bool = False) -> None:
        """Records a POST that begins or has an unknown result: the comment rests from ``now`` on, unless refused."""
        self._set(comment, "posted_at = ?", 0 if is_refused else now)
        self._rests_until[comment.name] = 0.0 if is_refused else time.monotonic() + self.result_wait_s

    def rest_s(self) -> float:
        """Seconds until no comment rests."""
        return max((self._rest_s(comment.name) for comment in self.waiting()), default=0.0)

    def settle(self, comment: OutboxComment, state: str) -> None:
        """Records the final state of a comment: "posted" or "failed"."""
        self._set(comment, "state = ?, tries = tries + 1", state)
        self._rests_until.pop(comment.name, None)

    def postpone(
        self, comments: Sequence[OutboxComment], now: float, requested_wait_s: float = 0.0
    ) -> list[OutboxComment]:
        """Schedules the next attempt for comments, and returns those that have failed too often.

        ``now`` is in seconds since 1970; ``requested_wait_s`` is how long the server asks to wait, at most 6 hours.
        """
        given_up = []
        with self.table.transaction():
            for comment in comments:
                query = "SELECT tries + 1 FROM events WHERE kind = 'comment' AND name = ?"
                ((tries,),) = self.table.query(query, comment.name)
                if tries >= MAX_TRIES:
                    given_up.append(comment)
                requested = min(requested_wait_s, MAX_REQUESTED_WAIT_S) * random.uniform(1, 1 + JITTER)
                wait_s = max(wait_after(tries, self.first_wait_s), requested)
                state = "failed" if tries >= MAX_TRIES else "pending"
                assignments = "tries = ?, state = ?, tried_at = ?, next_try_at = ?"
                self._set(comment, assignments, tries, state, now, now + wait_s)
        return given_up

    def state(self, repository: str, issue_id: str) -> str | None:
        """State of the comment on an issue: "pending", "posted" or "failed"; None if there never was one."""
        name = OutboxComment(repository, issue_id, "").name
        rows = self.table.query("SELECT state FROM events WHERE kind = 'comment' AND name = ?", name)
        return str(rows[0][0]) if rows else None

    def _set(self, comment: OutboxComment, columns: str, *values: object) -> None:
        self.table.query(f"UPDATE events SET {columns} WHERE kind = 'comment' AND name = ?", *values, comment.name)

    def _rest_s(self, name: str) -> float:
        """Seconds that a comment still rests; 0 or below if it is ready."""
        return self._rests_until.get(name, 0.0) - time.monotonic()

    def _pending(self, condition: str, *values: object) -> list[OutboxComment]:
        query = f"SELECT name, content FROM events WHERE kind = 'comment' AND state = 'pending' {condition}"
        comments = []
        for name, body in self.table.query(query, *values):
            repository, _, issue_id = name.rpartition("#")
            comments.append(OutboxComment(repository, issue_id, body))
        return comments


def wait_after(tries: int, first_wait_s: float = FIRST_WAIT_S) -> float:
    """Seconds until the next attempt: doubles with each attempt, up to an hour, with 20% jitter."""
    doubled = first_wait_s * 2.0 ** min(tries - 1, 30)
    return min(doubled, MAX_WAIT_S) * random.uniform(1 - JITTER, 1 + JITTER)


@dataclass
class CommentPoster:
    """Posts the comments of an outbox, and counts the results."""

    github: CommentClient
    outbox: Outbox
    count: Callable[[str], object] = lambda result: None

    def post_next(self) -> float:
        """Tries to post the most urgent due comment, and returns the seconds until the next one is due."""
        now = time.time()
        due = self.outbox.due(now)
        if due:
            self.post(due[0])
            return 0.0
        next_due = self.outbox.next_due()
        return MAX_PAUSE_S if next_due is None else min(max(next_due - now, 0.0), MAX_PAUSE_S)

    def post_due(self) -> list[str]:
        """Tries to post each due comment, until a temporary failure, and returns the results."""
        results = []
        for comment in self.outbox.due(time.time()):
            results.append(self.post(comment))
            if results[-1] in ("postponed", "unknown"):
                break
        return results

    def post_all_due(self) -> list[str]:
        """Calls ``post_due``, waits for resting comments, and calls it again; for a process that ends afterwards."""
        results = self.post_due()
        rest_s = self.outbox.rest_s()
        if rest_s > 0 or "unknown" in results:
            time.sleep(max(rest_s, 0.0))
            results += self.post_due()
        return results

    def post(self, comment: OutboxComment) -> str:
        """Tries to post a comment.

        Returns:
            "posted", "exists" if the issue had a comment, "postponed" until a later attempt, "unknown" if GitHub may
            have created the comment, which a later attempt checks, or "failed" permanently.
        """
        try:
            is_posted = self.github.comment_once(*comment, lambda: self.outbox.record_post(comment, time.time()))
        except CommentError as error:
            return self._handle_failure(comment, error)
        self.outbox.settle(comment, "posted")
        result = "posted" if is_posted else "exists"
        self.count(result)
        return result

    def _handle_failure(self, comment: OutboxComment, error: CommentError) -> str:
        now = time.time()
        self.outbox.record_post(comment, now, is_refused=not error.is_unknown)
        if not error.is_temporary:
            log.warning("no comment on issue %s: %s", comment.issue_id, error)
            self.outbox.settle(comment, "failed")
            self.count("failed")
            return "failed"
        tried = [comment]
        if not error.is_unknown:
            # GitHub cannot be reached, so the attempt counts for all due comments.
            tried += [other for other in self.outbox.due(now) if other != comment]
        given_up = self.outbox.postpone(tried, now, error.wait_s)
        for failed in given_up:
            log.warning("no comment on issue %s: given up after %d tries: %s", failed.issue_id, MAX_TRIES, error)
            self.count("failed")
        if comment in given_up:
            return "failed"
        result = "unknown" if error.is_unknown else "postponed"
        log.warning("no comment on issue %s yet, it will be tried again: %s", comment.issue_id, error)
        self.count(result)
        return result
