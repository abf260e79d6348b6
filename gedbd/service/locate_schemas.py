"""Request and response bodies of the route that finds suspect commits."""

from datetime import datetime

from pydantic import BaseModel, Field

from gedbd.service.schemas import ReportDraft
from gedbd.service.storable import storable
from gedbd.service.suspects import Suspects
from gedbd.triage.locating.hunks import MatchedHunk, MatchedLine
from gedbd.triage.locating.located import LocatedChange
from gedbd.triage.report import MAX_TOP_K

MAX_MESSAGE_LENGTH = 2_000
MAX_LINE_LENGTH = 400


class LocateRequest(ReportDraft):
    """A report whose inducing commits are searched for, among those before it if it has a date."""

    top_k: int = Field(5, ge=1, le=MAX_TOP_K)


class LineResponse(BaseModel):
    """A line of a hunk: ``sign`` is ``+``, ``-`` or a blank; ``spans`` are the places of the report's words."""

    sign: str
    number: int
    text: str
    spans: list[tuple[int, int]]


class HunkResponse(BaseModel):
    """A hunk that shares words with the report: ``count`` lines from ``start`` of the file after the change."""

    path: str
    start: int
    count: int
    section: str
    terms: list[str]
    lines: list[LineResponse]


class SuspectResponse(BaseModel):
    """A commit that may have induced the bug, and why. Authors are left out."""

    id: str
    rank: int
    score: float = Field(description="Comparable only within one answer")
    created_at: datetime
    title: str
    message: str
    explanation: list[str]
    hunks: list[HunkResponse]


class LocateResponse(BaseModel):
    """The most suspect commits, most suspect first.

    ``statement`` says how often an inducing commit was among the first on the tracker's own history. ``problem`` says
    why the index of the repository may be out of date, and is empty if it is not.
    """

    repository: str
    commit: str
    num_commits: int
    num_ranked: int
    statement: str
    problem: str
    changes: list[SuspectResponse]


def locate_response(found: Suspects, statement: str) -> LocateResponse:
    """Suspect commits as the API returns them."""
    return LocateResponse(
        repository=_clean(found.facts["repository"]),
        commit=found.facts["commit"],
        num_commits=found.facts["num_commits"],
        num_ranked=found.facts["num_ranked"],
        statement=_clean(statement),
        problem=_clean(found.problem),
        changes=[_suspect(change) for change in found.changes],
    )


def _suspect(change: LocatedChange) -> SuspectResponse:
    return SuspectResponse(
        id=change.id,
        rank=change.rank,
        score=change.score,
        created_at=change.created_at,
        title=_clean(change.title)[:MAX_LINE_LENGTH],
        message=_clean(change.message)[:MAX_MESSAGE_LENGTH],
        explanation=[_clean(reason) for reason in change.explanation],
        hunks=[_hunk(hunk) for hunk in change.hunks],
    )


def _hunk(hunk: MatchedHunk) -> HunkResponse:
    return HunkResponse(
        path=_clean(hunk.path),
        start=hunk.new_start,
        count=hunk.new_count,
        section=_clean(hunk.section)[:MAX_LINE_LENGTH],
        terms=[_clean(term) for term in hunk.terms],
        lines=[_line(line) for line in hunk.lines],
    )


def _line(line: MatchedLine) -> LineResponse:
    """A line cut to ``MAX_LINE_LENGTH``, with the places that are left."""
    spans = [(start, min(end, MAX_LINE_LENGTH)) for start, end in line.spans if start < MAX_LINE_LENGTH]
    return LineResponse(sign=line.sign, number=line.number, text=_clean(line.text)[:MAX_LINE_LENGTH], spans=spans)


def _clean(text: str) -> str:
    """A text that every JSON parser takes, of the same length."""
    return str(storable(text))
