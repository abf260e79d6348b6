"""Posts comments on GitHub, and reads and changes issues.

GitHub has no request that posts a comment unless there is one. So each comment holds a hidden marker, and every try
looks for it in all comments of the issue before it posts. The result of a POST is unknown if its answer does not come,
cannot be read, or has a status of 500 or above: GitHub may create the comment after all. What can be relied on: a try
posts at most once. An issue can get a second comment only if a try comes before GitHub shows the comment of an earlier
one, if somebody has removed the marker from that comment, or if another program posts with the same marker at the same
time. A marker that somebody else has written only keeps this program from posting.
"""

import json
import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import requests

from gedbd.corpora.clients.http import TrackedAdapter, limit_wait_s
from gedbd.service.thread_pool import call_with_timeout

log = logging.getLogger("gedbd")
T = TypeVar("T")
MARKER = "<!-- gedbd -->"
MAX_PAGES = 10
PER_PAGE = 100
MAX_ANSWER_BYTES = 64_000_000
CHUNK_BYTES = 1 << 16
TEMPORARY = (401, 408, 425, 429)  # 401: GitHub answers it in outages too, and a token may be renewed


class CommentError(Exception):
    """A comment could not be posted.

    Args:
        reason: One line.
        is_temporary: Whether a later try may succeed.
        wait_s: How long GitHub asks to wait until then, in seconds; 0 if it does not ask.
        status: Status of GitHub's answer; 0 if none was read.

    Attributes:
        is_unknown: Whether GitHub may have created the comment, or may still do so.
    """

    def __init__(self, reason: str, is_temporary: bool, wait_s: float = 0.0, status: int = 0) -> None:
        super().__init__(reason)
        self.is_temporary = is_temporary
        self.wait_s = wait_s
        self.status = status
        self.is_unknown = False


class GitHubAnswer(NamedTuple):
    """The parsed JSON of an answer, and whether GitHub says that there is a next page."""

    content: Any
    has_next: bool


class CommentClient:
    """Posts comments on issues, and reads and changes issues.

    Args:
        token: A token with permission to write issues.
        api_url: Address of the API.
        timeout_s: How long an answer may pause, in seconds.
        deadline_s: How long one attempt to post a comment may take, with all its calls, in seconds.
    """

    def __init__(
        self,
        token: str,
        api_url: str = "https://api.github.com",
        timeout_s: float = 10.0,
        deadline_s: float = 30.0,
    ) -> None:
        self.token = token
        self.api_url = api_url.rstrip("/")
        self.timeout_s = timeout_s
        self.deadline_s = deadline_s
        self._attempts: list[_Attempt] = []

    def comment_once(self, repository: str, issue_id: str, body: str, before_post: Callable[[], None]) -> bool:
        """Posts a comment unless the issue has one with the hidden marker.

        Args:
            repository: "owner/name".
            issue_id: Number of the issue.
            body: Text of the comment, with the marker.
            before_post: Called right before the comment is sent. If it fails, nothing is sent.

        Returns:
            Whether it was posted; False if the issue had one.

        Raises:
            CommentError: If GitHub refuses, cannot be reached, or takes longer than ``deadline_s``.
        """
        path = f"/repos/{repository}/issues/{issue_id}/comments"

        def work(attempt: _Attempt) -> bool:
            if self._marked_comment(path, attempt) is not None:
                return False
            before_post()
            attempt.begin_post(path)
            try:
                self._call("POST", path, attempt, json={"body": body})
            except CommentError as error:
                error.is_unknown = not 300 <= error.status < 500 or error.status == 408
                raise
            return True

        return self._within_deadline(path, work)

    def author_of_marker(self, path: str) -> str | None:
        """Login of the author of the comment with the hidden marker.

        Args:
            path: The address of the comments of an issue, below that of the API.

        Raises:
            CommentError: As ``comment_once``.
        """
        comment = self._within_deadline(path, lambda attempt: self._marked_comment(path, attempt))
        user = (comment or {}).get("user")
        return str(user["login"]) if isinstance(user, dict) and user.get("login") else None

    def read_issue(self, path: str) -> dict[str, Any]:
        """An issue as GitHub gives it. Raises CommentError as ``comment_once``, or if it is no issue."""
        content = self._within_deadline(path, lambda attempt: self._call("GET", path, attempt)).content
        if not isinstance(content, dict) or "state" not in content:
            raise CommentError(f"{path}: the answer is not an issue", is_temporary=True)
        return content

    def change_issue(self, path: str, change: dict[str, Any]) -> None:
        """Changes an issue. Raises CommentError as ``comment_once``."""
        self._within_deadline(path, lambda attempt: self._call("PATCH", path, attempt, json=change))

    def _within_deadline(self, path: str, work: Callable[["_Attempt"], T]) -> T:
        """Does some calls. Raises CommentError if they take longer than ``deadline_s``."""
        attempt = _Attempt(self.deadline_s)
        self._attempts.append(attempt)
        try:
            return call_with_timeout(self.deadline_s, lambda: work(attempt))
        except TimeoutError as error:
            failure = CommentError(f"{path}: not done within {self.deadline_s:g} seconds", is_temporary=True)
            failure.is_unknown = attempt.end()
            raise failure from error
        finally:
            attempt.end()
            self._attempts.remove(attempt)

    def cancel(self) -> None:
        """Ends all running attempts: each raises CommentError."""
        for attempt in list(self._attempts):
            attempt.end()

    def _marked_comment(self, path: str, attempt: "_Attempt") -> dict[str, Any] | None:
        """The comment with the marker, if any. Raises CommentError if there are too many to read them all."""
        for page in range(1, MAX_PAGES + 1):
            comments, has_next = self._call("GET", path, attempt, params={"per_page": PER_PAGE, "page": page})
            if not isinstance(comments, list):
                raise CommentError(f"{path}: the answer is not a list", is_temporary=True)
            for comment in comments:
                if isinstance(comment, dict) and MARKER in str(comment.get("body")):
                    return comment
            # GitHub leaves comments of blocked accounts out, so a page that is not full need not be the last one.
            if not has_next and len(comments) < PER_PAGE:
                return None
        raise CommentError(
            f"{path}: over {MAX_PAGES * PER_PAGE:,} comments, which are not all read", is_temporary=False
        )

    def _call(self, method: str, path: str, attempt: "_Attempt", **content: Any) -> GitHubAnswer:
        headers = {"Accept": "application/vnd.github+json", "Authorization": f"Bearer {self.token}"}
        content |= {"headers": headers, "timeout": self.timeout_s, "allow_redirects": False, "stream": True}
        where = f"{method} {path}"
        with requests.Session() as session:
            # Without an ``auth`` of its own, requests replaces the token by a password from ~/.netrc.
            session.auth = lambda request: request
            for scheme in ("http://", "https://"):
                session.mount(scheme, TrackedAdapter(attempt.add))
            try:
                answer = session.request(method, self.api_url + path, **content)
                body = _read_body(answer, where, attempt)
            except requests.RequestException as error:
                raise CommentError(f"{where}: {type(error).__name__}", is_temporary=True) from error
        if answer.status_code >= 300:
            raise _refusal(answer, body, where)
        try:
            return GitHubAnswer(json.loads(body), "next" in answer.links)
        except (ValueError, RecursionError) as error:
            raise CommentError(f"{where}: the answer is not JSON", is_temporary=True) from error


class _Attempt:
    """One attempt to post a comment: its deadline and its connections.

    A timeout of requests bounds each read, but not their number: an answer of one byte a second would never end.
    """

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds
        self._has_posted = False
        self._turn = threading.Lock()
        self._sockets: list[socket.socket] = []

    def begin_post(self, path: str) -> None:
        """Records that the comment is sent now. Raises CommentError if the attempt is over: then it is not sent."""
        with self._turn:
            if self.is_over:
                raise CommentError(f"{path}: ended before the comment was sent", is_temporary=True)
            self._has_posted = True

    @property
    def is_over(self) -> bool:
        """Whether no further call may begin."""
        return time.monotonic() > self._ends

    def add(self, connection: socket.socket) -> None:
        """Adds a connection, which is closed when the attempt ends."""
        self._sockets.append(connection)
        if self.is_over:
            self.end()

    def end(self) -> bool:
        """Ends the running calls, and with them the thread that waits for them; returns whether it has posted."""
        with self._turn:
            self._ends = 0.0
        for connection in self._sockets:  # none is removed: two threads may run this at once
            with suppress(OSError):  # it is closed already
                # ssl.SSLSocket.shutdown would detach the connection from the thread that reads it.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
        return self._has_posted


def _read_body(answer: requests.Response, where: str, attempt: _Attempt) -> bytes:
    """The body of an answer. Raises CommentError if it is too large or too slow."""
    body = bytearray()
    for chunk in answer.iter_content(CHUNK_BYTES):
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise CommentError(f"{where}: the answer is larger than {MAX_ANSWER_BYTES:,} bytes", is_temporary=True)
        if attempt.is_over:
            raise CommentError(f"{where}: the answer is too slow", is_temporary=True)
    return bytes(body)


def _refusal(answer: requests.Response, body: bytes, where: str) -> CommentError:
    """The error for a status, with whether and when to try again."""
    status = answer.status_code
    try:
        wait_s = limit_wait_s(status, answer.headers, body[:CHUNK_BYTES].decode(errors="replace"), time.time())
    except (ValueError, OverflowError, TypeError):  # the headers hold no valid time
        wait_s = None
    is_temporary = wait_s is not None or status >= 500 or status in TEMPORARY
    return CommentError(f"{where}: status {status}", is_temporary, wait_s or 0.0, status)
