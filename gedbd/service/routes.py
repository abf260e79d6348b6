"""Routes of the API: search, reports, feedback, links, health and metrics."""

import logging
import threading
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Annotated

from fastapi import APIRouter, Body, Depends, HTTPException, Query, Request
from fastapi.responses import Response as PlainResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import Discriminator, Field, Tag

from gedbd.corpora.bug_report import Filters, Match, Report, check_report
from gedbd.corpora.feedback import FeedbackEvent, FeedbackStore
from gedbd.service.forgetting import forget_beside
from gedbd.service.middleware import Metrics
from gedbd.service.schemas import (
    ERROR_RESPONSES,
    MAX_REPORTS,
    MAX_SUGGESTIONS,
    ONE_REPORT,
    REPORT_LIST,
    AddResponse,
    DeleteResponse,
    ErrorResponse,
    FeedbackRequest,
    FeedbackResponse,
    HealthResponse,
    IssueId,
    LocateRequest,
    LocateResponse,
    ReportCreate,
    Responses,
    SearchRequest,
    SearchResponse,
    SuggestionResponse,
    SuggestionsResponse,
    TargetResponse,
    UnlinkResponse,
    WithdrawResponse,
    match_response,
)
from gedbd.service.suggestions import count_outcomes
from gedbd.service.suspects import SuspectFinder
from gedbd.service.thread_pool import BoundedThreadPool
from gedbd.service.webhook import Webhook
from gedbd.triage.stored_index import StoredIndex, stored_report

locate_router = APIRouter(responses=ERROR_RESPONSES)
without_repository_router = APIRouter()
suggestions_router = APIRouter(responses=ERROR_RESPONSES)
NO_REPORT: Responses = {404: {"model": ErrorResponse, "description": "No such report"}}
NO_FEEDBACK: Responses = {404: {"model": ErrorResponse, "description": "No feedback on these reports"}}
NO_LINK: Responses = {404: {"model": ErrorResponse, "description": "No such link"}}
FORGET = (
    "Erase everything about the report, stored or not, from all files of the index: its words, links and vector, all"
    " feedback that names it, and waiting events and comments. Only its id stays, so that no old event of GitHub"
    " restores it. This cannot be undone. A later export or event that contains the report adds it again."
)
router = APIRouter(responses=ERROR_RESPONSES)
public_router = APIRouter(responses=ERROR_RESPONSES)  # needs no token
log = logging.getLogger("gedbd")


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
        return [self.index.target.statement, *suspects]

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

    def suggestions(self, limit: int) -> SuggestionsResponse:
        """The suggestions of the webhook with their current outcomes, the newest first."""
        webhook = self.webhook
        assert webhook is not None  # the route exists only with a webhook
        judged = webhook.record.judge(self.index, webhook.feedback)
        counts = count_outcomes(judged)
        latest = [suggestion for suggestion in judged if suggestion.named][::-1][:limit]
        return SuggestionsResponse(
            mode=webhook.suggest,
            how_to_write=webhook.how_to_write(),
            statement=counts.sentence,
            **asdict(counts),
            suggestions=[SuggestionResponse.model_validate(asdict(suggestion)) for suggestion in latest],
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
        self.metrics.watch_backlog(self.webhook.table)

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
ReportList = Annotated[list[ReportCreate], Field(min_length=1, max_length=MAX_REPORTS)]
# Chosen by the JSON type, so that an error names the fields of the one that was sent, not those of both.
ReportOrList = Annotated[
    Annotated[ReportCreate, Tag(ONE_REPORT)] | Annotated[ReportList, Tag(REPORT_LIST)],
    Discriminator(lambda sent: REPORT_LIST if isinstance(sent, list) else ONE_REPORT),
]


@router.post("/api/search")
async def search(query: SearchRequest, service: ServiceDependency) -> SearchResponse:
    """Finds the duplicate groups that a report may belong to, the best first, and explains each match.

    `issue_id` without any other field of a report stands for the stored report, which is left out of its own matches.
    """
    filters = Filters(**query.filters.model_dump())
    matches = await service.searches.run(service.search, query.to_report(), query.top_k, filters)
    index = service.index
    target = index.target  # read once: an index that is replaced meanwhile may bring another one
    return SearchResponse(
        tracker=index.name,
        reports=len(index),
        threshold=target.suggest_from,
        target=TargetResponse(**asdict(target), statement=target.statement),
        list_statement=index.list_target.list_statement([match.probability for match in matches]),
        matches=[match_response(match, target.suggest_from) for match in matches],
    )


@router.post("/api/reports")
async def add(reports: Annotated[ReportOrList, Body()], service: ServiceDependency) -> AddResponse:
    """Adds or updates one report or a list of reports. They are on disk when the response is sent."""
    received = reports if isinstance(reports, list) else [reports]
    stored = [report.to_report() for report in received]
    return AddResponse(reports=await service.changes.run(service.index.add, stored))


@router.get("/api/reports/{issue_id:path}", responses=NO_REPORT)
async def get(issue_id: IssueId, service: ServiceDependency) -> Report:
    """Returns a stored report with all its fields."""
    report = await service.searches.run(service.index.get, issue_id)
    if report is None:
        raise HTTPException(404, f"report {issue_id} is not in the index")
    return report


@router.delete("/api/reports/{issue_id:path}", responses=NO_REPORT)
async def delete(
    issue_id: IssueId, service: ServiceDependency, forget: Annotated[bool, Query(description=FORGET)] = False
) -> DeleteResponse:
    """Deletes a report but keeps its feedback, its links and the words of its text; `forget=true` erases them too."""
    if not await service.changes.run(service.forget if forget else service.index.delete, issue_id):
        erased = "; other data that named it was erased" if forget else ""
        raise HTTPException(404, f"report {issue_id} is not in the index{erased}")
    return DeleteResponse(deleted=issue_id)


@router.post("/api/feedback")
async def give_feedback(feedback: FeedbackRequest, service: ServiceDependency) -> FeedbackResponse:
    """Records feedback on a match. The latest feedback on a pair of reports counts; earlier feedback is kept."""
    event = FeedbackEvent(
        feedback.report.to_report(), feedback.candidate, feedback.verdict, feedback.source, feedback.who
    )
    return FeedbackResponse(recorded=await service.changes.run(service.record_feedback, event))


@router.delete("/api/feedback", responses=NO_FEEDBACK)
async def withdraw_feedback(report: IssueId, candidate: IssueId, service: ServiceDependency) -> WithdrawResponse:
    """Withdraws the feedback on two stored reports, in either direction. The record of it is kept."""
    if not await service.changes.run(service.withdraw_feedback, report, candidate):
        raise HTTPException(404, f"there is no feedback on {report} and {candidate}")
    return WithdrawResponse(withdrawn=(report, candidate))


@router.delete("/api/links", responses=NO_LINK)
async def unlink(report: IssueId, duplicate: IssueId, service: ServiceDependency) -> UnlinkResponse:
    """Deletes all links between two reports. Links of the tracker return when the index is built again."""
    if not await service.changes.run(service.index.unlink, report, duplicate):
        raise HTTPException(404, f"no link between {report} and {duplicate}")
    return UnlinkResponse(unlinked=(report, duplicate))


@public_router.get("/api/health")
async def health(service: ServiceDependency) -> HealthResponse:
    """Answers while the service is up; no token is needed."""
    return HealthResponse(
        ready=True,
        reports=len(service.index),
        locates=service.suspects is not None,
        suggests=service.webhook is not None,
    )


@router.get("/metrics", response_class=PlainResponse)
async def metrics(service: ServiceDependency) -> PlainResponse:
    """Returns counters and latencies for Prometheus."""
    return PlainResponse(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)


@locate_router.post("/api/locate")
async def locate(query: LocateRequest, service: ServiceDependency) -> LocateResponse:
    """Finds the files that a report is about and the commits that may have introduced its bug, with matching lines."""
    finder = service.suspects
    assert finder is not None  # the route exists only with a repository
    return await service.searches.run(finder.find, query.to_report(), query.top_k, query.top_commits)


@without_repository_router.post("/api/locate", include_in_schema=False)
async def refuse_to_locate() -> None:
    """Answers that the service has no repository."""
    raise HTTPException(404, "the service knows no repository: start it with gedbd serve repo=FOLDER")


@suggestions_router.get("/api/suggestions")
async def suggestions(
    service: ServiceDependency, limit: Annotated[int, Query(ge=1, le=MAX_SUGGESTIONS)] = 50
) -> SuggestionsResponse:
    """Returns the suggestions of the webhook, also in shadow mode, with their outcomes; the newest first."""
    return await service.searches.run(service.suggestions, limit)
