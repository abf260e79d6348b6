"""A report on its own, as it comes in from a form, a webhook or a row of a corpus, and what search answers."""

import hashlib
import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pandas as pd

from gedbd.corpora.dates import EXPECTED, OutOfRangeError, check_range, parse_date
from gedbd.corpora.ids import ID_RULE, is_id
from gedbd.corpora.readers.bug_reports import BUG_FIELDS
from gedbd.corpora.urls import web_url

FIELDS = tuple("issue_id" if name == "id" else name for name in BUG_FIELDS)  # of a report, in the service and the index
LONGEST_TITLE = 1_000
LONGEST_TEXT = 200_000
LONGEST_SHOWN = 60  # characters of a value in a message
MOST_GROUPS = 50


@dataclass(frozen=True)
class Report:
    """One report; the fields are those of a corpus, empty where the tracker gives none.

    Halves of characters (lone surrogates), which JSON can bring and no file can hold, become question marks.

    Attributes:
        issue_id: Its id in the tracker, see ``gedbd.corpora.ids``, without blanks around it; empty if it has none yet,
            because somebody is still writing it.
        created_at: When it was filed, UTC; None if nobody says, see ``Index.search`` and ``Index.add``.
        url: Address of its page, http or https; empty if it is not known, see ``Index.add``.
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

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, str) and not value.isascii():
                object.__setattr__(self, name, whole_characters(value))
        object.__setattr__(self, "issue_id", self.issue_id.strip())

    @property
    def content_hash(self) -> str:
        """A hash of all its fields but ``url``, by which a report that must be read again is told from a stored one."""
        filed = self.created_at.isoformat() if self.created_at else ""
        names = [name for name in FIELDS if name != "url"]
        text = json.dumps([filed if name == "created_at" else getattr(self, name) for name in names])
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Filters:
    """Which stored reports may be found.

    Attributes:
        created_from: Filed at this moment or later, UTC.
        created_before: Filed before this moment, UTC.
        component: Of this component, upper and lower case being one.

    Raises:
        ValueError: If a date is out of range.
    """

    created_from: datetime | None = None
    created_before: datetime | None = None
    component: str | None = None

    def __post_init__(self) -> None:
        for name in ("created_from", "created_before"):
            check_moment(getattr(self, name), name)


@dataclass(frozen=True)
class Why:
    """What speaks for a match.

    Attributes:
        terms: Words that both reports have, the rarest in the tracker first.
        fields: Fields that agree, name to value.
        sentences: Pairs of sentences, of the new report and of the stored one, and how much of their words they share
            (0 to 1, rare words counting more), the closest first.
    """

    terms: tuple[str, ...]
    fields: dict[str, str]
    sentences: tuple[tuple[str, str, float], ...]


@dataclass(frozen=True)
class Match:
    """A duplicate group that the new report may belong to.

    Attributes:
        master: The oldest report of the group; the only one if nobody has found a duplicate of it.
        best: The report of the group that is most alike; may be the master.
        members: Ids of all reports of the group, the oldest first.
        score: The learnt sum of scores; comparable within one search only.
        probability: That the new report belongs to this group, calibrated on the tracker's own history.
        why: What speaks for it.
        urls: Addresses of the members that have one, by id.
    """

    master: Report
    best: Report
    members: tuple[str, ...]
    score: float
    probability: float
    why: Why
    urls: dict[str, str] = field(default_factory=dict)


def check_report(report: Report) -> None:
    """Raises ValueError if a report has no text, or too much, or if its id, date or address cannot be one."""
    if not (report.title.strip() or report.description.strip()):
        raise ValueError("the report has neither title nor description: there is nothing to search for")
    for name, text, most in (
        ("title", report.title, LONGEST_TITLE),
        ("description", report.description, LONGEST_TEXT),
    ):
        if len(text) > most:
            raise ValueError(f"the {name} has {len(text):,} characters, the most are {most:,}: shorten it")
    if report.issue_id and not is_id(report.issue_id):
        raise ValueError(f"issue_id={report.issue_id[:LONGEST_SHOWN]!r}: {ID_RULE}")
    check_moment(report.created_at, "created_at")
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
    """Raises ValueError if so many groups cannot be asked for."""
    if not isinstance(top_k, int) or not 1 <= top_k <= MOST_GROUPS:
        raise ValueError(f"top_k={top_k} must be a whole number between 1 and {MOST_GROUPS}")


def whole_characters(text: str) -> str:
    """A text with question marks for lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")


def read_moment(text: str | None, name: str) -> datetime | None:
    """A date as in ``gedbd.corpora.dates``; None for none.

    Raises:
        ValueError: If it is no date, or out of range.
    """
    if text is None:
        return None
    shown = f"{name}={str(text)[:LONGEST_SHOWN]}"
    try:
        return parse_date(str(text))
    except OutOfRangeError as error:
        raise ValueError(f"{shown}: {error}") from error
    except ValueError as error:
        raise ValueError(f"{shown} is no date: expected is {EXPECTED}") from error


def as_table(reports: list[Report]) -> pd.DataFrame:
    """Reports as a table of documents, with the columns of ``BUG_FIELDS``; ``created_at`` is UTC, NaT if unknown."""
    table = pd.DataFrame([[getattr(report, name) for name in FIELDS] for report in reports], columns=list(BUG_FIELDS))
    return table.assign(created_at=pd.to_datetime(table["created_at"], utc=True))


def of_row(row: Any) -> Report:
    """A row of a corpus, as ``itertuples`` gives it, as a report."""
    filed = row.created_at
    values = {name: getattr(row, name) for name in BUG_FIELDS if name not in ("id", "created_at")}
    return Report(issue_id=row.id, created_at=None if pd.isna(filed) else filed.to_pydatetime(), **values)
