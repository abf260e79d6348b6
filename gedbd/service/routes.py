"""What can be asked of the service."""

import logging
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, HTTPException, Request
from fastapi.responses import Response as PlainResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import Field

from gedbd.service.index_interface import Index
from gedbd.service.metrics import Metrics
from gedbd.service.schemas import (
    MOST_REPORTS,
    Added,
    Answer,
    Deleted,
    Filed,
    Health,
    IssueId,
    Judgement,
    Problem,
    Query,
    Recorded,
    Target,
    Unlinked,
    Withdrawn,
    found,
)
from gedbd.service.thread_pool import Pool
from gedbd.service.webhook.receiver import Webhook
from gedbd.triage.feedback import Feedback, Verdict
from gedbd.triage.report import Filters, Match, Report, check_report

WRONG: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": said}
    for status, said in (
        (400, "Not understood"),
        (401, "A token is needed"),
        (408, "Not sent in time"),
        (413, "Too large"),
        (415, "Not JSON"),
        (422, "It does not fit"),
        (503, "Busy, too slow, or the index cannot be used at the moment"),
    )
}
MISSING: dict[int | str, dict[str, Any]] = {404: {"model": Problem, "description": "No such report"}}
NOTHING_SAID: dict[int | str, dict[str, Any]] = {404: {"model": Problem, "description": "No verdict counts"}}
NO_LINK: dict[int | str, dict[str, Any]] = {404: {"model": Problem, "description": "No such link"}}
router = APIRouter(responses=WRONG)
log = logging.getLogger("gedbd")


@dataclass(frozen=True)
class Service:
    """What the routes share."""

    index: Index
    feedback: Feedback
    pool: Pool
    changes: Pool
    metrics: Metrics
    webhook: Webhook | None

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The threads in which requests are carried out."""
        return (self.pool, self.changes, *([self.webhook.storing] if self.webhook else []))

    def search(self, report: Report, top_k: int, filters: Filters) -> list[Match]:
        """Searches, and measures how long that takes."""
        check_report(report)
        with self.metrics.search.time():
            return self.index.search(report, top_k, filters)

    def judge(self, verdict: Verdict) -> bool:
        """Keeps a verdict about a stored report."""
        if self.index.get(verdict.candidate) is None:
            raise ValueError(f"candidate {verdict.candidate} is not in the index")
        recorded = self.feedback.record(verdict)
        if recorded:
            self.metrics.feedback.labels(verdict.verdict).inc()
        return recorded

    def withdraw(self, report: str, candidate: str) -> bool:
        """Takes back what was said about two stored reports."""
        withdrawn = self.feedback.withdraw(report, candidate, "api")
        if withdrawn:
            self.metrics.feedback.labels("withdraw").inc()
        return withdrawn

    def start(self) -> None:
        """Lets the webhook, if there is one, begin its work, and counts what becomes of events and comments."""
        if self.webhook is None:
            return
        events, comments = self.metrics.webhook.labels, self.metrics.comments.labels
        self.webhook.start(lambda word: events(word).inc(), lambda word: comments(word).inc())
        self.metrics.watch_backlog(self.webhook.inbox)

    def close(self) -> None:
        """Stops what goes out, lets begun work end, then closes all files; those of work that goes on stay open."""
        ended = [self.webhook is None or self.webhook.close(), self.pool.close(), self.changes.close()]
        if not all(ended):
            log.warning("work still runs as the service ends: its files are left open")
            return
        self.feedback.close()
        self.index.close()


async def service_of(request: Request) -> Service:
    """The service that a request belongs to."""
    service: Service = request.app.state.service
    return service


Served = Annotated[Service, Depends(service_of)]
Batch = Annotated[list[Filed], Field(min_length=1, max_length=MOST_REPORTS)]


@router.post("/api/search")
async def search(query: Query, service: Served) -> Answer:
    """The duplicate groups that a report may belong to, the best match first, and what speaks for each."""
    matches = await service.pool.run(service.search, query.to_report(), query.top_k, query.filters.to_filters())
    index, target = service.index, service.index.target  # once: another model may be taken over at any time
    return Answer(
        tracker=index.name,
        reports=len(index),
        threshold=target.suggest_from,
        target=Target(**asdict(target), statement=target.statement),
        matches=[found(match, target.suggest_from) for match in matches],
    )


@router.post("/api/reports")
async def add(reports: Annotated[Filed | Batch, Body()], service: Served) -> Added:
    """Adds or updates one report or a list of them; they are on the disk when this answers."""
    filed = [report.to_report() for report in (reports if isinstance(reports, list) else [reports])]
    return Added(reports=await service.changes.run(service.index.add, filed))


@router.get("/api/reports/{issue_id:path}", responses=MISSING)
async def get(issue_id: IssueId, service: Served) -> Report:
    """A stored report, all of it."""
    report = await service.pool.run(service.index.get, issue_id)
    if report is None:
        raise HTTPException(404, f"report {issue_id} is not in the index")
    return report


@router.delete("/api/reports/{issue_id:path}", responses=MISSING)
async def delete(issue_id: IssueId, service: Served) -> Deleted:
    """Forgets a report; what people said about it stays."""
    if not await service.changes.run(service.index.delete, issue_id):
        raise HTTPException(404, f"report {issue_id} is not in the index")
    return Deleted(deleted=issue_id)


@router.post("/api/feedback")
async def judge(judgement: Judgement, service: Served) -> Recorded:
    """Keeps what somebody says about a suggestion; the latest word counts, what was said before stays on file."""
    verdict = Verdict(
        judgement.report.to_report(), judgement.candidate, judgement.verdict, judgement.source, judgement.who
    )
    return Recorded(recorded=await service.changes.run(service.judge, verdict))


@router.delete("/api/feedback", responses=NOTHING_SAID)
async def withdraw(report: IssueId, candidate: IssueId, service: Served) -> Withdrawn:
    """Takes back what counts for two stored reports, whichever was compared with the other; it stays on file."""
    if not await service.changes.run(service.withdraw, report, candidate):
        raise HTTPException(404, f"no verdict counts for {report} and {candidate}")
    return Withdrawn(withdrawn=(report, candidate))


@router.delete("/api/links", responses=NO_LINK)
async def unlink(report: IssueId, duplicate: IssueId, service: Served) -> Unlinked:
    """Deletes all links between two reports; those of the tracker return when the index is built from it again."""
    if not await service.changes.run(service.index.unlink, report, duplicate):
        raise HTTPException(404, f"no link between {report} and {duplicate}")
    return Unlinked(unlinked=(report, duplicate))


@router.get("/api/health")
async def health(service: Served) -> Health:
    """Whether the service answers; needs no token."""
    return Health(ready=True, reports=len(service.index))


@router.get("/metrics", response_class=PlainResponse)
async def metrics(service: Served) -> PlainResponse:
    """Counts and times, for Prometheus."""
    return PlainResponse(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)
