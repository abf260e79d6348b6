"""Puts the service together: index, guard, routes, page and webhook."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from gedbd.matching.feedback import Feedback
from gedbd.service.guard import Guard, Rules
from gedbd.service.metrics import Measured, Metrics
from gedbd.service.pool import Pool
from gedbd.service.routes import PAGE_DIR, Service, router
from gedbd.service.store import Index
from gedbd.service.webhook import Webhook
from gedbd.service.webhook_route import webhook_router

log = logging.getLogger("gedbd")


@dataclass(frozen=True)
class Settings:
    """How the service behaves.

    Attributes:
        token: What requests must bring, None if they need not; the page and its health are open.
        names: Host names by which it is reached, beside those of this machine.
        max_body_bytes: The most that a request may send.
        timeout_s: The longest that a request may be sent, and that its answer may take, in seconds.
        searches_at_once: Threads that search and store.
        searches_waiting: Requests that may wait for one of them; more are sent away for a moment.
    """

    token: str | None = None
    names: tuple[str, ...] = ()
    max_body_bytes: int = 1 << 20
    timeout_s: float = 30.0
    searches_at_once: int = 2
    searches_waiting: int = 32


def create_app(index: Index, settings: Settings = Settings(), webhook: Webhook | None = None) -> FastAPI:
    """The service over an open index, which it closes when it ends.

    Args:
        index: The stored reports.
        settings: How it behaves.
        webhook: What GitHub's events do; None leaves it out.

    Raises:
        ValueError: If a setting makes no sense.
    """
    pool = Pool(settings.searches_at_once, settings.searches_waiting, settings.timeout_s)
    if settings.max_body_bytes < 1:
        raise ValueError(f"max_body_bytes={settings.max_body_bytes} must be 1 or more")
    service = Service(index, Feedback(index.folder), pool, Metrics(index), webhook)
    app = FastAPI(title="gedbd", version="1", docs_url=None, redoc_url=None, lifespan=_lifespan)
    app.state.service = service
    asked = [] if settings.token is None else [Depends(HTTPBearer(auto_error=False))]  # for /openapi.json: Guard asks
    app.include_router(router, dependencies=asked)
    if webhook is not None:
        app.include_router(webhook_router)
    app.mount("/page", StaticFiles(directory=PAGE_DIR), name="page")
    app.add_exception_handler(RequestValidationError, _unfit)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(Exception, _failed)
    app.add_middleware(Guard, Rules(settings.token, settings.names, settings.max_body_bytes, settings.timeout_s))
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


def _unfit(request: Request, error: Exception) -> Response:
    """What does not fit, without what was sent: that may be no text that can be written."""
    assert isinstance(error, RequestValidationError)
    if any(each["type"] == "json_invalid" for each in error.errors()):
        return _answer(400, "this is not JSON")
    found = [f"{'.'.join(map(str, each['loc'][1:])) or 'the request'}: {each['msg']}" for each in error.errors()]
    return _answer(422, "; ".join(found[:5]))


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _answer(error.status_code, str(error.detail), dict(error.headers or {}))


def _failed(request: Request, error: Exception) -> Response:
    log.error("%s %s failed: %r", request.method, request.url.path, error)
    return _answer(500, "the service failed at this: its log says more")


def _answer(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    readable = detail.encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"detail": readable}, status, headers)
