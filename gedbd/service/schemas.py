"""Request and response bodies of the API, with their limits."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from gedbd.service.field_types import (
    Date,
    Description,
    FileNames,
    IssueId,
    OptionalId,
    PersonName,
    ShortText,
    Title,
    Url,
)
from gedbd.triage.report import MAX_TOP_K, Filters, Match, Report

EXCERPT_LENGTH = 400
MAX_REPORTS = 100
# The two bodies of POST /api/reports; the blanks keep them apart from names of fields.
ONE_REPORT = "one report"
REPORT_LIST = "list of reports"


class RequestBody(BaseModel):
    """A request body. Unknown fields are rejected, so that a misspelt one is noticed."""

    model_config = ConfigDict(extra="forbid")


class ReportDraft(RequestBody):
    """A report that may not be in the tracker yet: ``issue_id`` may be empty."""

    issue_id: OptionalId = ""
    title: Title = ""
    description: Description = ""
    created_at: Date | None = None
    product: ShortText = ""
    component: ShortText = ""
    version: ShortText = ""
    os: ShortText = ""
    priority: ShortText = ""
    status: ShortText = ""
    resolution: ShortText = ""
    attachments: FileNames = ""
    url: Url = ""
    resolved_at: Date | None = None

    def to_report(self) -> Report:
        """The report."""
        return Report(**{name: getattr(self, name) for name in ReportDraft.model_fields})


class ReportCreate(ReportDraft):
    """A report to store."""

    issue_id: IssueId


class SearchFilters(RequestBody):
    """Restricts a search to some of the stored reports."""

    created_from: Date | None = None
    created_before: Date | None = None
    component: ShortText | None = None

    def to_filters(self) -> Filters:
        """The filters."""
        return Filters(**self.model_dump())


class SearchRequest(ReportDraft):
    """A report whose duplicates are searched for."""

    top_k: int = Field(10, ge=1, le=MAX_TOP_K)
    filters: SearchFilters = SearchFilters()


class FeedbackRequest(RequestBody):
    """Feedback on one match: ``accept``, ``reject``, or ``withdraw`` to take earlier feedback back."""

    report: ReportDraft
    candidate: IssueId
    verdict: Literal["accept", "reject", "withdraw"]
    who: PersonName = ""
    source: Literal["web", "api"] = "api"


class ReportSummary(BaseModel):
    """A stored report with the beginning of its description; ``url`` is empty if it is unknown."""

    issue_id: str
    title: str
    excerpt: str
    created_at: datetime | None
    resolved_at: datetime | None
    component: str
    status: str
    resolution: str
    url: str


class SentencePair(BaseModel):
    """Two similar sentences; ``shared`` is the share of their words that both have, 0 to 1."""

    new: str
    stored: str
    shared: float


class ExplanationResponse(BaseModel):
    """Why a report matches: what added most to its score, rare words in both, equal fields, similar sentences."""

    reasons: list[str] = Field(description="Short phrases, most important first")
    terms: list[str]
    fields: dict[str, str]
    sentences: list[SentencePair]


class MatchResponse(BaseModel):
    """A duplicate group; ``suggested`` if its probability reaches the threshold of the answer."""

    master: ReportSummary
    best: ReportSummary
    members: list[str]
    score: float
    probability: float
    suggested: bool
    explanation: ExplanationResponse
    urls: dict[str, str] = Field(description="URLs of the members that have one, by id")


class TargetResponse(BaseModel):
    """What the backtest measured for the precision target of the index; ``statement`` says the same in words.

    ``status`` is ``met``, ``missed``, ``inconclusive``, ``no threshold``, ``too few duplicates`` or, without a
    backtest, ``not measured``. Of ``suggestions`` on reports created from ``first`` to ``last``, ``right`` were
    right; ``precision_low`` and ``precision_high`` end a 95% interval.
    """

    target_precision: float
    threshold: float | None
    status: str
    suggestions: int
    right: int
    precision: float | None
    precision_low: float | None
    precision_high: float | None
    first: str | None
    last: str | None
    statement: str


class SearchResponse(BaseModel):
    """The matches, the best first. ``threshold`` is null unless the backtest met the precision target."""

    tracker: str
    reports: int
    threshold: float | None
    target: TargetResponse
    matches: list[MatchResponse]


class HealthResponse(BaseModel):
    """Whether the service answers, how many reports it searches, and whether it finds suspect commits."""

    ready: bool
    reports: int
    locates: bool


class AddResponse(BaseModel):
    """For each id ``added``, ``updated`` or ``unchanged``."""

    reports: dict[str, str]


class DeleteResponse(BaseModel):
    """The id of the deleted report."""

    deleted: str


class FeedbackResponse(BaseModel):
    """Whether the feedback was recorded; false if it repeats the latest feedback on the same pair."""

    recorded: bool


class WithdrawResponse(BaseModel):
    """The two reports whose feedback was withdrawn."""

    withdrawn: tuple[str, str]


class UnlinkResponse(BaseModel):
    """The two reports that are no longer linked."""

    unlinked: tuple[str, str]


class ErrorResponse(BaseModel):
    """What went wrong, in words."""

    detail: str


def summarise_report(report: Report) -> ReportSummary:
    """A stored report, abridged for a list."""
    kept = {name: getattr(report, name) for name in ReportSummary.model_fields if name != "excerpt"}
    return ReportSummary(excerpt=report.description[:EXCERPT_LENGTH], **kept)


def match_response(match: Match, threshold: float | None) -> MatchResponse:
    """A match as the API returns it."""
    explanation = match.explanation
    pairs = [SentencePair(new=new, stored=stored, shared=shared) for new, stored, shared in explanation.sentences]
    shown = ExplanationResponse(
        reasons=list(explanation.reasons), terms=list(explanation.terms), fields=explanation.fields, sentences=pairs
    )
    return MatchResponse(
        master=summarise_report(match.master),
        best=summarise_report(match.best),
        members=list(match.members),
        score=match.score,
        probability=match.probability,
        suggested=threshold is not None and match.probability >= threshold,
        explanation=shown,
        urls=match.urls,
    )
