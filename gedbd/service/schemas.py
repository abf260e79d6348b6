"""Request and response bodies of the API, with their limits."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from gedbd.corpora.bug_report import MAX_DESCRIPTION_LENGTH, MAX_TITLE_LENGTH, MAX_TOP_K, Report
from gedbd.corpora.dates import ID_PATTERN, MAX_ID_LENGTH, check_range, parse_date
from gedbd.corpora.urls import MAX_URL_LENGTH, web_url

MAX_MESSAGE_LENGTH = 2_000
MAX_LINE_LENGTH = 400
OPTIONAL = f"{ID_PATTERN}|^$"
NOT_STORABLE = re.compile("[\x00\ud800-\udfff]")  # NUL and unpaired surrogates
EXCERPT_LENGTH = 400
MAX_REPORTS = 100
MAX_SUGGESTIONS = 1_000
# Names of the two bodies of POST /api/reports, with blanks, unlike names of fields.
ONE_REPORT = "one report"
REPORT_LIST = "list of reports"
ERRORS = {
    400: "The request is malformed",
    401: "A token is required",
    408: "The request was not complete in time",
    413: "The request is too large",
    415: "The body is not JSON",
    422: "A value is invalid",
    503: "Busy, too slow, or the index is unavailable at the moment",
}


def storable(value: object) -> object:
    """Replaces NUL and unpaired surrogates of a text, which cannot be stored, by U+FFFD."""
    return NOT_STORABLE.sub("\ufffd", value) if isinstance(value, str) else value


CLEANED = BeforeValidator(storable)
Title = Annotated[str, StringConstraints(max_length=MAX_TITLE_LENGTH), CLEANED]
Description = Annotated[str, StringConstraints(max_length=MAX_DESCRIPTION_LENGTH), CLEANED]
ShortText = Annotated[str, StringConstraints(max_length=1_000), CLEANED]
FileNames = Annotated[str, StringConstraints(max_length=10_000), CLEANED]
CleanText = Annotated[str, CLEANED]
PersonName = Annotated[str, StringConstraints(max_length=200), CLEANED]


def web_address(url: str) -> str:
    """Checks that an address is http, https or empty, and not of a scheme such as ``javascript:``."""
    if url.strip() and not web_url(url):
        raise ValueError("it must be an http or https address, or empty")
    return url.strip()


Url = Annotated[str, StringConstraints(max_length=MAX_URL_LENGTH), AfterValidator(web_address), CLEANED]


def utc_date(moment: object) -> datetime:
    """Parses a date; refuses numbers, which pydantic would read as seconds since 1970."""
    if isinstance(moment, datetime):
        return check_range(moment)
    if not isinstance(moment, str):
        raise ValueError("write a date as 2024-01-31T09:30:00Z")
    return parse_date(moment)


Date = Annotated[datetime, BeforeValidator(utc_date)]
IssueId = Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_ID_LENGTH, pattern=ID_PATTERN)]
OptionalId = Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_ID_LENGTH, pattern=OPTIONAL)]


class RequestBody(BaseModel):
    """A request body, or the arguments of a tool; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


class ReportDraft(RequestBody):
    """A report with or without ``issue_id``."""

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
        """Converts the draft to a ``Report``."""
        return Report(**{name: getattr(self, name) for name in ReportDraft.model_fields})


class ReportCreate(ReportDraft):
    """A report to store."""

    issue_id: IssueId


class SearchFilters(RequestBody):
    """Limits a search by creation date and component."""

    created_from: Date | None = None
    created_before: Date | None = None
    component: ShortText | None = None


class SearchRequest(ReportDraft):
    """A report to find duplicates of."""

    top_k: int = Field(10, ge=1, le=MAX_TOP_K)
    filters: SearchFilters = SearchFilters()


class FeedbackRequest(RequestBody):
    """Feedback on a match: ``accept``, ``reject``, or ``withdraw`` to cancel earlier feedback."""

    report: ReportDraft
    candidate: IssueId
    verdict: Literal["accept", "reject", "withdraw"]
    who: PersonName = ""
    source: Literal["web", "api"] = "api"


class ReportSummary(BaseModel):
    """A stored report with an excerpt of its description; ``url`` is empty if unknown."""

    issue_id: str
    title: str
    excerpt: Annotated[str, AfterValidator(lambda text: text[:EXCERPT_LENGTH])] = Field(validation_alias="description")
    created_at: datetime | None
    resolved_at: datetime | None
    component: str
    status: str
    resolution: str
    url: str


class SentencePair(BaseModel):
    """Two similar sentences; ``shared`` is the fraction of shared words, 0 to 1."""

    new: str
    stored: str
    shared: float

    @classmethod
    def of_tuples(cls, pairs: Sequence[tuple[str, str, float]]) -> list["SentencePair"]:
        """The pairs of ``Explanation.sentences``."""
        return [cls(new=new, stored=stored, shared=shared) for new, stored, shared in pairs]


class ExplanationResponse(BaseModel):
    """Why a report matches: reasons of the score, shared rare words, equal fields and similar sentences."""

    reasons: list[str] = Field(description="Short phrases, most important first")
    terms: list[str]
    fields: dict[str, str]
    sentences: Annotated[list[SentencePair], BeforeValidator(SentencePair.of_tuples)]


class MatchResponse(BaseModel):
    """A duplicate group; ``suggested`` if its probability reaches the threshold of the answer."""

    master: ReportSummary
    best: ReportSummary
    members: list[str]
    score: float
    probability: float
    suggested: bool
    explanation: ExplanationResponse
    urls: dict[str, str] = Field(description="Known URLs of the members, by id")
    similarity: float = Field(description="Cosine of the encoder's vectors of the report and best")


class TargetResponse(BaseModel):
    """The backtest of the precision target; ``statement`` is a summary in words.

    ``status`` is ``met``, ``missed``, ``inconclusive``, ``no threshold``, ``too few duplicates`` or, without a
    backtest, ``not measured``. ``right`` is the number of right ``suggestions`` on reports created from ``first``
    to ``last``; ``precision_low`` and ``precision_high`` bound a 95% confidence interval.
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
    list_statement: str = Field(
        description="Measured precision of lists such as the first three; empty if such a list is too unlikely"
    )
    matches: list[MatchResponse]


class NamedReportResponse(BaseModel):
    """A suggested report: id, probability, state at that time, and reasons."""

    issue: CleanText
    probability: float
    state: CleanText = ""
    reasons: CleanText = ""


class SuggestionResponse(BaseModel):
    """The suggestion for a new report; ``outcome`` is ``right``, ``wrong`` or ``not yet known``."""

    issue: CleanText
    moment: CleanText = Field(description="When the report was compared, UTC")
    mode: CleanText = Field(description="shadow: only recorded; comment: posted")
    named: list[NamedReportResponse] = Field(description="The most likely first")
    is_list: bool = Field(description="Whether the suggestion is right if any named report is, not only the first")
    outcome: CleanText


class SuggestionsResponse(BaseModel):
    """The suggestions of the webhook, with counts over all new reports; ``statement`` gives the counts in words."""

    mode: str
    how_to_write: str = Field(description="In shadow mode, how to post comments")
    statement: str
    compared: int
    suggested: int
    right: int
    wrong: int
    unknown: int
    missed: int = Field(description="Reports without a suggestion that turned out to be duplicates")
    suggestions: list[SuggestionResponse]


class HealthResponse(BaseModel):
    """Whether the service is ready, its number of reports, and whether it locates commits and receives events."""

    ready: bool
    reports: int
    locates: bool
    suggests: bool


class AddResponse(BaseModel):
    """``added``, ``updated`` or ``unchanged`` for each id."""

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
    """The error in words."""

    detail: str


Responses = dict[int | str, dict[str, Any]]
ERROR_RESPONSES: Responses = {
    status: {"model": ErrorResponse, "description": description} for status, description in ERRORS.items()
}


class LocateRequest(ReportDraft):
    """A report to find the files and bug-introducing commits of, before its date if it has one."""

    top_k: int = Field(5, ge=1, le=MAX_TOP_K, description="Files")
    top_commits: int = Field(5, ge=0, le=MAX_TOP_K, description="Commits; 0 for none")


def within_line(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Clips spans to ``MAX_LINE_LENGTH``."""
    return [(start, min(end, MAX_LINE_LENGTH)) for start, end in spans if start < MAX_LINE_LENGTH]


CutLine = Annotated[str, AfterValidator(lambda text: text[:MAX_LINE_LENGTH]), CLEANED]
CutMessage = Annotated[str, AfterValidator(lambda text: text[:MAX_MESSAGE_LENGTH]), CLEANED]


class LineResponse(BaseModel):
    """A line of a hunk or place: ``sign`` is ``+``, ``-`` or a blank; ``spans`` mark words of the report."""

    sign: str
    number: int
    text: CutLine
    spans: Annotated[list[tuple[int, int]], BeforeValidator(within_line)]


class HunkResponse(BaseModel):
    """A hunk with words of the report: ``count`` lines from ``start`` of the changed file."""

    path: CleanText
    start: int = Field(validation_alias="new_start")
    count: int = Field(validation_alias="new_count")
    section: CutLine
    terms: list[CleanText]
    lines: list[LineResponse]


class PlaceCommitResponse(BaseModel):
    """The last commit of lines of a place, without its author."""

    id: str
    created_at: datetime
    title: CutLine
    num_lines: int


class PlaceResponse(BaseModel):
    """Matching lines of a file: a function, with its name in line ``header``, or other lines with ``header`` 0."""

    path: CleanText
    start: int
    end: int
    header: int
    name: CutLine
    score: float = Field(description="Comparable only within one file")
    terms: list[CleanText]
    lines: list[LineResponse]
    num_left_out: int = Field(description="Number of other lines that a stack trace names")
    is_named: bool = Field(description="Whether a stack trace names it")
    commits: list[PlaceCommitResponse]


class FileResponse(BaseModel):
    """A file that the report may be about, with reasons; the first three have places."""

    path: CleanText
    rank: int
    score: float = Field(description="Comparable only within one answer")
    probability: float
    explanation: list[CleanText]
    contributions: dict[str, float]
    places: list[PlaceResponse]


class SuspectResponse(BaseModel):
    """A commit that may have introduced the bug, with reasons, without its author."""

    id: str
    rank: int
    score: float = Field(description="Comparable only within one answer")
    created_at: datetime
    title: CutLine
    message: CutMessage
    explanation: list[CleanText]
    hunks: list[HunkResponse]


class LocateResponse(BaseModel):
    """The most likely files and the most suspect commits, in descending order.

    ``files_commit`` is the commit whose ``num_files`` source files were ranked; ``skipped_files`` counts other files by
    reason. ``statement`` says how often a bug-introducing commit was among the first on the tracker's history.
    ``problem`` says why the index of the repository may be outdated, or is empty.
    """

    repository: CleanText
    commit: str
    num_commits: int
    num_ranked: int
    statement: CleanText
    problem: CleanText
    files_commit: str
    num_files: int
    skipped_files: dict[str, int]
    files: list[FileResponse]
    changes: list[SuspectResponse]
