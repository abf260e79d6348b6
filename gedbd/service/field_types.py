"""Types of the fields of requests, with their limits."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, StringConstraints

from gedbd.corpora.dates import check_range, parse_date
from gedbd.corpora.ids import ID_PATTERN, MAX_ID_LENGTH
from gedbd.corpora.urls import MAX_URL_LENGTH, web_url
from gedbd.service.storable import storable
from gedbd.triage.report import MAX_DESCRIPTION_LENGTH, MAX_TITLE_LENGTH

OPTIONAL = f"{ID_PATTERN}|^$"


def utc_date(moment: object) -> datetime:
    """A date as in ``gedbd.corpora.dates``. A number is refused: pydantic alone would read it as seconds since 1970."""
    if isinstance(moment, datetime):
        return check_range(moment)
    if not isinstance(moment, str):
        raise ValueError("write a date as 2024-01-31T09:30:00Z")
    return parse_date(moment)


def web_address(url: str) -> str:
    """An http or https address, or an empty text; the page links no other scheme, such as ``javascript:``."""
    if url.strip() and not web_url(url):
        raise ValueError("it must be an http or https address, or empty")
    return url.strip()


CLEANED = BeforeValidator(storable)
Title = Annotated[str, StringConstraints(max_length=MAX_TITLE_LENGTH), CLEANED]
Description = Annotated[str, StringConstraints(max_length=MAX_DESCRIPTION_LENGTH), CLEANED]
ShortText = Annotated[str, StringConstraints(max_length=1_000), CLEANED]
FileNames = Annotated[str, StringConstraints(max_length=10_000), CLEANED]
PersonName = Annotated[str, StringConstraints(max_length=200), CLEANED]
Url = Annotated[str, StringConstraints(max_length=MAX_URL_LENGTH), AfterValidator(web_address), CLEANED]
Date = Annotated[datetime, BeforeValidator(utc_date)]
IssueId = Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_ID_LENGTH, pattern=ID_PATTERN)]
OptionalId = Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_ID_LENGTH, pattern=OPTIONAL)]
