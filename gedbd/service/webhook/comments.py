"""Posts comments on GitHub."""

import json
import logging
import socket
import time
from contextlib import suppress
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from gedbd.corpora.clients.rate_limits import limit_wait_s
from gedbd.service.background_worker import within

log = logging.getLogger("gedbd")
MARKER = "<!-- gedbd -->"
PAGES = 10
A_PAGE = 100
MAX_ANSWER_BYTES = 64_000_000
CHUNK_BYTES = 1 << 16
PASSING = (401, 408, 425, 429)  # 401: GitHub gives it in outages too, and a token is renewed within hours


class Unposted(Exception):  # noqa: N818 - says that a comment is not there
    """A comment could not be posted.

    Args:
        why: One line.
        again: Whether that may be otherwise later.
        wait_s: How long GitHub asks to wait until then, in seconds; 0 if it does not ask.
    """

    def __init__(self, why: str, again: bool, wait_s: float = 0.0) -> None:
        super().__init__(why)
        self.again, self.wait_s = again, wait_s


class GitHub:
    """Comments on issues.

    Args:
        token: A token that may write issues.
        api_url: Where the API is.
        timeout_s: How long an answer may pause, in seconds.
        deadline_s: How long one attempt at a comment may take, with all its calls, however slowly answers drip in.

    Raises:
        ValueError: If a time is not above 0.
    """

    def __init__(
        self,
        token: str,
        api_url: str = "https://api.github.com",
        timeout_s: float = 10.0,
        deadline_s: float = 30.0,
    ) -> None:
        for name, value in (("timeout_s", timeout_s), ("deadline_s", deadline_s)):
            if not value > 0:
                raise ValueError(f"webhook.{name}={value} must be above 0")
        self.token, self.api_url = token, api_url.rstrip("/")
        self.timeout_s, self.deadline_s = timeout_s, deadline_s
        self._attempts: list[_Attempt] = []

    def comment_once(self, repository: str, issue_id: str, body: str) -> bool:
        """Posts a comment with the hidden marker unless the issue has one that bears it; a failure is tried again once.

        Returns:
            Whether it was posted; if not, it was there.

        Raises:
            Unposted: If GitHub refuses, cannot be reached, or takes longer than ``deadline_s``.
        """
        path = f"/repos/{repository}/issues/{issue_id}/comments"
        attempt = _Attempt(self.deadline_s)
        self._attempts.append(attempt)
        try:
            return within(self.deadline_s, lambda: self._try_twice(path, body, attempt))
        except TimeoutError as error:
            raise Unposted(f"{path}: not done within {self.deadline_s:g} seconds", again=True) from error
        finally:
            attempt.end()
            self._attempts.remove(attempt)

    def cancel(self) -> None:
        """Ends the attempts that run; each raises Unposted, or is found to have succeeded at the next one."""
        for attempt in list(self._attempts):
            attempt.end()

    def _try_twice(self, path: str, body: str, attempt: "_Attempt") -> bool:
        try:
            return self._comment(path, body, attempt)
        except Unposted as unposted:
            if not unposted.again or unposted.wait_s > 0 or attempt.is_over:
                raise
            # It looks for the marker again: perhaps the comment arrived, and only the answer was lost.
            return self._comment(path, body, attempt)

    def _comment(self, path: str, body: str, attempt: "_Attempt") -> bool:
        for page in range(1, PAGES + 1):
            notes = self._call("GET", path, attempt, params={"per_page": A_PAGE, "page": page})
            if not isinstance(notes, list):
                raise Unposted(f"{path} gave no list", again=True)
            if any(MARKER in str(note.get("body")) for note in notes if isinstance(note, dict)):
                return False
            if len(notes) < A_PAGE:
                break
        self._call("POST", path, attempt, json={"body": body})
        return True

    def _call(self, method: str, path: str, attempt: "_Attempt", **content: Any) -> Any:
        headers = {"Accept": "application/vnd.github+json", "Authorization": f"Bearer {self.token}"}
        content |= {"headers": headers, "timeout": self.timeout_s, "allow_redirects": False, "stream": True}
        where = f"{method} {path}"
        with requests.Session() as session:
            session.auth = lambda request: request  # else requests puts what ~/.netrc holds in place of the token
            for scheme in ("http://", "https://"):
                session.mount(scheme, _WatchedAdapter(attempt))
            try:
                answer = session.request(method, self.api_url + path, **content)
                body = _read(answer, where, attempt)
            except requests.RequestException as error:
                raise Unposted(f"{where}: {type(error).__name__}", again=True) from error
        if answer.status_code < 300:
            return _parsed(body, where)
        raise _refusal(answer, body, where)


class _Attempt:
    """One attempt at a comment: until when it may run, and its connections.

    A timeout of requests bounds each read, but not how many there are: an answer of one byte a second would never end.
    """

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds
        self._sockets: list[socket.socket] = []

    @property
    def is_over(self) -> bool:
        """Whether no further call may begin."""
        return time.monotonic() > self._ends

    def add(self, connection: socket.socket) -> None:
        """Takes a new connection, which ends with the attempt."""
        self._sockets.append(connection)
        if self.is_over:
            self.end()

    def end(self) -> None:
        """Ends the calls that run, and with them the thread that waits for them."""
        self._ends = 0.0
        for connection in self._sockets:  # none is taken out, for two threads may do this at once
            with suppress(OSError):  # it is closed already
                # The method of ssl.SSLSocket would take the connection from the thread that reads it.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _read(answer: requests.Response, where: str, attempt: _Attempt) -> bytes:
    """The body of an answer. Raises Unposted if it is too large or comes too late."""
    body = bytearray()
    for chunk in answer.iter_content(CHUNK_BYTES):
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise Unposted(f"{where}: the answer is larger than {MAX_ANSWER_BYTES:,} bytes", again=True)
        if attempt.is_over:
            raise Unposted(f"{where}: the answer comes too slowly", again=True)
    return bytes(body)


def _parsed(body: bytes, where: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unposted(f"{where}: the answer is not JSON", again=True) from error


def _refusal(answer: requests.Response, body: bytes, where: str) -> Unposted:
    """Why there is no comment, by the status, and whether and when another try is worth while."""
    status = answer.status_code
    try:
        wait_s = limit_wait_s(status, answer.headers, body[:CHUNK_BYTES].decode(errors="replace"), time.time())
    except (ValueError, OverflowError, TypeError):  # headers that hold no time
        wait_s = None
    again = wait_s is not None or status >= 500 or status in PASSING
    return Unposted(f"{where}: status {status}", again, wait_s or 0.0)


class _WatchedAdapter(HTTPAdapter):
    """Hands its connections to an attempt."""

    def __init__(self, attempt: _Attempt) -> None:
        self.attempt = attempt
        super().__init__()

    def get_connection_with_tls_context(self, *args: Any, **named: Any) -> Any:
        pool: Any = super().get_connection_with_tls_context(*args, **named)
        attempt = self.attempt

        class Watched(pool.ConnectionCls):  # type: ignore[misc]
            def connect(self) -> None:
                super().connect()
                attempt.add(self.sock)

        pool.ConnectionCls = Watched
        return pool
