"""Assembles the service: index, request checks, routes, page and webhook."""

import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from mimetypes import guess_type
from pathlib import Path

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.security import HTTPBearer
from jinja2 import Environment, FileSystemLoader
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from gedbd.corpora.feedback import FeedbackStore
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.service.middleware import Metrics, MetricsMiddleware, RequestGuard
from gedbd.service.routes import (
    Service,
    locate_router,
    public_router,
    router,
    suggestions_router,
    without_repository_router,
)
from gedbd.service.schemas import ONE_REPORT, REPORT_LIST
from gedbd.service.suspects import SuspectFinder
from gedbd.service.thread_pool import BoundedThreadPool
from gedbd.service.webhook import Webhook, as_unavailable, webhook_router
from gedbd.triage.stored_index import StoredIndex

PAGE_DIR = Path(__file__).parent / "page"
# Read once: no request ever names a path on disk.
FILES = {path.name: path.read_bytes() for path in PAGE_DIR.iterdir() if path.is_file()}
DOCUMENTATION = Environment(loader=FileSystemLoader(PAGE_DIR.parent), autoescape=True).get_template("docs.html.j2")
pages_router = APIRouter(include_in_schema=False)
log = logging.getLogger("gedbd")
MAX_PROBLEMS = 5  # that one answer names
# Instead of pydantic's words, by its type of an error.
PLAIN_WORDS = {
    "extra_forbidden": "there is no such field; GET /docs lists them",
    "missing": "this field is required",
    "model_attributes_type": "it must be a JSON object",
}


@dataclass(frozen=True)
class Settings:
    """Settings of the service.

    Attributes:
        token: Token that requests must bring, None if none is needed; the page and the health check never need it.
        names: Host names of the service besides those of this machine.
        max_body_bytes: Maximum size of one request.
        timeout_s: How long sending a request may take, and how long its answer, in seconds.
        searches_at_once: Number of threads that search.
        searches_waiting: Number of requests that may wait for one of them; more are answered 503.
        changes_waiting: Number of requests that may wait for the one thread that changes the index.
    """

    token: str | None = None
    names: tuple[str, ...] = ()
    max_body_bytes: int = 1 << 20
    timeout_s: float = 30.0
    searches_at_once: int = 2
    searches_waiting: int = 32
    changes_waiting: int = 32


def create_app(
    index: StoredIndex,
    settings: Settings = Settings(),
    webhook: Webhook | None = None,
    suspects: SuspectFinder | None = None,
) -> FastAPI:
    """The service over an open index, which it closes at shutdown.

    Args:
        index: The stored reports.
        settings: Token, host names and limits.
        webhook: The receiver of GitHub's events; None for a service without one.
        suspects: Finds suspect commits; None for a service without a repository.

    Raises:
        ValueError: If a setting is out of range.
    """
    searches = BoundedThreadPool(settings.searches_at_once, settings.searches_waiting, settings.timeout_s)
    # One thread of their own: changes exclude each other anyway, and searches go on while a file is locked.
    changes = BoundedThreadPool(1, settings.changes_waiting, settings.timeout_s, "changes")
    service = Service(index, FeedbackStore(index.folder), searches, changes, Metrics(index), webhook, suspects)
    app = FastAPI(title="gedbd", version="1", docs_url=None, redoc_url=None, lifespan=_lifespan)
    app.state.service = service
    # RequestGuard checks the token; the dependency only documents it in /openapi.json.
    documented = [Depends(HTTPBearer(auto_error=False))] if settings.token is not None else []
    app.include_router(router, dependencies=documented)
    app.include_router(public_router)
    if suspects is not None:
        app.include_router(locate_router, dependencies=documented)
    else:
        app.include_router(without_repository_router)
    app.include_router(pages_router)
    if webhook is not None:
        app.include_router(suggestions_router, dependencies=documented)
        app.include_router(webhook_router)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_refused)
    for unavailable in (StoreUnavailable, sqlite3.DatabaseError, OSError):
        app.add_exception_handler(unavailable, _answer_unavailable)
    app.add_exception_handler(Exception, _answer_failed)
    # The last one added runs first: refused requests are counted too.
    app.add_middleware(
        RequestGuard,
        token=settings.token,
        names=settings.names,
        max_body_bytes=settings.max_body_bytes,
        timeout_s=settings.timeout_s,
    )
    app.add_middleware(MetricsMiddleware, service.metrics)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Starts background work; at shutdown lets work in flight finish and closes all files."""
    service: Service = app.state.service
    service.start()
    try:
        yield
    finally:
        service.close()


async def _answer_invalid(request: Request, error: Exception) -> Response:
    """Names the invalid fields. The values are not quoted: they may not be encodable."""
    assert isinstance(error, RequestValidationError)
    problems = error.errors()
    if any(problem["type"] == "json_invalid" for problem in problems):
        return _answer(400, "the body is not JSON")
    return _answer(
        422, "; ".join(_problem(problem["loc"], problem["type"], problem["msg"]) for problem in problems[:MAX_PROBLEMS])
    )


def _problem(loc: tuple[str | int, ...], kind: str, message: str) -> str:
    """An error of pydantic in words; ``loc`` says where the value was: ("body", "filters", "component")."""
    path = ".".join(str(name) for name in loc[1:] if name not in (ONE_REPORT, REPORT_LIST))
    return f"{path or 'the request'}: {PLAIN_WORDS.get(kind, message.removeprefix('Value error, '))}"


async def _answer_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _answer(error.status_code, str(error.detail), dict(error.headers or {}))


async def _answer_unavailable(request: Request, error: Exception) -> Response:
    """A file cannot be used at the moment. This is no bug: the log gets one line without a traceback."""
    if as_unavailable(error) is None:
        raise error
    log.warning("%s: %s", _request_line(request), error)
    if isinstance(error, StoreUnavailable):
        return _answer(503, str(error), {"Retry-After": str(error.retry_after_s)})
    return _answer(
        503, "a file of the service cannot be used at the moment: see the log of the service", {"Retry-After": "5"}
    )


async def _answer_failed(request: Request, error: Exception) -> Response:
    """A bug. Starlette raises the error again, so the log gets the traceback too."""
    log.error("%s failed: %r", _request_line(request), error)
    return _answer(500, "internal error: see the log of the service")


def _request_line(request: Request) -> str:
    """Method and undecoded path: a decoded one could break the line of the log."""
    path: bytes = request.scope.get("raw_path") or b""
    return f"{request.method} {path.decode('latin-1')}"


def _answer(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    readable = detail.encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"detail": readable}, status, headers)


@pages_router.api_route("/", methods=["GET", "HEAD"])
async def page() -> Response:
    """The page for triagers."""
    return await page_file("index.html")


@pages_router.api_route("/page/{name}", methods=["GET", "HEAD"])
async def page_file(name: str) -> Response:
    """Scripts, style sheet and icon of the page."""
    if name not in FILES:
        raise HTTPException(404, "there is no such file")
    return Response(FILES[name], media_type=guess_type(name)[0])


@pages_router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """The API documentation: a page without scripts, made from the same schema as ``/openapi.json``."""
    return HTMLResponse(DOCUMENTATION.render(schema=request.app.openapi()))
