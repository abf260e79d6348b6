"""Client of a tracker's REST API, with rate limits, retries and pagination."""

import json
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urljoin

import requests
from requests.exceptions import ChunkedEncodingError, ConnectionError, ContentDecodingError, Timeout

from gedbd.corpora.dates import MAX_YEAR, parse_date, parse_mail_date
from gedbd.io.console import duration
from gedbd.io.http import MAX_BYTES, AnswerTooLargeError, HttpSession, naming, read_secret, server_message, shown_url

DEFAULT_WAIT_S = 60.0  # GitHub asks for at least a minute if it gives no time
LAST_RESET = datetime(MAX_YEAR, 12, 31, tzinfo=UTC).timestamp()
MIN_EPOCH_S = 1e8  # a larger reset is a point in time, a smaller one a number of seconds
REMAINING = ("X-RateLimit-Remaining", "RateLimit-Remaining")
RESETS = ("X-RateLimit-Reset", "RateLimit-Reset")
ATTEMPTS = 6
MAX_ANSWER_S = 600.0
MAX_PAGES = 100_000  # a tracker of 10 million issues
MAX_REPEATED_PAGES = 10  # in a row without a new record; a list that changes while it is read has a few
TEMPORARY_ERRORS = (ConnectionError, Timeout, ChunkedEncodingError, ContentDecodingError)
Record = dict[str, Any]


class Answer(NamedTuple):
    """A JSON response with its URL, headers and links by name, such as ``next``."""

    content: Any
    url: str
    headers: Mapping[str, str]
    links: Mapping[str, str]

    def records(self, name: str = "", *, key: str) -> list[Record]:
        """The list of objects under ``name``, each with ``key``. Raises ValueError if there is no such list."""
        value = section(self.content).get(name) if name else self.content
        if not isinstance(value, list) or not all(isinstance(item, dict) and key in item for item in value):
            raise self.unexpected(f"a list of objects with {key!r}" + (f" under {name}" if name else ""))
        return value

    def text(self, record: Record, key: str) -> str:
        """The string in a field. Raises ValueError for other values."""
        value = record.get(key)
        if not isinstance(value, str):
            raise self.unexpected(f"text under {key!r}")
        return value

    def number(self, record: Record, key: str) -> int:
        """The id in a field, from 0 to 2^63 - 1 as in SQLite. Raises ValueError for other values."""
        value = record.get(key)
        if type(value) is not int or not 0 <= value < 1 << 63:
            raise self.unexpected(f"a whole number under {key!r}")
        return value

    def unexpected(self, expected: str) -> ValueError:
        """The error for a response of an unexpected structure."""
        return ValueError(
            f"{shown_url(self.url)}: unexpected response: expected {expected}; is tracker= set to the right kind of"
            " tracker?"
        )


class Wait(NamedTuple):
    """Time until the next attempt, with the reason."""

    seconds: float
    reason: str


class RefusedError(ValueError):
    """The tracker answered with an error; ``status`` is the HTTP status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


@dataclass(eq=False)
class Client:
    """HTTP client of one tracker.

    ``urllib3.Retry`` does not repeat interrupted responses, and does not know the rate limits of trackers.
    """

    base_url: str  # address of the tracker without a trailing slash; requests to other servers are refused
    secrets: Mapping[str, str] = field(repr=False)  # headers with a token, see ``HttpSession``
    token: str  # the environment variable of the token, for messages
    max_wait_s: float  # maximum wait for a rate limit, in seconds
    say: Callable[[str], None]  # prints a line
    sleep: Callable[[float], None] = time.sleep  # waits for a number of seconds
    now: Callable[[], float] = time.time  # returns the seconds since 1970

    def __post_init__(self) -> None:
        self.started: float | None = None  # time of the first response by the server's clock
        self.repeated = 0  # number of repeated records, see ``PageList``
        accept = {"Accept": "application/json"}
        self._session = HttpSession(self.base_url, "tracker.base_url", self.secrets, accept)

    def get(self, address: str, params: Mapping[str, Any] | None = None) -> Answer:
        """Requests a path below ``base_url``, or a complete address.

        Raises:
            ValueError: The server refuses the request (``RefusedError``), fails repeatedly, requires a longer wait
                than ``max_wait_s``, or sends too much data or not JSON. The message names the address without secrets.
        """
        url = self._session.checked(self.base_url + address if address.startswith("/") else address, params)
        with naming(url):
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
        """Prints the reason and waits. Raises ValueError if it would take longer than ``max_wait_s``."""
        end = datetime.fromtimestamp(self.now() + wait.seconds, UTC)
        until = f"{end:%Y-%m-%d %H:%M:%S} UTC"
        if wait.seconds > self.max_wait_s:
            raise ValueError(
                f"{wait.reason}; run the same command again after {until} (in {duration(wait.seconds)}), or allow a"
                f" longer wait than max_wait_s={self.max_wait_s:g}"
            )
        self.say(f"{wait.reason}; waiting {duration(wait.seconds)}, until {until}")
        self.sleep(wait.seconds)

    def _ask(self, url: str, attempt: int) -> Answer | Wait:
        """Requests an address once. Raises ValueError if another attempt would not help."""
        backoff_s = min(2.0**attempt, self.max_wait_s)
        try:
            with self._session.within(MAX_ANSWER_S):
                response, body = self._session.read("GET", url, max_bytes=MAX_BYTES)
        except TEMPORARY_ERRORS as error:
            # The message of a nested error ends with the innermost cause.
            cause = str(error).rpartition(": ")[2].rstrip("\"')")
            return Wait(backoff_s, f"{shown_url(url)}: the connection failed ({cause})")
        except requests.RequestException as error:
            raise ValueError(f"{shown_url(url)}: the request failed ({type(error).__name__})") from error
        except AnswerTooLargeError as error:
            raise ValueError(f"{error}; lower tracker.page_size") from error
        if self.started is None:
            # With a server clock ahead of time, the next fetch would miss changes.
            self.started = min(self.now(), server_time(response.headers, self.now()))
        status = response.status_code
        if status < 300:
            return parse_answer(url, response, body)
        has_token = bool(self._session.secrets)
        message = self._session.masked(server_message(body))
        if has_token:  # the server may quote the token
            message = message.replace(read_secret(self.token) or "\0", "***")
        limit_s = limit_wait_s(status, response.headers, message, self.now())
        if limit_s is not None:
            advice = "" if has_token else f"; set {self.token} to raise it"
            return Wait(limit_s, f"{self.base_url}: the rate limit is reached{advice}")
        if status >= 500:
            return Wait(backoff_s, f"{shown_url(url)}: the server returned {status}")
        raise RefusedError(f"{shown_url(url)}: {explain(status, self.token, has_token, message)}", status)


class PageList:
    """A paginated list of a tracker."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pages = 0
        self.start_over()

    def start_over(self) -> None:
        """Forgets the records: another list begins, or some of this one is read again."""
        self._visited: set[str] = set()
        self._seen: set[Any] = set()
        self._repeated_pages = 0

    def get(self, address: str, params: Mapping[str, Any] | None = None) -> Answer:
        """Requests a page of the list. Raises ValueError if it was read before, or is beyond ``MAX_PAGES``."""
        answer = self._client.get(address, params)
        if answer.url in self._visited:
            raise ValueError(f"{shown_url(answer.url)}: the pagination links back to this page, which was already read")
        self._visited.add(answer.url)
        self._pages += 1
        if self._pages > MAX_PAGES:
            raise ValueError(
                f"{shown_url(answer.url)}: the list did not end after {MAX_PAGES:,} pages; if the tracker really has"
                " that many, run the same command to continue from here"
            )
        return answer

    def records(self, answer: Answer, name: str = "", *, key: str) -> list[Record]:
        """The records of a page.

        Raises:
            ValueError: There is no such list, or ``MAX_REPEATED_PAGES`` pages in a row have no new records.
        """
        page = answer.records(name, key=key)
        keys = {
            record[key] if record[key] and isinstance(record[key], str) else answer.number(record, key)
            for record in page
        }
        new = keys - self._seen
        self._client.repeated += len(page) - len(new)
        self._seen |= new
        self._repeated_pages = 0 if new else self._repeated_pages + 1
        if self._repeated_pages >= MAX_REPEATED_PAGES:
            raise ValueError(
                f"{shown_url(answer.url)}: after {len(self._seen):,} records, {MAX_REPEATED_PAGES} pages in a row held"
                " no new records, so reading stops; does the server at tracker.base_url work correctly?"
            )
        return page


def parse_answer(url: str, response: requests.Response, body: bytes) -> Answer:
    """Parses a JSON response. Raises ValueError if it is not JSON."""
    links = {name: urljoin(response.url, link["url"]) for name, link in response.links.items()}
    try:
        return Answer(json.loads(body), url, response.headers, links)
    except (ValueError, RecursionError) as error:
        kind = "a web page (a login page?)" if body.lstrip()[:1] == b"<" else "something else"
        advice = "is tracker.base_url the address of the API?"
        raise ValueError(f"{shown_url(url)}: expected JSON, received {kind}; {advice}") from error


def explain(status: int, token: str, has_token: bool, message: str) -> str:
    """Explains an error status and suggests a remedy."""
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
    return f"the server returned {status}" + (f" ({message})" if message else "") + (f"; {advice}" if advice else "")


def server_time(headers: Mapping[str, str], now: float) -> float:
    """Seconds since 1970 by the server's clock, or ``now`` if its headers hold no date."""
    date = _http_date(headers.get("Date", ""))
    return now if date is None else date


def limit_wait_s(status: int, headers: Mapping[str, str], message: str, now: float) -> float | None:
    """Seconds until a request refused by a rate limit may be sent again; ``None`` for other responses.

    ``Retry-After`` takes precedence over the reset of the quota: ``X-RateLimit-Reset`` of GitHub
    (seconds since 1970) and Jira (ISO 8601), ``RateLimit-Reset`` of GitLab. All times are by the server's clock.

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
        # Servers round their times, so add a second.
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


def section(record: object, *path: str) -> Record:
    """The object under ``path``, or an empty one."""
    for name in path:
        record = record.get(name) if isinstance(record, dict) else None
    return record if isinstance(record, dict) else {}


def sized(text: str | None) -> int | None:
    """Parses a number of at most 18 digits; ``None`` for other text."""
    return int(text) if text and re.fullmatch("[0-9]{1,18}", text) else None
