"""Asking a tracker: its token for its own host alone, limits kept, failures tried again, answers bounded."""

import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import requests

from gedbd.corpora.clients.http_errors import RefusedError, explain, server_message
from gedbd.corpora.clients.rate_limits import limit_wait_s, server_time
from gedbd.corpora.urls import naming, shown_url

ATTEMPTS = 6
MAX_BYTES = 64_000_000
MAX_REDIRECTS = 5
CHUNK_BYTES = 1 << 16
TIMEOUT_S = (10, 60)  # to connect, and between two chunks
PASSING = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    requests.exceptions.ContentDecodingError,
)

Record = dict[str, Any]


class Answer(NamedTuple):
    """The JSON that an address gave, with the answer's headers and its links by name, such as ``next``."""

    content: Any
    url: str
    headers: Mapping[str, str]
    links: Mapping[str, str]


class Wait(NamedTuple):
    """Another attempt is worth while after so many seconds."""

    seconds: float
    reason: str


class Client:
    """Reads JSON from one tracker.

    Args:
        base_url: Address of the tracker; only what has its scheme, host and port is sent the secrets.
        secrets: Headers that hold a token.
        token: Environment variable that the token comes from, for messages.
        max_wait_s: The longest wait that a limit may ask for, in seconds.
        say: Shows a line to the user.
        sleep: Waits so many seconds.
        now: Seconds since 1970.

    Raises:
        ValueError: ``base_url`` is no address, or holds a password.
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
        self.token, self.max_wait_s, self.say = token, max_wait_s, say
        self.started: float | None = None  # by the server's clock, at the first answer
        self._secrets, self._sleep, self._now = secrets, sleep, now
        self._session = requests.Session()
        self._session.auth = lambda request: request  # else requests puts what ~/.netrc holds in place of the token
        self._session.headers.update({"Accept": "application/json", "User-Agent": "gedbd"})

    def get(self, address: str, params: Mapping[str, Any] | None = None) -> Answer:
        """Ask for an address, a path below ``base_url`` or a whole one that the server gave.

        Raises:
            ValueError: The server refuses (``RefusedError``), fails again and again, asks for a longer wait than is
                allowed, or sends something other than JSON or too much of it. The message names the address, without
                what is secret in it.
        """
        whole = self.base_url + address if address.startswith("/") else address
        try:
            url = str(requests.Request("GET", whole, params=dict(params or {})).prepare().url)
        except requests.RequestException as error:
            raise ValueError(f"{shown_url(whole)}: no address to ask ({type(error).__name__})") from error
        with naming(url):
            return self._get(url)

    def _get(self, url: str) -> Answer:
        reason = ""
        for attempt in range(ATTEMPTS):
            result = self._ask(url, attempt)
            if isinstance(result, Answer):
                return result
            reason = result.reason
            if attempt + 1 < ATTEMPTS:
                self._pause(*result)
        raise ValueError(f"{reason}, {ATTEMPTS} times in a row; the same command goes on from here")

    def _ask(self, url: str, attempt: int) -> Answer | Wait:
        try:
            response, body = self._receive(url)
        except PASSING as error:
            return Wait(self._backoff_s(attempt), f"{shown_url(url)}: the connection failed ({innermost(error)})")
        except requests.RequestException as error:
            raise ValueError(f"{shown_url(url)}: cannot be asked ({type(error).__name__})") from error
        if self.started is None:
            self.started = server_time(response.headers, self._now())
        if response.status_code < 300:
            links = {name: urljoin(response.url, link["url"]) for name, link in response.links.items()}
            return Answer(parse(body, url), url, response.headers, links)
        said = server_message(body)
        for secret in self._secrets.values():
            said = said.replace(secret.rpartition(" ")[2], "***")
        seconds = limit_wait_s(response.status_code, response.headers, said, self._now())
        if seconds is not None:
            more = "" if self._secrets else f"; {self.token} would raise it"
            return Wait(seconds, f"{self.base_url}: its limit of requests is reached{more}")
        if response.status_code >= 500:
            return Wait(self._backoff_s(attempt), f"{shown_url(url)}: the server answers {response.status_code}")
        what = explain(response.status_code, self.token, bool(self._secrets), said)
        raise RefusedError(f"{shown_url(url)}: {what}", response.status_code)

    def _receive(self, url: str) -> tuple[requests.Response, bytes]:
        """Follows redirects by hand: requests would hand on every secret but ``Authorization`` to another host."""
        place = url
        for _ in range(MAX_REDIRECTS + 1):
            secrets = self._secrets if origin(place) == origin(self.base_url) else {}
            with self._session.get(
                place, headers=dict(secrets), stream=True, allow_redirects=False, timeout=TIMEOUT_S
            ) as response:
                if not response.is_redirect:
                    return response, bounded(response)
                place = urljoin(place, response.headers["Location"])
        raise ValueError(f"{shown_url(url)}: more than {MAX_REDIRECTS} redirects")

    def _backoff_s(self, attempt: int) -> float:
        return min(2.0**attempt, self.max_wait_s)

    def _pause(self, seconds: float, reason: str) -> None:
        until = datetime.fromtimestamp(self._now() + seconds, UTC)
        when = f"{until:%Y-%m-%d %H:%M:%S} UTC"
        if seconds > self.max_wait_s:
            raise ValueError(
                f"{reason}; run the same command again after {when} (in {length(seconds)}), or allow a longer wait than"
                f" max_wait_s={self.max_wait_s:g}"
            )
        self.say(f"{reason}; waiting {length(seconds)}, until {when}")
        self._sleep(seconds)


class Trail:
    """One list of a tracker, whose pages must not lead in a circle."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asked: set[str] = set()

    def get(self, address: str, params: Mapping[str, Any] | None = None) -> Answer:
        """Ask for the list's next page.

        Raises:
            ValueError: It was read before, or cannot be had.
        """
        answer = self._client.get(address, params)
        if answer.url in self._asked:
            raise ValueError(
                f"{shown_url(answer.url)}: the server's pages lead back to this one, which was read before"
            )
        self._asked.add(answer.url)
        return answer


def check_base(base_url: str) -> str:
    """The address without a slash at its end.

    Raises:
        ValueError: It is none that can be asked.
    """
    wrong = f"tracker.base_url={shown_url(base_url)} is no address such as https://bugs.example.org"
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


def origin(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def innermost(error: requests.RequestException) -> str:
    """What happened, without the layers that it came through."""
    return str(error).rpartition(": ")[2].rstrip("\"')")


def bounded(response: requests.Response) -> bytes:
    """The unpacked body.

    Raises:
        ValueError: It is larger than a page may be.
    """
    body = bytearray()
    for chunk in response.iter_content(CHUNK_BYTES):
        body += chunk
        if len(body) > MAX_BYTES:
            raise ValueError(
                f"{shown_url(response.url)}: more than {MAX_BYTES // 1_000_000} MB in one page; lower tracker.page_size"
            )
    return bytes(body)


def parse(body: bytes, url: str) -> Any:
    """The JSON of an answer.

    Raises:
        ValueError: It is none.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        kind = "a web page (a login page?)" if body.lstrip()[:1] == b"<" else "something"
        raise ValueError(
            f"{shown_url(url)}: {kind} came where JSON is expected; is tracker.base_url the API's?"
        ) from error


def length(seconds: float) -> str:
    """A time span as a reader would say it."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
