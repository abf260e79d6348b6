"""Settings of the service, and middleware for every request: checks, security headers, and Prometheus metrics."""

import asyncio
import hmac
import time
from collections.abc import Sized
from dataclasses import dataclass
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gedbd.service.thread_pool import SHUTTING_DOWN

LOOPBACK = ("localhost", "127.0.0.1", "::1")
PUBLIC_PATHS = ("/", "/api/health", "/webhooks/github")  # the page asks for the token itself, GitHub signs instead
PUBLIC_FOLDER = "/page/"
LATENCY_BUCKETS_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
METHODS_WITH_BODY = ("POST", "PUT", "PATCH")
UTF_8 = ("", "utf-8", "utf8")
SECURITY_HEADERS = {
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
class Settings:
    """Settings of the service."""

    # token that requests must send, None if none is needed; the page and the health check never need it
    token: str | None = None
    names: tuple[str, ...] = ()  # host names of the service besides those of this machine
    max_body_bytes: int = 1 << 20  # maximum size of one request
    timeout_s: float = 30.0  # maximum time to receive a request, and to answer it, in seconds
    searches_at_once: int = 2  # number of threads that search
    searches_waiting: int = 32  # number of requests that may wait for such a thread; further requests get a 503
    changes_waiting: int = 32  # number of requests that may wait for the one thread that changes the index


class RequestRefused(Exception):  # noqa: N818 - carries an answer to the client, not a fault of the service
    """A request that is answered without running a route."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        # The rest of the body may still come: no further request can be read from this connection.
        all_headers = {"Connection": "close"} | {name.replace("_", "-"): value for name, value in headers.items()}
        self.response = JSONResponse({"detail": detail}, status, all_headers)


@dataclass(eq=False)
class RequestGuard:
    """Checks host name, token, content type and size of a request, and reads its whole body before any route runs.

    Starlette's ``TrustedHostMiddleware`` answers with plain text instead of JSON with ``detail``, and without the
    security headers.
    """

    app: ASGIApp
    settings: Settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or answers why it is refused."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered = MutableHeaders(scope=message)
                answered.update(SECURITY_HEADERS)
                answered.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            headers = Headers(scope=scope)
            self._check(scope["method"], scope["path"], headers)
            body = await self._read_body(headers, receive)
            # Python's JSON would read a body with a NUL as UTF-16 or UTF-32.
            is_utf_8 = b"\x00" not in body and body.decode(errors="ignore").encode() == body
            if scope["method"] in METHODS_WITH_BODY and not is_utf_8:
                raise RequestRefused(400, "the body is not JSON in UTF-8")
        except RequestRefused as refused:
            await refused.response(scope, receive, send_with_headers)
            return
        unread = [body]

        async def receive_again() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            return await receive()

        await self.app(scope, receive_again, send_with_headers)

    def _check(self, method: str, path: str, headers: Headers) -> None:
        # Against DNS rebinding: a foreign page whose name resolves to this machine sends its own host name.
        try:
            host = urlsplit(f"//{headers.get('host', '')}").hostname or ""
        except ValueError:
            host = ""
        if host not in (*LOOPBACK, *self.settings.names) and "*" not in self.settings.names:
            raise RequestRefused(400, "unknown host name: add it to the option settings.names")
        is_public = path in PUBLIC_PATHS or path.startswith(PUBLIC_FOLDER)
        if not is_public and not self._has_token(headers.get("authorization", "")):
            raise RequestRefused(401, "a token is required: Authorization: Bearer ...", WWW_Authenticate="Bearer")
        if method not in METHODS_WITH_BODY:
            return
        # Browsers send JSON to another site only after asking for permission, which is never given here.
        kind, _, parameters = headers.get("content-type", "").lower().partition(";")
        if kind.strip() != "application/json":
            raise RequestRefused(415, "send JSON, with Content-Type: application/json")
        charset = parameters.partition("charset=")[2].partition(";")[0].strip().strip('"')
        if charset not in UTF_8:
            raise RequestRefused(415, "send JSON in UTF-8")
        if headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise RequestRefused(415, "send JSON that is not compressed")

    def _has_token(self, authorization: str) -> bool:
        if self.settings.token is None:
            return True
        scheme, _, sent = authorization.partition(" ")
        # In constant time: the duration of a comparison must not reveal how many characters are correct.
        same = hmac.compare_digest(sent.strip().encode(), self.settings.token.encode())
        return scheme.lower() == "bearer" and same

    async def _read_body(self, headers: Headers, receive: Receive) -> bytes:
        too_large = f"the request is larger than {self.settings.max_body_bytes:,} bytes"
        length = headers.get("content-length")
        # A proxy could read a different request if its length is stated in two ways (request smuggling).
        if length is not None and "transfer-encoding" in headers:
            raise RequestRefused(400, "Content-Length and Transfer-Encoding must not be used together")
        # h11 has already refused a length that is not a whole number.
        if int(length or 0) > self.settings.max_body_bytes:
            raise RequestRefused(413, too_large)
        body = bytearray()
        more = True
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestRefused(400, "the request was cut off")
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > self.settings.max_body_bytes:
                        raise RequestRefused(413, too_large)
        except TimeoutError as error:
            late = f"the request was not complete within {self.settings.timeout_s:g} seconds"
            raise RequestRefused(408, late) from error
        except asyncio.CancelledError as error:  # by uvicorn, when the time for requests in flight is over
            raise RequestRefused(503, SHUTTING_DOWN, Retry_After="5") from error
        return bytes(body)


class Metrics:
    """The metrics of one service, in their own registry; the number of stored reports is one of them."""

    def __init__(self, index: Sized) -> None:
        # A separate registry, so that the counts of two services in one process, as in tests, do not add up.
        self.registry = CollectorRegistry()
        registry = self.registry
        buckets = LATENCY_BUCKETS_S
        self.requests = Counter("gedbd_requests", "Requests answered", ["path", "status"], registry=registry)
        self.seconds = Histogram(
            "gedbd_request_seconds", "Time to answer", ["path"], buckets=buckets, registry=registry
        )
        self.search = Histogram(
            "gedbd_search_seconds", "Time spent in the search itself", buckets=buckets, registry=registry
        )
        self.feedback = Counter("gedbd_feedback", "Feedback recorded", ["verdict"], registry=registry)
        self.webhook = Counter("gedbd_webhook", "Webhook deliveries", ["result"], registry=registry)
        self.comments = Counter("gedbd_comments", "Comments on GitHub", ["result"], registry=registry)
        reports = Gauge("gedbd_reports", "Reports in the index", registry=registry)
        reports.set_function(lambda: len(index))


@dataclass(eq=False)
class MetricsMiddleware:
    """Counts and times requests by the route that answered them; requests without a route count as ``other``."""

    app: ASGIApp
    metrics: Metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 500  # of an application that fails before it answers
        started = time.perf_counter()

        async def send_and_record(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_and_record)
        finally:
            # The route's pattern, not the path: a label for each address would grow without bound.
            path = getattr(scope.get("route"), "path", "other")
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - started)
