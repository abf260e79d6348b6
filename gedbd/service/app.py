"""Puts the service together: index, guard, routes, page and webhook."""

import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from gedbd.service.index_interface import Index
from gedbd.service.metrics import Measured, Metrics
from gedbd.service.middleware import Guard, Rules
from gedbd.service.routes import Service, router
from gedbd.service.static_pages import pages_router
from gedbd.service.thread_pool import Pool
from gedbd.service.webhook.failures import as_unavailable
from gedbd.service.webhook.receiver import Webhook
from gedbd.service.webhook.route import webhook_router
from gedbd.triage.feedback import Feedback
from gedbd.triage.storage.connection import StoreUnavailable

log = logging.getLogger("gedbd")


@dataclass(frozen=True)
class Settings:
    """How the service behaves.

    Attributes:
        token: What requests must bring, None if they need not; the page and its health are open.
        names: Host names by which it is reached, beside those of this machine.
        max_body_bytes: The most that a request may send.
        max_bodies_bytes: The most that all requests together may hold at once, beside 32 KiB for each.
        body_wait_s: How long a large request waits until others release theirs, in seconds.
        timeout_s: The longest that a request may be sent, and that its answer may take, in seconds.
        searches_at_once: Threads that search.
        searches_waiting: Requests that may wait for one of them; more are answered 503.
        changes_waiting: Requests that may wait for the one thread that changes the index.
    """

    token: str | None = None
    names: tuple[str, ...] = ()
    max_body_bytes: int = 1 << 20
    max_bodies_bytes: int = 1 << 24
    body_wait_s: float = 5.0
    timeout_s: float = 30.0
    searches_at_once: int = 2
    searches_waiting: int = 32
    changes_waiting: int = 32


def create_app(index: Index, settings: Settings = Settings(), webhook: Webhook | None = None) -> FastAPI:
    """The service over an open index, which it closes when it ends.

    Args:
        index: The stored reports.
        settings: How it behaves.
        webhook: What GitHub's events do; None leaves it out.

    Raises:
        ValueError: If a setting makes no sense.
    """
    rules = Rules(
        settings.token,
        settings.names,
        settings.max_body_bytes,
        settings.max_bodies_bytes,
        settings.body_wait_s,
        settings.timeout_s,
    )
    pool = Pool(settings.searches_at_once, settings.searches_waiting, settings.timeout_s)
    # Changes take turns anyway, and must not keep searches waiting while somebody else has locked a file.
    changes = Pool(1, settings.changes_waiting, settings.timeout_s, "changes")
    service = Service(index, Feedback(index.folder), pool, changes, Metrics(index), webhook)
    app = FastAPI(title="gedbd", version="1", docs_url=None, redoc_url=None, lifespan=_lifespan)
    app.state.service = service
    asked = [] if settings.token is None else [Depends(HTTPBearer(auto_error=False))]  # for /openapi.json: Guard asks
    app.include_router(router, dependencies=asked)
    app.include_router(pages_router)
    if webhook is not None:
        app.include_router(webhook_router)
    app.add_exception_handler(RequestValidationError, _unfit)
    app.add_exception_handler(HTTPException, _refused)
    for unavailable in (StoreUnavailable, sqlite3.DatabaseError, OSError):
        app.add_exception_handler(unavailable, _unavailable)
    app.add_exception_handler(Exception, _failed)
    app.add_middleware(Guard, rules)
    app.add_middleware(Measured, service.metrics)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Works what was left undone beside serving; at the end lets work in flight finish and closes all files."""
    service: Service = app.state.service
    service.start()
    try:
        yield
    finally:
        service.close()


async def _unfit(request: Request, error: Exception) -> Response:
    """Says what is invalid, without quoting what was sent: it may not be encodable."""
    assert isinstance(error, RequestValidationError)
    if any(each["type"] == "json_invalid" for each in error.errors()):
        return _answer(400, "this is not JSON")
    found = [f"{'.'.join(map(str, each['loc'][1:])) or 'the request'}: {each['msg']}" for each in error.errors()]
    return _answer(422, "; ".join(found[:5]))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _answer(error.status_code, str(error.detail), dict(error.headers or {}))


async def _unavailable(request: Request, error: Exception) -> Response:
    """A file that cannot be used at the moment: no bug, so the log gets a line without a traceback."""
    if as_unavailable(error) is None:
        raise error
    log.warning("%s: %s", _asked(request), error)
    if isinstance(error, StoreUnavailable):
        return _answer(503, str(error), {"Retry-After": str(error.retry_after_s)})
    return _answer(503, "a file of the service cannot be used at the moment: its log says more", {"Retry-After": "5"})


async def _failed(request: Request, error: Exception) -> Response:
    """A bug; the traceback follows in the log, as Starlette raises the error again."""
    log.error("%s failed: %r", _asked(request), error)
    return _answer(500, "the service failed at this: its log says more")


def _asked(request: Request) -> str:
    """Method and path as they came, in which no line can be broken."""
    path: bytes = request.scope.get("raw_path") or b""
    return f"{request.method} {path.decode('latin-1')}"


def _answer(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    readable = detail.encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"detail": readable}, status, headers)
