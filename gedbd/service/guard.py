"""Stands before all routes: who may ask, how much may be sent, and what browsers are told."""

import asyncio
import hmac
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("localhost", "127.0.0.1", "::1")
OPEN = ("/", "/api/health", "/webhooks/github")  # the page asks for the token, GitHub signs instead
OPEN_FOLDER = "/page/"
SENDS = ("POST", "PUT", "PATCH")
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
        timeout_s: How long it may take to send it, in seconds.
    """

    token: str | None = None
    names: tuple[str, ...] = ()
    max_body_bytes: int = 1 << 20
    timeout_s: float = 30.0


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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or says why not."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            headers = Headers(scope=scope)
            self._check(scope["method"], scope["path"], headers)
            body = await self._body(headers, receive)
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
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method in SENDS and kind != "application/json":
            raise Refused(415, "send JSON, with Content-Type: application/json")

    def _knows(self, authorization: str) -> bool:
        if self.rules.token is None:
            return True
        scheme, _, given = authorization.partition(" ")
        same = hmac.compare_digest(given.strip().encode(), self.rules.token.encode())
        return scheme.lower() == "bearer" and same

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        most = self.rules.max_body_bytes
        too_large = f"the request is larger than {most:,} bytes"
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > most:
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
        except TimeoutError as error:
            raise Refused(503, f"the request was not complete within {self.rules.timeout_s:g} seconds") from error
        return bytes(read)


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
