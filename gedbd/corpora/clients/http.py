"""Request JSON from a tracker: from its host only, with rate limits, retries and bounded responses."""

import json
import math
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit
from weakref import WeakSet

import requests
from requests.adapters import HTTPAdapter

from gedbd.corpora.clients.credentials import read_secret
from gedbd.corpora.dates import MAX_YEAR, parse_date, parse_mail_date
from gedbd.corpora.urls import MAX_REDIRECTS, check_same_server, naming, origin, shown_url
from gedbd.io.console import printable_line

MAX_MESSAGE_CHARACTERS = 200
DEFAULT_WAIT_S = 60.0  # if a tracker states no time; GitHub asks for at least a minute
LAST_RESET = datetime(MAX_YEAR, 12, 31, tzinfo=UTC).timestamp()
MIN_EPOCH_S = 1e8  # a larger reset is a point in time, a smaller one a number of seconds
REMAINING = ("X-RateLimit-Remaining", "RateLimit-Remaining")
RESETS = ("X-RateLimit-Reset", "RateLimit-Reset")
ATTEMPTS = 6
MAX_BYTES = 64_000_000
CHUNK_BYTES = 1 << 16
TIMEOUT_S = (10, 60)  # to connect, and between two packets
MAX_ANSWER_S = 600.0  # for a whole answer: one byte a second would pass the limit between packets for ever
TEMPORARY_ERRORS = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    requests.exceptions.ContentDecodingError,
)
Record = dict[str, Any]


class Answer(NamedTuple):
    """The JSON of a response, with its URL, its headers and its links by name, such as ``next``."""

    content: Any
    url: str
    headers: Mapping[str, str]
    links: Mapping[str, str]


class Wait(NamedTuple):
    """How long to wait before the next attempt, and why."""

    seconds: float
    reason: str


class Client:
    """HTTP client of one tracker.

    Args:
        base_url: Address of the tracker. Nothing is sent to another server, and the secrets only to addresses with its
            scheme, host and port.
        secrets: Headers that hold a token.
        token: The environment variable that the token comes from, for messages.
        max_wait_s: The longest accepted wait for a rate limit, in seconds.
        say: Shows a line to the user.
        sleep: Waits for a number of seconds.
        now: Returns the seconds since 1970.

    Raises:
        ValueError: ``base_url`` is not an address, or holds a password.
    """

    def __init__(
        self,
        base_url: str,
        secrets: Mapping[str, str],
        token: str,
        max_wait_s: float,
        say: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.base_url = check_base(base_url)
        self.token = token
        self.max_wait_s = max_wait_s
        self.say = say
        self.started: float | None = None  # time of the first response by the server's clock
        self.repeated = 0  # records that came more than once, see ``PageList``
        self._secrets = secrets
        self._sleep = sleep
        self._now = now
        self._connections: WeakSet[socket.socket] = WeakSet()
        self._session = requests.Session()
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, TrackedAdapter(self._connections.add))
        # Without an authentication of its own, requests replaces the token by what ~/.netrc holds.
        self._session.auth = lambda request: request
        self._session.headers.update({"Accept": "application/json", "User-Agent": "gedbd"})

    def get(self, address: str, params: Mapping[str, Any] | None = None) -> Answer:
        """Request an address: a path below ``base_url``, or a complete one that the server or a saved fetch names.

        Raises:
            ValueError: The server refuses the request (``RefusedError``), fails repeatedly, requires a longer wait
                than ``max_wait_s``, or sends too much or something other than JSON. The message names the address
                without its secrets.
        """
        url = self._checked(self.base_url + address if address.startswith("/") else address, params)
        with naming(url):
            return self._get(url)

    def _checked(self, address: str, params: Mapping[str, Any] | None = None) -> str:
        """The address in the form in which it is requested. Raises ValueError if it is none of this server."""
        try:
            url = str(requests.Request("GET", address, params=dict(params or {})).prepare().url)
            origin(url)
        except (requests.RequestException, ValueError) as error:
            raise ValueError(f"{shown_url(address)}: not a valid address ({type(error).__name__})") from error
        check_same_server(url, self.base_url, "tracker.base_url")
        return url

    def _get(self, url: str) -> Answer:
        reason = ""  # of the last failure
        for attempt in range(ATTEMPTS):
            result = self._ask(url, attempt)
            if isinstance(result, Answer):
                return result
            reason = result.reason
            if attempt + 1 < ATTEMPTS:
                self._wait(result)
        raise ValueError(f"{reason}, {ATTEMPTS} times in a row; run the same command to continue from here")

    def _wait(self, wait: Wait) -> None:
        """Wait, and say so. Raises ValueError if it would take longer than ``max_wait_s``."""
        until = datetime.fromtimestamp(self._now() + wait.seconds, UTC)
        when = f"{until:%Y-%m-%d %H:%M:%S} UTC"
        if wait.seconds > self.max_wait_s:
            raise ValueError(
                f"{wait.reason}; run the same command again after {when} (in {duration(wait.seconds)}), or allow a"
                f" longer wait than max_wait_s={self.max_wait_s:g}"
            )
        self.say(f"{wait.reason}; waiting {duration(wait.seconds)}, until {when}")
        self._sleep(wait.seconds)

    def _ask(self, url: str, attempt: int) -> Answer | Wait:
        """Request an address once. Raises ValueError if another attempt would not help."""
        backoff_s = min(2.0**attempt, self.max_wait_s)
        try:
            response, body = self._receive(url)
        except TEMPORARY_ERRORS as error:
            # The innermost cause comes last in the message of an error that wraps several others.
            cause = str(error).rpartition(": ")[2].rstrip("\"')")
            return Wait(backoff_s, f"{shown_url(url)}: the connection failed ({cause})")
        except requests.RequestException as error:
            raise ValueError(f"{shown_url(url)}: the request failed ({type(error).__name__})") from error
        if self.started is None:
            # A server whose clock is ahead would let the next fetch miss what changes until then.
            self.started = min(self._now(), server_time(response.headers, self._now()))
        status = response.status_code
        if status < 300:
            return parse_answer(url, response, body)
        said = self._without_secrets(server_message(body))
        limit_s = limit_wait_s(status, response.headers, said, self._now())
        if limit_s is not None:
            advice = "" if self._secrets else f"; set {self.token} to raise it"
            return Wait(limit_s, f"{self.base_url}: the rate limit is reached{advice}")
        if status >= 500:
            return Wait(backoff_s, f"{shown_url(url)}: the server returned {status}")
        what = explain(status, self.token, bool(self._secrets), said)
        raise RefusedError(f"{shown_url(url)}: {what}", status)

    def _without_secrets(self, said: str) -> str:
        """The server's message with ``***`` in place of the token."""
        # A server may repeat it as it was sent, "abc" of "Bearer abc", or decoded.
        for secret in (*self._secrets.values(), read_secret(self.token) if self._secrets else ""):
            said = said.replace(secret.rpartition(" ")[2] or "\0", "***")
        return said

    def _receive(self, url: str) -> tuple[requests.Response, bytes]:
        """Request an address and follow its redirects."""
        # Not left to requests, which follows a redirect to any host.
        target = url
        for _ in range(MAX_REDIRECTS + 1):
            answer = self._receive_one(target)
            location = answer[0].headers.get("Location")
            if not answer[0].is_redirect or location is None:
                return answer
            target = self._checked(urljoin(target, location))
        raise ValueError(f"{shown_url(url)}: more than {MAX_REDIRECTS} redirects")

    def _receive_one(self, url: str) -> tuple[requests.Response, bytes]:
        """One response. Raises requests.Timeout if it takes longer than ``MAX_ANSWER_S``."""
        is_over = threading.Event()

        def end() -> None:
            is_over.set()
            for connection in list(self._connections):
                with suppress(OSError):  # it is closed already
                    # ssl.SSLSocket.shutdown would detach the connection from the thread that reads it.
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)

        timer = threading.Timer(MAX_ANSWER_S, end)
        timer.daemon = True
        timer.start()
        try:
            secrets = self._secrets if origin(url) == origin(self.base_url) else {}
            with self._session.get(
                url, headers=dict(secrets), stream=True, allow_redirects=False, timeout=TIMEOUT_S
            ) as response:
                body = b"" if response.is_redirect else bounded(response)
        except requests.RequestException:
            if not is_over.is_set():
                raise
        finally:
            timer.cancel()
        if is_over.is_set():
            raise requests.Timeout(f"no complete answer within {MAX_ANSWER_S:g} s")
        return response, body


class TrackedAdapter(HTTPAdapter):
    """Hands each new connection to a function, so that another thread can end what waits for it.

    A timeout of requests bounds each read, but not their number.

    Args:
        connected: Receives the connection.
    """

    def __init__(self, connected: Callable[[socket.socket], None]) -> None:
        self.connected = connected
        super().__init__()

    def get_connection_with_tls_context(self, *args: Any, **named: Any) -> Any:
        """The pool of connections for a request."""
        pool: Any = super().get_connection_with_tls_context(*args, **named)
        connected = self.connected

        # Of the class's own: a session asks for its pool before each request.
        class Tracked(type(pool).ConnectionCls):  # type: ignore[misc]
            def connect(self) -> None:
                super().connect()
                connected(self.sock)

        pool.ConnectionCls = Tracked
        return pool


def check_base(base_url: str) -> str:
    """The address without a trailing slash. Raises ValueError if it is not an http or https address."""
    wrong = f"tracker.base_url={shown_url(base_url)} must be an address such as https://bugs.example.org"
    try:
        parts = urlsplit(base_url)
        is_web = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise ValueError(wrong) from error
    if not is_web or parts.query or parts.fragment:
        raise ValueError(wrong)
    if "@" in parts.netloc:
        raise ValueError("tracker.base_url holds a name or password: tokens are taken from the environment only")
    return base_url.rstrip("/")


def parse_answer(url: str, response: requests.Response, body: bytes) -> Answer:
    """The JSON of a response. Raises ValueError if it holds something else."""
    links = {name: urljoin(response.url, link["url"]) for name, link in response.links.items()}
    try:
        return Answer(json.loads(body), url, response.headers, links)
    except (ValueError, RecursionError) as error:
        kind = "a web page (a login page?)" if body.lstrip()[:1] == b"<" else "something else"
        advice = "is tracker.base_url the address of the API?"
        raise ValueError(f"{shown_url(url)}: expected JSON, received {kind}; {advice}") from error


def bounded(response: requests.Response) -> bytes:
    """The unpacked body of a response. Raises ValueError if it is larger than ``MAX_BYTES``."""
    # A small packed response can unpack to any size, so the bytes are counted while they arrive.
    body = bytearray()
    for chunk in response.iter_content(CHUNK_BYTES):
        body += chunk
        if len(body) > MAX_BYTES:
            raise ValueError(
                f"{shown_url(response.url)}: more than {MAX_BYTES // 1_000_000} MB in one page; lower tracker.page_size"
            )
    return bytes(body)


def duration(seconds: float) -> str:
    """A time span in seconds, or in minutes if it is long."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


class RefusedError(ValueError):
    """The tracker answered with an error; ``status`` is the HTTP status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def server_message(body: bytes) -> str:
    """The message of a JSON error, without control characters; empty if there is none."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(content, dict):
        return ""
    said: Any = next((content[key] for key in ("message", "errorMessages", "error") if content.get(key)), "")
    if isinstance(said, dict):  # {"error": {"message": ...}}
        said = said.get("message", said)
    text = "; ".join(map(str, said)) if isinstance(said, list) else str(said)
    clean = printable_line(text)  # a terminal would obey control characters
    return clean if len(clean) <= MAX_MESSAGE_CHARACTERS else clean[:MAX_MESSAGE_CHARACTERS] + "..."


def explain(status: int, token: str, has_token: bool, said: str) -> str:
    """Explain an error status and suggest a remedy.

    Args:
        status: HTTP status, 400 or above.
        token: The environment variable that holds the token.
        has_token: Whether the token was sent.
        said: The server's own message, empty for none.
    """
    private = "check project= and tracker.base_url; a private project needs a token that may read it"
    advice = {
        401: f"{token} is not accepted: has it expired, or is it mistyped?"
        if has_token
        else f"it requires a token: set {token}",
        403: f"does the owner of {token} have read access to this project?"
        if has_token
        else f"set {token} to a token with read access",
        404: private if has_token else f"{private}: set {token}",
        410: "the resource is gone: are issues disabled for this project?",
    }.get(status, "")
    return f"the server returned {status}" + (f" ({said})" if said else "") + (f"; {advice}" if advice else "")


def server_time(headers: Mapping[str, str], now: float) -> float:
    """Seconds since 1970 by the server's clock, or ``now`` if its headers hold no date."""
    date = _http_date(headers.get("Date", ""))
    return now if date is None else date


def limit_wait_s(status: int, headers: Mapping[str, str], message: str, now: float) -> float | None:
    """Seconds until a refused request may be sent again; ``None`` if it was not refused by a rate limit.

    ``Retry-After`` takes precedence over the time at which the quota is renewed: ``X-RateLimit-Reset`` of GitHub
    (seconds since 1970) and Jira (ISO 8601), ``RateLimit-Reset`` of GitLab. All times are those of the server's clock.

    Args:
        status: HTTP status.
        headers: Headers of the response, case-insensitive.
        message: The server's message; GitHub's secondary limits appear only there.
        now: Seconds since 1970 by the local clock.
    """
    if status not in {403, 429, 503}:
        return None
    clock = server_time(headers, now)
    after = headers.get("Retry-After", "").strip()
    until = clock + float(after) if re.fullmatch(r"\d{1,9}", after) else _http_date(after)
    if until is None and any(headers.get(name, "").strip() == "0" for name in REMAINING):
        resets = [_reset(headers.get(name, ""), clock) for name in RESETS]
        until = next((reset for reset in resets if reset is not None), None)
    if until is not None:
        # One second more, because servers round their times.
        return max(1.0, math.ceil(until - clock) + 1.0)
    return DEFAULT_WAIT_S if status == 429 or (status == 403 and "rate limit" in message.lower()) else None


def _http_date(text: str) -> float | None:
    try:
        return parse_mail_date(text).timestamp()
    except ValueError:
        return None


def _reset(text: str, clock: float) -> float | None:
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]*)?", text):
        until = float(text) if float(text) > MIN_EPOCH_S else clock + float(text)
        return until if until < LAST_RESET else None
    try:
        return parse_date(text).timestamp()
    except ValueError:
        return None


def records(answer: Answer, *path: str, key: str) -> list[Record]:
    """The list of objects under ``path``, each with ``key``. Raises ValueError if there is no such list."""
    found = answer.content
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, list) or not all(isinstance(item, dict) and key in item for item in found):
        raise unexpected(answer, f"a list of objects with {key!r}" + (f" under {'.'.join(path)}" if path else ""))
    return found


def text(record: Record, key: str, answer: Answer) -> str:
    """The text in a field. Raises ValueError if it holds something else."""
    value = record.get(key)
    if not isinstance(value, str):
        raise unexpected(answer, f"text under {key!r}")
    return value


def number(record: Record, key: str, answer: Answer) -> int:
    """The id in a field, from 0 to 2^63 - 1, as SQLite can store. Raises ValueError if it holds something else."""
    value = record.get(key)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise unexpected(answer, f"a whole number under {key!r}")
    return value


def identifier(record: Record, key: str, answer: Answer) -> str | int:
    """The id in a field: text, or else see ``number``."""
    value = record.get(key)
    return value if isinstance(value, str) and value else number(record, key, answer)


def section(record: object, *path: str) -> Record:
    """The object under ``path``, an empty one if there is none."""
    for name in path:
        record = record.get(name) if isinstance(record, dict) else None
    return record if isinstance(record, dict) else {}


def sized(text: str | None) -> int | None:
    """The number in a header or an address, ``None`` if it holds none or one that SQLite cannot store."""
    return int(text) if text and re.fullmatch("[0-9]{1,18}", text) else None


def unexpected(answer: Answer, wanted: str) -> ValueError:
    """The error for a JSON response of another shape than the expected one."""
    return ValueError(
        f"{shown_url(answer.url)}: unexpected response: expected {wanted}; is tracker= set to the right kind of"
        " tracker?"
    )
