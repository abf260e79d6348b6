"""Bug reports, their states, and filters and matches of a search."""

import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal

import numpy as np
import pandas as pd

from gedbd.corpora.dates import EXPECTED, ID_RULE, OutOfRangeError, check_range, is_id, parse_date
from gedbd.corpora.readers.bug_reports import BUG_FIELDS, RESOLVED_AT
from gedbd.corpora.readers.duplicate_cells import says_duplicate
from gedbd.corpora.urls import web_url
from gedbd.io.console import printable_line

# Fields of a report in the service and in the index.
FIELDS = (*("issue_id" if name == "id" else name for name in BUG_FIELDS), RESOLVED_AT)
COLUMNS = pd.Index([*BUG_FIELDS, RESOLVED_AT], dtype=object)  # of a table of reports
DATES = ("created_at", RESOLVED_AT)  # the fields that are dates; all others are texts
NOT_ENCODED = ("url", RESOLVED_AT)
MAX_TITLE_LENGTH = 1_000
MAX_DESCRIPTION_LENGTH = 200_000
MAX_QUOTED_LENGTH = 60  # of a value in an error message
MAX_TOP_K = 50
# Resolutions of trackers, in lower case; all others close a report without a fix.
FIXED = {"fixed", "done", "completed", "implemented", "resolved"}
UNRESOLVED = {"", "---", "none", "unresolved"}
CLOSED_STATUSES = {"closed", "resolved", "verified", "done"}
# Such reports may keep the date of an earlier resolution.
REOPENED = {"reopened"}

State = Literal["open", "fixed", "closed", "unknown"]

MAX_RESOLUTION = 40  # characters of a resolution in a phrase


@dataclass(frozen=True)
class Report:
    """A bug report; fields that the tracker does not provide are empty.

    Unpaired surrogates, which JSON allows and files do not, become question marks.

    Attributes:
        issue_id: Id in the tracker without surrounding blanks; empty for a report that is not in the tracker yet.
        created_at: When it was created, UTC; None if unknown.
        url: Address of its page, http or https; empty if unknown.
        resolved_at: When it was last resolved or closed, UTC; None if open or unknown.
    """

    title: str = ""
    description: str = ""
    issue_id: str = ""
    created_at: datetime | None = None
    product: str = ""
    component: str = ""
    version: str = ""
    os: str = ""
    priority: str = ""
    status: str = ""
    resolution: str = ""
    attachments: str = ""
    url: str = ""
    resolved_at: datetime | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, str) and not value.isascii():
                # A frozen dataclass does not allow assignment.
                object.__setattr__(self, name, without_surrogates(value))
        object.__setattr__(self, "issue_id", self.issue_id.strip())

    @property
    def content_hash(self) -> str:
        """A hash of all fields except ``NOT_ENCODED``, which changes when a stored report must be encoded again."""
        values = {name: getattr(self, name) for name in FIELDS if name not in NOT_ENCODED}
        values["created_at"] = self.created_at.isoformat() if self.created_at else ""
        text = json.dumps(list(values.values()))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


FIELD_NAMES = tuple(column.name for column in fields(Report))  # as in JSON


@dataclass(frozen=True)
class Filters:
    """Filters of a search.

    Raises:
        ValueError: If a date is out of range.
    """

    created_from: datetime | None = None  # created at this moment or later, UTC
    created_before: datetime | None = None  # created before this moment, UTC
    component: str | None = None  # a component of the report, case-insensitive

    @classmethod
    def of_texts(cls, created_from: str | None, created_before: str | None, component: object) -> "Filters":
        """Creates filters from the options of a command."""
        return cls(
            created_from=read_moment(created_from, "created_from"),
            created_before=read_moment(created_before, "created_before"),
            component=None if component is None else str(component),
        )

    def __post_init__(self) -> None:
        for name in ("created_from", "created_before"):
            check_moment(getattr(self, name), name)


@dataclass(frozen=True)
class Explanation:
    """Why a report matches."""

    terms: tuple[str, ...]  # shared words, the rarest in the tracker first
    fields: dict[str, str]  # equal fields, name to value
    # pairs of a sentence of the new and of the stored report, with the fraction of shared words (0 to 1, rare words
    # count more), the most similar first
    sentences: tuple[tuple[str, str, float], ...]
    # short phrases for the largest contributions to the ranker's score, in descending order
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Match:
    """A duplicate group that the new report may belong to.

    Attributes:
        master: The oldest report of the group.
        best: The most similar report of the group; may be the master.
        members: Ids of all reports of the group, the oldest first.
        score: The ranker's score; comparable within one search only.
        probability: Probability that the new report belongs to this group, calibrated on the tracker's history or,
            without a backtest, on other trackers.
        explanation: Why it matches.
        urls: Known addresses of the members, by id.
        similarity: Cosine similarity of the embeddings of the new report and ``best``.
    """

    master: Report
    best: Report
    members: tuple[str, ...]
    score: float
    probability: float
    explanation: Explanation
    urls: dict[str, str] = field(default_factory=dict)
    similarity: float = 0.0


def plain_component(name: str) -> str:
    """Normalises the case and blanks of a component."""
    return name.strip().lower()


def has_component(value: str, name: str) -> bool:
    """Whether the components of a report, such as "ui, net", contain a name."""
    # A name may contain a comma, so the value is not split.
    return f", {plain_component(name)}, " in f", {plain_component(value)}, "


def check_report(report: Report) -> None:
    """Raises ValueError if the text of a report is empty or too long, or its id, date or address is invalid."""
    if not (report.title.strip() or report.description.strip()):
        raise ValueError("the report has neither a title nor a description, so there is nothing to search for")
    for name, text, max_length in (
        ("title", report.title, MAX_TITLE_LENGTH),
        ("description", report.description, MAX_DESCRIPTION_LENGTH),
    ):
        if len(text) > max_length:
            raise ValueError(f"the {name} has {len(text):,} characters, more than {max_length:,}: shorten it")
    if report.issue_id and not is_id(report.issue_id):
        raise ValueError(f"issue_id={report.issue_id[:MAX_QUOTED_LENGTH]!r}: {ID_RULE}")
    for name in DATES:
        check_moment(getattr(report, name), name)
    if report.url and not web_url(report.url):
        raise ValueError(f"url={report.url[:200]} is not an http or https address: correct it, or leave it empty")


def check_moment(moment: datetime | None, name: str) -> None:
    """Raises ValueError if a date is out of range."""
    try:
        if moment is not None:
            check_range(moment)
    except OutOfRangeError as error:
        raise ValueError(f"{name}={moment:%Y-%m-%d}: {error}") from error


def check_top_k(top_k: object) -> None:
    """Raises ValueError unless ``top_k`` is an integer from 1 to ``MAX_TOP_K``."""
    if not isinstance(top_k, int) or not 1 <= top_k <= MAX_TOP_K:
        raise ValueError(f"top_k={top_k} must be a whole number between 1 and {MAX_TOP_K}")


def without_surrogates(text: str) -> str:
    """Replaces unpaired surrogates by question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def read_moment(text: str | None, name: str) -> datetime | None:
    """Parses a date; None stays None. Raises ValueError if it is invalid or out of range."""
    if text is None:
        return None
    option = f"{name}={str(text)[:MAX_QUOTED_LENGTH]}"
    try:
        return parse_date(str(text))
    except OutOfRangeError as error:
        raise ValueError(f"{option}: {error}") from error
    except ValueError as error:
        raise ValueError(f"{option} is not a date: write {EXPECTED}") from error


def report_from_json(data: Any) -> Report:
    """Converts a JSON object to a report. Raises ValueError for unknown fields and invalid values."""
    if not isinstance(data, dict):
        raise ValueError("expected an object with title and description")
    unknown = [name for name in data if name not in FIELD_NAMES]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not a field of a report: choose from {', '.join(FIELD_NAMES)}")
    invalid = [name for name, value in data.items() if not isinstance(value, str | int | float | None)]
    if invalid:
        raise ValueError(f"{invalid[0]} must be a string")
    values: dict[str, Any] = {name: str(value) for name, value in data.items() if value is not None}
    values |= {name: read_moment(data.get(name), name) for name in DATES}
    report = Report(**values)
    check_report(report)
    return report


def as_table(reports: list[Report]) -> pd.DataFrame:
    """Converts reports to a table with the columns ``BUG_FIELDS`` and ``resolved_at``; dates are UTC or NaT."""
    rows = [[getattr(report, name) for name in FIELDS] for report in reports]
    # Texts stay Python strings: a conversion would take a millisecond of each search.
    cells = np.array(rows, dtype=object).reshape(len(reports), len(FIELDS))
    table = pd.DataFrame(cells, columns=COLUMNS, dtype=object)
    moments = pd.to_datetime([getattr(report, name) for name in DATES for report in reports], utc=True).array
    for number, name in enumerate(DATES):
        table.isetitem(FIELDS.index(name), moments[number * len(reports) : (number + 1) * len(reports)])
    return table


def report_from_row(row: Any) -> Report:
    """Converts a row of ``itertuples`` of a corpus, in which ``resolved_at`` may be missing, to a report."""
    values = {name: getattr(row, name) for name in BUG_FIELDS if name != "id"}
    for name in DATES:
        moment = getattr(row, name, pd.NaT)
        values[name] = None if pd.isna(moment) else moment.to_pydatetime()
    return Report(issue_id=row.id, **values)


def state_of(report: Report) -> State:
    """The state of a report, by its resolution, date of resolution and status."""
    resolution = report.resolution.strip().lower()
    status = report.status.strip().lower()
    if resolution in FIXED:
        return "fixed"
    if resolution in UNRESOLVED and status in REOPENED:
        return "open"
    if resolution not in UNRESOLVED or report.resolved_at or status in CLOSED_STATUSES:
        return "closed"
    return "open" if status else "unknown"


def state_phrase(report: Report) -> str:
    """The state in words, such as "closed as not planned on 2024-03-19"; empty if unknown."""
    state = state_of(report)
    if state == "unknown":
        return ""
    resolution = printable_line(report.resolution.replace("_", " ")).lower()
    reason = f" as {resolution[:MAX_RESOLUTION]}" if state == "closed" and resolution not in UNRESOLVED else ""
    day = f" on {report.resolved_at:%Y-%m-%d}" if state != "open" and report.resolved_at else ""
    return f"{state}{reason}{day}"


def is_closed_as_duplicate(report: Report) -> bool:
    """Whether a report is closed as a duplicate of another one."""
    return state_of(report) == "closed" and says_duplicate(report.resolution)


def original_of(group: Iterable[Report], called_duplicates: Collection[str] = ()) -> Report | None:
    """The original of a group: its oldest report that is not itself a duplicate.

    Args:
        group: The reports of the group, the oldest first.
        called_duplicates: Ids of reports that comments call duplicates of others; ignored if they leave no report.

    Returns:
        The report; None if all are closed as duplicates.
    """
    candidates = [report for report in group if not is_closed_as_duplicate(report)]
    originals = [report for report in candidates if report.issue_id not in called_duplicates]
    return next(iter(originals or candidates), None)
