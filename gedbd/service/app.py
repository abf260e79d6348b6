"""The service: its routes, and how index, request checks, page and webhook are assembled."""

import logging
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from mimetypes import guess_type
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Body, Depends, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.security import HTTPBearer
from jinja2 import Environment, FileSystemLoader
from prometheus_client import CONTENT_TYPE_LATEST, Gauge, generate_latest
from pydantic import Discriminator, Field, Tag
from starlette.exceptions import HTTPException as RefusedRequest
from starlette.responses import JSONResponse, Response

from gedbd.corpora.bug_report import Filters, Match, Report, check_report
from gedbd.corpora.feedback import FeedbackEvent, FeedbackStore
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.service import schemas
from gedbd.service.duplicate_suggestions import count_outcomes
from gedbd.service.forgetting import forget_beside
from gedbd.service.middleware import Metrics, MetricsMiddleware, RequestGuard, Settings
from gedbd.service.suspects import SuspectFinder
from gedbd.service.thread_pool import BoundedThreadPool
from gedbd.service.webhook import Webhook, as_unavailable, webhook_router
from gedbd.triage.stored_index import StoredIndex, stored_report

NO_REPORT: schemas.Responses = {404: {"model": schemas.ErrorResponse, "description": "No such report"}}
NO_FEEDBACK: schemas.Responses = {404: {"model": schemas.ErrorResponse, "description": "No feedback on these reports"}}
NO_LINK: schemas.Responses = {404: {"model": schemas.ErrorResponse, "description": "No such link"}}
FORGET = (
    "Erase everything about the report, stored or not, from all files of the index: its words, links and vector, all"
    " feedback that names it, and waiting events and comments. Only its id stays, so that no old event of GitHub"
    " restores it. This cannot be undone. A later export or event that contains the report adds it again."
)
ReportList = Annotated[list[schemas.ReportCreate], Field(min_length=1, max_length=schemas.MAX_REPORTS)]
# The JSON type selects the schema, so that an error names the fields of this schema only.
ReportOrList = Annotated[
    Annotated[schemas.ReportCreate, Tag(schemas.ONE_REPORT)] | Annotated[ReportList, Tag(schemas.REPORT_LIST)],
    Discriminator(lambda sent: schemas.REPORT_LIST if isinstance(sent, list) else schemas.ONE_REPORT),
]
PAGE_DIR = Path(__file__).parent / "page"
# Read once: no request ever names a path on disk.
FILES = {path.name: path.read_bytes() for path in PAGE_DIR.iterdir() if path.is_file()}
DOCUMENTATION = Environment(loader=FileSystemLoader(PAGE_DIR.parent), autoescape=True).get_template("docs.html.j2")
MAX_PROBLEMS = 5  # in one response
# Messages that replace those of pydantic, by its error type.
PLAIN_WORDS = {
    "extra_forbidden": "there is no such field; GET /docs lists them",
    "missing": "this field is required",
    "model_attributes_type": "it must be a JSON object",
}
log = logging.getLogger("gedbd")
router = APIRouter(responses=schemas.ERROR_RESPONSES)
public_router = APIRouter(responses=schemas.ERROR_RESPONSES)  # needs no token
locate_router = APIRouter(responses=schemas.ERROR_RESPONSES)
suggestions_router = APIRouter(responses=schemas.ERROR_RESPONSES)
pages_router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class Service:
    """The state that the routes share."""

    index: StoredIndex
    feedback: FeedbackStore
    searches: BoundedThreadPool
    changes: BoundedThreadPool
    metrics: Metrics
    webhook: Webhook | None
    suspects: SuspectFinder | None = None
    closing: threading.Event = field(default_factory=threading.Event)  # set at shutdown

    @property
    def statements(self) -> list[str]:
        """Measured precision of suggestions and suspect commits, in words."""
        suspects = [] if self.suspects is None else [f"Suspect commits: {self.suspects.statement}"]
        return [self.index.matching.target.statement, *suspects]

    def search(self, report: Report, top_k: int, filters: Filters) -> list[Match]:
        """Searches and records the latency; a report with only an id stands for the stored report."""
        if report.issue_id and report == Report(issue_id=report.issue_id):
            report = stored_report(self.index, report.issue_id)
        check_report(report)
        with self.metrics.search.time():
            return self.index.search(report, top_k, filters)

    def record_feedback(self, event: FeedbackEvent) -> bool:
        """Stores feedback on a stored report; returns whether it is new."""
        if self.index.get(event.candidate) is None:
            raise ValueError(f"candidate {event.candidate} is not in the index")
        recorded = self.feedback.record(event)
        if recorded:
            self.metrics.feedback.labels(event.verdict).inc()
        return recorded

    def suggestions(self, limit: int) -> schemas.SuggestionsResponse:
        """The suggestions of the webhook with their current outcomes, the newest first."""
        webhook = self.webhook
        assert webhook is not None  # the route exists only with a webhook
        judged = webhook.record.judge(self.index, webhook.feedback)
        counts = count_outcomes(judged)
        latest = [suggestion for suggestion in judged if suggestion.named][::-1][:limit]
        return schemas.SuggestionsResponse(
            mode=webhook.suggest,
            how_to_write=webhook.how_to_write(),
            statement=counts.sentence,
            **asdict(counts),
            suggestions=[schemas.SuggestionResponse.model_validate(asdict(suggestion)) for suggestion in latest],
        )

    def withdraw_feedback(self, report: str, candidate: str) -> bool:
        """Withdraws the feedback on two stored reports; returns whether there was any."""
        withdrawn = self.feedback.withdraw(report, candidate, "api")
        if withdrawn:
            self.metrics.feedback.labels("withdraw").inc()
        return withdrawn

    def forget(self, issue_id: str) -> bool:
        """Erases a report from the index and the files beside it; returns whether it was stored."""
        # No event may store or name the report in the meantime.
        with self.webhook.turn if self.webhook else nullcontext():
            forget_beside(self.index.folder, issue_id, self.index.get(issue_id))
            is_stored = self.index.forget(issue_id)
            if self.webhook:
                self.webhook.record.table.forget(issue_id)  # its file may be in another folder
        if self.webhook:
            self.webhook.table.recount()
        return is_stored

    def start(self) -> None:
        """Starts the suspect finder and the webhook, and counts the webhook's results."""
        if self.suspects is not None:
            self.suspects.start()
        if self.webhook is None:
            return
        events = self.metrics.webhook.labels
        comments = self.metrics.comments.labels
        self.webhook.start(lambda code: events(code).inc(), lambda code: comments(code).inc())
        waiting = "Webhook deliveries waiting to be processed"
        backlog = Gauge("gedbd_webhook_waiting", waiting, registry=self.metrics.registry)
        backlog.set_function(lambda: self.webhook.table.waiting if self.webhook else 0)

    def close(self) -> None:
        """Stops the workers, and closes all files unless work still runs."""
        self.closing.set()
        if self.suspects is not None:
            self.suspects.close()
        # A list, not ``and``, so that each is closed even if the previous one has not finished.
        finished = [self.webhook is None or self.webhook.close(), self.searches.close(), self.changes.close()]
        if not all(finished):
            log.warning("work still runs at shutdown: its files are left open")
            return
        self.feedback.close()
        self.index.close()


async def get_service(request: Request) -> Service:
    """The service that a request belongs to."""
    service: Service = request.app.state.service
    return service


ServiceDependency = Annotated[Service, Depends(get_service)]


@router.post("/api/search")
async def search(query: schemas.SearchRequest, service: ServiceDependency) -> schemas.SearchResponse:
    """Finds the duplicate groups that a report may belong to, the best first, and explains each match.

    `issue_id` without any other field of a report stands for the stored report, which is left out of its own matches.
    """
    filters = Filters(**query.filters.model_dump())
    matches = await service.searches.run(service.search, query.to_report(), query.top_k, filters)
    index = service.index
    target = index.matching.target  # read once, as another process may replace the index meanwhile
    return schemas.SearchResponse(
        tracker=index.name,
        reports=len(index),
        threshold=target.suggest_from,
        target=schemas.TargetResponse(**asdict(target), statement=target.statement),
        list_statement=index.matching.list_target.list_statement([match.probability for match in matches]),
        matches=[
            schemas.MatchResponse.model_validate(
                {**vars(match), "suggested": target.is_reached([match.probability])}, from_attributes=True
            )
            for match in matches
        ],
    )


@router.post("/api/reports")
async def add(reports: Annotated[ReportOrList, Body()], service: ServiceDependency) -> schemas.AddResponse:
    """Adds or updates one report or a list of reports. They are on disk when the response is sent."""
    received = reports if isinstance(reports, list) else [reports]
    stored = [report.to_report() for report in received]
    return schemas.AddResponse(reports=await service.changes.run(service.index.add, stored))


@router.get("/api/reports/{issue_id:path}", responses=NO_REPORT)
async def get(issue_id: schemas.IssueId, service: ServiceDependency) -> Report:
    """Returns a stored report with all its fields."""
    report = await service.searches.run(service.index.get, issue_id)
    if report is None:
        raise HTTPException(404, f"report {issue_id} is not in the index")
    return report


@router.delete("/api/reports/{issue_id:path}", responses=NO_REPORT)
async def delete(
    issue_id: schemas.IssueId, service: ServiceDependency, forget: Annotated[bool, Query(description=FORGET)] = False
) -> schemas.DeleteResponse:
    """Deletes a report but keeps its feedback, its links and the words of its text; `forget=true` erases them too."""
    if not await service.changes.run(service.forget if forget else service.index.delete, issue_id):
        erased = "; other data that named it was erased" if forget else ""
        raise HTTPException(404, f"report {issue_id} is not in the index{erased}")
    return schemas.DeleteResponse(deleted=issue_id)


@router.post("/api/feedback")
async def give_feedback(feedback: schemas.FeedbackRequest, service: ServiceDependency) -> schemas.FeedbackResponse:
    """Records feedback on a match. The latest feedback on a pair of reports counts; earlier feedback is kept."""
    event = FeedbackEvent(
        feedback.report.to_report(), feedback.candidate, feedback.verdict, feedback.source, feedback.who
    )
    return schemas.FeedbackResponse(recorded=await service.changes.run(service.record_feedback, event))


@router.delete("/api/feedback", responses=NO_FEEDBACK)
async def withdraw_feedback(
    report: schemas.IssueId, candidate: schemas.IssueId, service: ServiceDependency
) -> schemas.WithdrawResponse:
    """Withdraws the feedback on two stored reports, in either direction. The record of it is kept."""
    if not await service.changes.run(service.withdraw_feedback, report, candidate):
        raise HTTPException(404, f"there is no feedback on {report} and {candidate}")
    return schemas.WithdrawResponse(withdrawn=(report, candidate))


@router.delete("/api/links", responses=NO_LINK)
async def unlink(
    report: schemas.IssueId, duplicate: schemas.IssueId, service: ServiceDependency
) -> schemas.UnlinkResponse:
    """Deletes all links between two reports. Links of the tracker return when the index is built again."""
    if not await service.changes.run(service.index.unlink, report, duplicate):
        raise HTTPException(404, f"no link between {report} and {duplicate}")
    return schemas.UnlinkResponse(unlinked=(report, duplicate))


@public_router.get("/api/health")
async def health(service: ServiceDependency) -> schemas.HealthResponse:
    """Answers while the service is up; no token is needed."""
    return schemas.HealthResponse(
        ready=True,
        reports=len(service.index),
        locates=service.suspects is not None,
        suggests=service.webhook is not None,
    )


@router.get("/metrics", response_class=Response)
async def metrics(service: ServiceDependency) -> Response:
    """Returns counters and latencies for Prometheus."""
    return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)


@locate_router.post("/api/locate")
async def locate(query: schemas.LocateRequest, service: ServiceDependency) -> schemas.LocateResponse:
    """Finds the files that a report is about and the commits that may have introduced its bug, with matching lines."""
    finder = service.suspects
    if finder is None:
        raise HTTPException(404, "the service has no repository: start it with gedbd serve repo=FOLDER")
    return await service.searches.run(finder.find, query.to_report(), query.top_k, query.top_commits)


@suggestions_router.get("/api/suggestions")
async def suggestions(
    service: ServiceDependency, limit: Annotated[int, Query(ge=1, le=schemas.MAX_SUGGESTIONS)] = 50
) -> schemas.SuggestionsResponse:
    """Returns the suggestions of the webhook, also in shadow mode, with their outcomes; the newest first."""
    return await service.searches.run(service.suggestions, limit)


def create_app(
    index: StoredIndex,
    settings: Settings | None = None,
    webhook: Webhook | None = None,
    suspects: SuspectFinder | None = None,
) -> FastAPI:
    """Creates the service of an open index, which it closes at shutdown. Raises ValueError if a setting is invalid."""
    settings = settings or Settings()
    searches = BoundedThreadPool(settings.searches_at_once, settings.searches_waiting, settings.timeout_s)
    # A separate thread: changes exclude each other anyway, and searches continue while a file is locked.
    changes = BoundedThreadPool(1, settings.changes_waiting, settings.timeout_s, "changes")
    service = Service(index, FeedbackStore(index.folder), searches, changes, Metrics(index), webhook, suspects)
    app = FastAPI(title="gedbd", version="1", docs_url=None, redoc_url=None, lifespan=_lifespan)
    app.state.service = service
    # RequestGuard checks the token; the dependency only documents it in /openapi.json.
    documented = [Depends(HTTPBearer(auto_error=False))] if settings.token is not None else []
    app.include_router(router, dependencies=documented)
    app.include_router(public_router)
    app.include_router(locate_router, dependencies=documented, include_in_schema=suspects is not None)
    app.include_router(pages_router)
    if webhook is not None:
        app.include_router(suggestions_router, dependencies=documented)
        app.include_router(webhook_router)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(RefusedRequest, _answer_refused)
    for unavailable in (StoreUnavailable, sqlite3.DatabaseError, OSError):
        app.add_exception_handler(unavailable, _answer_unavailable)
    app.add_exception_handler(Exception, _answer_failed)
    # The last one added runs first: refused requests are counted too.
    app.add_middleware(RequestGuard, settings)
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
    texts = []
    for problem in problems[:MAX_PROBLEMS]:
        # The path of the value, ("body", "filters", "component"), as filters.component.
        names = [str(name) for name in problem["loc"][1:] if name not in (schemas.ONE_REPORT, schemas.REPORT_LIST)]
        message = PLAIN_WORDS.get(problem["type"], problem["msg"].removeprefix("Value error, "))
        texts.append(f"{'.'.join(names) or 'the request'}: {message}")
    return _answer(422, "; ".join(texts))


async def _answer_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedRequest)
    return _answer(error.status_code, str(error.detail), dict(error.headers or {}))


async def _answer_unavailable(request: Request, error: Exception) -> Response:
    """Answers 503 if a file is unavailable: not a bug, so the log gets one line without a traceback."""
    if as_unavailable(error) is None:
        raise error
    log.warning("%s: %s", _request_line(request), error)
    if isinstance(error, StoreUnavailable):
        return _answer(503, str(error), {"Retry-After": str(error.retry_after_s)})
    return _answer(
        503, "a file of the service cannot be used at the moment: see the log of the service", {"Retry-After": "5"}
    )


async def _answer_failed(request: Request, error: Exception) -> Response:
    """Answers 500 after a bug. Starlette raises the error again, so the log gets the traceback too."""
    log.error("%s failed: %r", _request_line(request), error)
    return _answer(500, "internal error: see the log of the service")


def _request_line(request: Request) -> str:
    """Method and undecoded path: a decoded path could contain a line break."""
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
