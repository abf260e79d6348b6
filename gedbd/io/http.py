"""HTTP sessions with a single server, with limits on size and time, and with secrets masked in messages."""

import json
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urljoin, urlsplit
from weakref import WeakSet

import requests
import urllib3
from requests.adapters import HTTPAdapter

from gedbd.io.console import printable_line

MAX_REDIRECTS = 5
MAX_BYTES = 64_000_000
MAX_MESSAGE_CHARACTERS = 200
CHUNK_BYTES = 1 << 16
TIMEOUT_S = (10.0, 60.0)  # to connect, and between two packets
RETRY_STATUSES = (408, 409, 429, *range(500, 600))
BACKOFF_S = 0.5

MAX_SHOWN_LENGTH = 300
SLASHES = re.compile(r"[/\\]{2}")
SHOWN_PARAMETERS = {
    *("page", "per_page", "state", "sort", "direction", "since", "order", "order_by", "scope", "startAt", "maxResults"),
    *("limit", "offset", "f1", "o1", "v1", "ids", "created_after", "updated_after", "last_change_time"),
}
PARAMETER_NAME = re.compile(r"[\w.-]{1,40}", re.ASCII)
PLAIN_VALUE = re.compile(r"\d{1,18}|[a-z_]{1,20}|\d{4}[\d:.TZA%+-]{1,36}", re.ASCII)


class AnswerTooLargeError(ValueError):
    """An answer is larger than allowed."""


class HttpSession:
    """Sends requests to one server only.

    requests follows redirects to any host, and its timeout bounds each read, but not the whole response. So the session
    handles redirects and deadlines itself.

    Args:
        base_url: An address on the server.
        option: The option that sets it, for messages.
        secrets: Headers with a token, sent only to the scheme, host and port of ``base_url``.
        headers: Further headers of each request.
        timeout_s: Timeouts to connect and between packets.
        retries: Number of retries after a temporary status, a failure or a timeout, with exponential backoff or after
            ``Retry-After`` of up to two minutes.
        subdomains: Whether to follow redirects to https addresses of subdomains too.
        use_netrc: Whether to send a password of the address or of ~/.netrc.
    """

    def __init__(
        self,
        base_url: str,
        option: str,
        secrets: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | tuple[float, float] = TIMEOUT_S,
        retries: int = 0,
        subdomains: bool = False,
        use_netrc: bool = False,
    ) -> None:
        self.base_url = base_url
        self.option = option
        self.secrets = dict(secrets or {})
        self.timeout_s = timeout_s
        self.subdomains = subdomains
        self._connections: WeakSet[socket.socket] = WeakSet()
        self._is_over = threading.Event()
        self._session = requests.Session()
        self._session.headers.update({"User-Agent": "gedbd"} | dict(headers or {}))
        if not use_netrc:
            # Without this, requests replaces the token by the password of ~/.netrc.
            self._session.auth = lambda request: request
        policy = urllib3.Retry(
            total=retries,
            status_forcelist=RETRY_STATUSES,
            allowed_methods=None,
            backoff_factor=BACKOFF_S,
            backoff_max=8.0,
            raise_on_status=False,
            retry_after_max=120,  # seconds, as the other two
        )
        adapter = _TrackedAdapter(self._add, max_retries=policy if retries else 0)
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, adapter)

    def checked(self, address: str, params: Mapping[str, Any] | None = None) -> str:
        """Normalises an address. Raises ValueError unless it is on this server."""
        try:
            url = str(requests.Request("GET", address, params=dict(params or {})).prepare().url)
            origin(url)
        except (requests.RequestException, ValueError) as error:
            raise ValueError(f"{shown_url(address)}: not a valid address ({type(error).__name__})") from error
        check_same_server(url, self.base_url, self.option, self.subdomains)
        return url

    @contextmanager
    def open(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, follow: bool = True, **content: Any
    ) -> Iterator[requests.Response]:
        """Opens a response without reading its body.

        Args:
            method: The HTTP method.
            url: An address on the server.
            headers: Further headers.
            follow: Whether to follow redirects on the server.
            content: The body, as in ``requests``.

        Raises:
            requests.RequestException: If the request fails.
            ValueError: If it is redirected to another server, or too often.
        """
        target = self.checked(url)
        for _ in range(MAX_REDIRECTS + 1):
            secrets = self.secrets if origin(target) == origin(self.base_url) else {}
            all_headers = dict(headers or {}) | secrets
            with self._session.request(
                method,
                target,
                headers=all_headers,
                stream=True,
                allow_redirects=False,
                timeout=self.timeout_s,
                **content,
            ) as response:
                if not (follow and response.is_redirect):
                    yield response
                    return
                target = self.checked(urljoin(target, response.headers["Location"]))
        raise ValueError(f"{shown_url(url)}: more than {MAX_REDIRECTS} redirects")

    def read(
        self, method: str, url: str, follow: bool = True, max_bytes: int = MAX_BYTES, **content: Any
    ) -> tuple[requests.Response, bytes]:
        """Reads a response and its unpacked body. Raises AnswerTooLargeError above ``max_bytes``."""
        # A small response can unpack to any size, so the bytes are counted while they arrive.
        body = bytearray()
        with self.open(method, url, follow=follow, **content) as response:
            for chunk in response.iter_content(CHUNK_BYTES):
                body += chunk
                if len(body) > max_bytes:
                    raise AnswerTooLargeError(f"{shown_url(url)}: more than {max_bytes // 1_000_000} MB in one page")
        return response, bytes(body)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Closes all connections after ``seconds`` and raises requests.Timeout."""
        self._is_over = threading.Event()
        timer = threading.Timer(seconds, self.end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except requests.RequestException:
            if not self._is_over.is_set():
                raise
        finally:
            timer.cancel()
        if self._is_over.is_set():
            raise requests.Timeout(f"no complete answer within {seconds:g} s")

    def end(self) -> None:
        """Closes all connections, and new ones until ``within`` ends."""
        self._is_over.set()
        for connection in list(self._connections):
            with suppress(OSError):  # already closed
                # ssl.SSLSocket.shutdown would detach the connection from the thread that reads it.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    @property
    def is_over(self) -> bool:
        """Whether the connections were closed."""
        return self._is_over.is_set()

    def masked(self, text: str) -> str:
        """Replaces secrets, such as "abc" of "Bearer abc", by ``***``."""
        for secret in self.secrets.values():
            text = text.replace(secret.rpartition(" ")[2] or "\0", "***")
        return text

    def _add(self, connection: socket.socket) -> None:
        self._connections.add(connection)
        if self.is_over:
            self.end()


class _TrackedAdapter(HTTPAdapter):
    """Passes each new connection to a function, so that another thread can close it."""

    def __init__(self, connected: Callable[[socket.socket], None], max_retries: urllib3.Retry | int) -> None:
        self.connected = connected
        super().__init__(max_retries=max_retries)

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
        pool: Any = super().get_connection_with_tls_context(*args, **kwargs)
        connected = self.connected

        # Subclasses the class attribute: the pool's own attribute would be subclassed again before each request.
        class Tracked(type(pool).ConnectionCls):  # type: ignore[misc]
            def connect(self) -> None:
                super().connect()
                connected(self.sock)

        pool.ConnectionCls = Tracked
        return pool


def is_timeout(error: requests.RequestException) -> bool:
    """Whether a request timed out; requests wraps some timeouts in other errors."""
    cause = error.args[0] if error.args else None
    return isinstance(error, requests.Timeout) or isinstance(
        getattr(cause, "reason", cause), urllib3.exceptions.TimeoutError
    )


def check_base_url(base_url: str, option: str, example: str) -> str:
    """The base address of a server, given by an option, without a trailing slash.

    Raises:
        ValueError: If it is not an http or https address, has parameters, or holds a password.
    """
    problem = f"{option}={shown_url(base_url)} must be an address such as {example}"
    try:
        parts = urlsplit(base_url)
        is_web = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise ValueError(problem) from error
    if not is_web or parts.query or parts.fragment:
        raise ValueError(problem)
    if "@" in parts.netloc:
        raise ValueError(f"{option} holds a name or password: tokens are taken from the environment only")
    return base_url.rstrip("/")


def read_secret(variable: str) -> str:
    """The value of an environment variable, empty if it is not set.

    Raises:
        ValueError: The value is not valid in a header; the message does not contain it.
    """
    value = os.environ.get(variable, "").strip()
    # Headers contain printable ASCII; a line break in a token would start another header.
    if not all("!" <= character <= "~" for character in value):
        raise ValueError(f"{variable} holds spaces or characters that are not allowed in a token; set it again")
    return value


def server_message(body: bytes) -> str:
    """The message of a JSON error, without control characters; empty if there is none."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(content, dict):
        return ""
    message: Any = next((content[key] for key in ("message", "errorMessages", "error") if content.get(key)), "")
    if isinstance(message, dict):  # {"error": {"message": ...}}
        message = message.get("message", message)
    text = "; ".join(map(str, message)) if isinstance(message, list) else str(message)
    clean = printable_line(text)
    return clean if len(clean) <= MAX_MESSAGE_CHARACTERS else clean[:MAX_MESSAGE_CHARACTERS] + "..."


def origin(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def check_same_server(url: str, asked: str, option: str, subdomains: bool = False) -> None:
    """Raises ValueError if a response leads from the address that the user named to another server.

    A change from http to https on the same host, both on their default ports, is allowed.

    Args:
        url: The address that it leads to.
        asked: The address that the user named.
        option: The option that sets the address, for the message.
        subdomains: Whether https addresses of hosts below the named one are allowed, too: archives keep files there.
    """
    scheme, host, port = origin(url)
    expected = origin(asked)
    if (scheme, host, port) in (expected, ("https", expected[1], 443) if expected[0::2] == ("http", 80) else expected):
        return
    if subdomains and (scheme, port) == ("https", 443) and str(host).endswith(f".{expected[1]}"):
        return
    raise ValueError(
        f"{shown_url(asked)}: it leads to {shown_url(url)}, which is another server: nothing was sent there; if it is"
        f" the right one, set {option}"
    )


def shown_url(url: str) -> str:
    """An address for messages: without user, password and fragment, and with ``***`` for values that may be secret.

    Values of ``SHOWN_PARAMETERS`` are shown if they look like a number, a word or a date. All others are hidden, since
    a token may have any name.
    """
    printable = "".join(sign for sign in url if sign.isprintable())
    location, _, query = printable.partition("#")[0].partition("?")
    slashes = SLASHES.search(location)
    start = slashes.end() if slashes else 0
    host, slash, path = location[start:].partition("/")
    printed = f"{location[:start]}{host.rpartition('@')[2]}{slash}{path}"
    if query:
        printed += "?" + "&".join(_shown_parameter(parameter) for parameter in query.split("&"))
    return printed if len(printed) <= MAX_SHOWN_LENGTH else printed[:MAX_SHOWN_LENGTH] + "..."


def _shown_parameter(parameter: str) -> str:
    name, equals, value = parameter.partition("=")
    if not equals or not PARAMETER_NAME.fullmatch(name):
        return "***"
    is_plain = name in SHOWN_PARAMETERS and PLAIN_VALUE.fullmatch(value) is not None
    return f"{name}={value if is_plain else '***'}"


@contextmanager
def naming(url: str) -> Iterator[None]:
    """Prefixes the message of a ValueError with the address, unless it names the server already."""
    try:
        yield
    except ValueError as error:
        address = shown_url(url)
        server = "/".join(address.split("/")[:3])
        if server in str(error):
            raise
        raise ValueError(f"{address}: {error}") from error
