"""Stands before all routes: who may ask, how much may be sent, and what browsers are told."""

import asyncio
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("localhost", "127.0.0.1", "::1")
OPEN = ("/", "/api/health", "/webhooks/github")  # the page asks for the token, GitHub signs instead
OPEN_FOLDER = "/page/"
SENDS = ("POST", "PUT", "PATCH")
SMALL_BYTES = 1 << 15  # so much of each body is always read, whatever others hold
UTF_8 = ("", "utf-8", "utf8")
TOLD = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True)
class Rules:
    """What the guard asks for.

    Attributes:
        token: What ``Authorization: Bearer`` must bring; None lets everybody in.
        names: Host names under which the service is reached, beside those of this machine; ``*`` is any.
        max_body_bytes: The most that a request may send.
        max_bodies_bytes: The most that all requests together may hold at once, beside ``SMALL_BYTES`` for each.
        body_wait_s: How long a request waits for others to release theirs, in seconds.
        timeout_s: How long it may take to send it, in seconds.

    Raises:
        ValueError: If a number makes no sense.
    """

    token: str | None = None
    names: tuple[str, ...] = ()
    max_body_bytes: int = 1 << 20
    max_bodies_bytes: int = 1 << 24
    body_wait_s: float = 5.0
    timeout_s: float = 30.0

    def __post_init__(self) -> None:
        if self.max_body_bytes < 1:
            raise ValueError(f"max_body_bytes={self.max_body_bytes} must be 1 or more")
        if self.max_bodies_bytes < self.max_body_bytes:
            raise ValueError(
                f"max_bodies_bytes={self.max_bodies_bytes} must be at least max_body_bytes={self.max_body_bytes}"
            )
        if self.body_wait_s < 0:
            raise ValueError(f"body_wait_s={self.body_wait_s} must be 0 or more")


class Refused(Exception):  # noqa: N818 - an answer, no error of ours
    """An answer that says no: status, words, and headers."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.response = JSONResponse(
            {"detail": detail}, status, {key.replace("_", "-"): headers[key] for key in headers}
        )


class Guard:
    """Checks host name, token, type and length of a request, and reads all of it before any route runs."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self.app, self.rules = app, rules
        self.bodies = Bodies(rules.max_bodies_bytes, rules.body_wait_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or says why not."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        with self.bodies.share() as share:
            try:
                headers = Headers(scope=scope)
                self._check(scope["method"], scope["path"], headers)
                body = await self._body(headers, receive, share)
                _check_text(scope["method"], body)
            except Refused as refused:
                refused.response.headers["Connection"] = "close"
                await refused.response(scope, receive, _telling(send))
                return
            await self.app(scope, _replay(body, receive), _telling(send))

    def _check(self, method: str, path: str, headers: Headers) -> None:
        host = _host_name(headers.get("host", ""))
        if host not in (*LOOPBACK, *self.rules.names) and "*" not in self.rules.names:
            raise Refused(400, "this host name is not known here: add it to the option names")
        if not (path in OPEN or path.startswith(OPEN_FOLDER)) and not self._knows(headers.get("authorization", "")):
            raise Refused(401, "this needs a token: Authorization: Bearer ...", WWW_Authenticate="Bearer")
        kind, _, parameters = headers.get("content-type", "").lower().partition(";")
        if method in SENDS and kind.strip() != "application/json":
            raise Refused(415, "send JSON, with Content-Type: application/json")
        charset = parameters.partition("charset=")[2].partition(";")[0].strip().strip('"')
        if method in SENDS and charset not in UTF_8:
            raise Refused(415, "send JSON in UTF-8")
        if method in SENDS and headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise Refused(415, "send JSON that is not compressed")

    def _knows(self, authorization: str) -> bool:
        if self.rules.token is None:
            return True
        scheme, _, given = authorization.partition(" ")
        same = hmac.compare_digest(given.strip().encode(), self.rules.token.encode())
        return scheme.lower() == "bearer" and same

    async def _body(self, headers: Headers, receive: Receive, share: "Share") -> bytes:
        most = self.rules.max_body_bytes
        too_large = f"the request is larger than {most:,} bytes"
        if _stated_length(headers) > most:
            raise Refused(413, too_large)
        read, more = bytearray(), True
        try:
            async with asyncio.timeout(self.rules.timeout_s):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "the request broke off")
                    read += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(read) > most:
                        raise Refused(413, too_large)
                    await share.grow(len(read) - SMALL_BYTES)
        except TimeoutError as error:
            raise Refused(408, f"the request was not complete within {self.rules.timeout_s:g} seconds") from error
        return bytes(read)


class Bodies:
    """Counts the bytes of bodies that all requests together hold, and lets no more in than a limit.

    Args:
        max_bytes: The limit.
        wait_s: How long a request waits until there is room, in seconds.
    """

    def __init__(self, max_bytes: int, wait_s: float) -> None:
        self.max_bytes, self.wait_s, self.held = max_bytes, wait_s, 0
        self.freed = asyncio.Event()

    @contextmanager
    def share(self) -> "Iterator[Share]":
        """What one request holds, until the end of the block."""
        share = Share(self)
        try:
            yield share
        finally:
            self.held -= share.held
            self.freed.set()


class Share:
    """What one request holds of all that may be held."""

    def __init__(self, bodies: Bodies) -> None:
        self.bodies, self.held = bodies, 0

    async def grow(self, size: int) -> None:
        """Waits until there is room for ``size`` bytes in all. Raises Refused if there is none in time."""
        more, bodies = size - self.held, self.bodies
        if more <= 0:
            return
        try:
            async with asyncio.timeout(bodies.wait_s):
                while bodies.held + more > bodies.max_bytes:
                    bodies.freed.clear()
                    await bodies.freed.wait()
        except TimeoutError as error:
            busy = "too many large requests are being read: try again in a moment"
            raise Refused(503, busy, Retry_After="5") from error
        bodies.held += more
        self.held += more


def _stated_length(headers: Headers) -> int:
    """The length that a request states; 0 if it states none. Raises Refused if it is none, or may be read in two ways.

    Two programs that read it differently, such as a proxy and this service, would see two different requests.
    """
    lengths = headers.getlist("content-length")
    if lengths and "transfer-encoding" in headers:
        raise Refused(400, "Content-Length and Transfer-Encoding exclude each other")
    if len(lengths) > 1:
        raise Refused(400, "there is more than one Content-Length")
    if not lengths:
        return 0
    digits = lengths[0]
    if not (digits.isascii() and digits.isdecimal()):
        raise Refused(400, "Content-Length must be a number of digits")
    return int(digits.lstrip("0")[:20] or "0")


def _check_text(method: str, body: bytes) -> None:
    """Raises Refused if a body is no UTF-8, or holds a NUL, by which Python's JSON knows UTF-16 and UTF-32."""
    if method not in SENDS:
        return
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise Refused(400, "this is not JSON in UTF-8") from error
    if b"\x00" in body:
        raise Refused(400, "this is not JSON in UTF-8")


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _replay(body: bytes, receive: Receive) -> Receive:
    """Gives the body that was read, then whatever else comes."""
    waiting = [body]

    async def again() -> Message:
        return {"type": "http.request", "body": waiting.pop(), "more_body": False} if waiting else await receive()

    return again


def _telling(send: Send) -> Send:
    async def tell(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in TOLD.items():
                headers[name] = value
            if "cache-control" not in headers:
                headers["Cache-Control"] = "no-store"
        await send(message)

    return tell
