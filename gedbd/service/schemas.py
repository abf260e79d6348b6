"""What may be sent to the service, with its bounds, and what it answers."""

import re
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from gedbd.corpora.dates import check_range, parse_date
from gedbd.corpora.ids import ID_PATTERN, MAX_ID_LENGTH
from gedbd.corpora.urls import MAX_URL_LENGTH, web_url
from gedbd.triage.report import LONGEST_TEXT, LONGEST_TITLE, Filters, Match, Report

UNWRITABLE = re.compile("[\x00\ud800-\udfff]")
EXCERPT = 400
MOST_REPORTS = 100
MOST_MATCHES = 50


def writable(value: object) -> object:
    """NUL characters and lone surrogates, which no store takes, become U+FFFD."""
    return UNWRITABLE.sub("\ufffd", value) if isinstance(value, str) else value


def in_utc(moment: object) -> datetime:
    """A date as in ``gedbd.corpora.dates``; a number of seconds, which pydantic alone would take, is none."""
    if isinstance(moment, datetime):
        return check_range(moment)
    if not isinstance(moment, str):
        raise ValueError("a date is written as 2024-01-31T09:30:00Z")
    return parse_date(moment)


def web_address(url: str) -> str:
    """An address of http or https; nothing else is ever shown as a link."""
    if url.strip() and not web_url(url):
        raise ValueError("it must be an http or https address, or empty")
    return url.strip()


CLEAN = BeforeValidator(writable)
Title = Annotated[str, StringConstraints(max_length=LONGEST_TITLE), CLEAN]
Description = Annotated[str, StringConstraints(max_length=LONGEST_TEXT), CLEAN]
Word = Annotated[str, StringConstraints(max_length=1_000), CLEAN]
Names = Annotated[str, StringConstraints(max_length=10_000), CLEAN]
Who = Annotated[str, StringConstraints(max_length=200), CLEAN]
Url = Annotated[str, StringConstraints(max_length=MAX_URL_LENGTH), AfterValidator(web_address), CLEAN]
Moment = Annotated[datetime, BeforeValidator(in_utc)]
IssueId = Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_ID_LENGTH, pattern=ID_PATTERN)]
MaybeId = Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_ID_LENGTH, pattern=f"{ID_PATTERN}|^$")]


class Message(BaseModel):
    """What is sent; a field that is not known is refused."""

    model_config = ConfigDict(extra="forbid")


class Draft(Message):
    """A report; ``issue_id`` is empty while somebody is still writing it."""

    issue_id: MaybeId = ""
    title: Title = ""
    description: Description = ""
    created_at: Moment | None = None
    product: Word = ""
    component: Word = ""
    version: Word = ""
    os: Word = ""
    priority: Word = ""
    status: Word = ""
    resolution: Word = ""
    attachments: Names = ""
    url: Url = ""

    def to_report(self) -> Report:
        """As the index knows it."""
        return Report(**{name: getattr(self, name) for name in Draft.model_fields})


class Filed(Draft):
    """A report that the tracker has."""

    issue_id: IssueId


class Limits(Message):
    """Which stored reports may be found."""

    created_from: Moment | None = None
    created_before: Moment | None = None
    component: Word | None = None

    def to_filters(self) -> Filters:
        """As the index knows them."""
        return Filters(**self.model_dump())


class Query(Draft):
    """What is searched for."""

    top_k: int = Field(10, ge=1, le=MOST_MATCHES)
    filters: Limits = Limits()


class Judgement(Message):
    """What somebody says about one suggestion; "withdraw" takes it back."""

    report: Draft
    candidate: IssueId
    verdict: Literal["accept", "reject", "withdraw"]
    who: Who = ""
    source: Literal["web", "api"] = "api"


class Brief(BaseModel):
    """A stored report with the first lines of its description; ``url`` is empty where its page is not known."""

    issue_id: str
    title: str
    excerpt: str
    created_at: datetime | None
    component: str
    status: str
    resolution: str
    url: str


class Sentences(BaseModel):
    """Two sentences that are close; ``shared`` says how much of their words, 0 to 1."""

    new: str
    stored: str
    shared: float


class Because(BaseModel):
    """What speaks for a match."""

    terms: list[str]
    fields: dict[str, str]
    sentences: list[Sentences]


class Found(BaseModel):
    """A duplicate group; ``sure`` if its probability reaches the threshold of the answer."""

    master: Brief
    best: Brief
    members: list[str]
    score: float
    probability: float
    sure: bool
    why: Because
    urls: dict[str, str] = Field(description="Addresses of the members that have one, by id")


class Target(BaseModel):
    """What the backtest measured for the precision target of the index; ``statement`` is the same in words.

    ``verdict`` is ``met``, ``missed``, ``inconclusive`` or ``no threshold``. Of ``suggestions`` on reports filed from
    ``first`` to ``last``, ``right`` were right; ``precision_low`` and ``precision_high`` end a 95% interval.
    """

    target_precision: float
    threshold: float | None
    verdict: str
    suggestions: int
    right: int
    precision: float | None
    precision_low: float | None
    precision_high: float | None
    first: str | None
    last: str | None
    statement: str


class Answer(BaseModel):
    """What a search found. Unless the backtest met the precision target, ``threshold`` is null and no match is sure."""

    tracker: str
    reports: int
    threshold: float | None
    target: Target
    matches: list[Found]


class Health(BaseModel):
    """Whether the service answers, and over how many reports."""

    ready: bool
    reports: int


class Added(BaseModel):
    """By id: added, updated or unchanged."""

    reports: dict[str, str]


class Deleted(BaseModel):
    """The id of the report that is gone."""

    deleted: str


class Recorded(BaseModel):
    """Whether the verdict is new; if not, the same was said before."""

    recorded: bool


class Withdrawn(BaseModel):
    """The two reports about which nothing counts any more."""

    withdrawn: tuple[str, str]


class Unlinked(BaseModel):
    """The two reports between which there is no link any more."""

    unlinked: tuple[str, str]


class Problem(BaseModel):
    """What went wrong, in words."""

    detail: str


def brief(report: Report) -> Brief:
    """A stored report as it stands in a list."""
    kept = {name: getattr(report, name) for name in Brief.model_fields if name != "excerpt"}
    return Brief(excerpt=report.description[:EXCERPT], **kept)


def found(match: Match, threshold: float | None) -> Found:
    """A match as it is answered."""
    sentences = [Sentences(new=new, stored=stored, shared=shared) for new, stored, shared in match.why.sentences]
    return Found(
        master=brief(match.master),
        best=brief(match.best),
        members=list(match.members),
        score=match.score,
        probability=match.probability,
        sure=threshold is not None and match.probability >= threshold,
        why=Because(terms=list(match.why.terms), fields=match.why.fields, sentences=sentences),
        urls=match.urls,
    )
