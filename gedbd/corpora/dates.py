"""Dates of exports, the formats in which they are written, and the chronological order of reports."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from email.utils import parsedate_to_datetime
from itertools import product
from pathlib import Path

import pandas as pd

from gedbd.corpora.month_names import LANGUAGES, to_english

MAX_READ = 5_000  # dates; later ones are assumed to have the same format
NUMERIC_DAYS = (
    *("%d/%m/%Y", "%d-%m-%Y", "%d/%m/%y", "%m/%d/%Y", "%m-%d-%Y", "%m/%d/%y"),
    *("%d.%m.%Y", "%d.%m.%y", "%Y年%m月%d日"),
)
NAMED_MONTHS = (
    *("%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%d/%b/%Y", "%d-%b-%y", "%d/%b/%y"),
    *("%d.%b.%Y", "%d.%b.%y", "%d. %b %Y", "%Y. %b %d"),
)
TWELVE_HOURS = (" %I:%M %p", " %I:%M:%S %p", ", %I:%M %p", ", %I:%M:%S %p")
TIMES = ("", " %H:%M", " %H:%M:%S", ", %H:%M", ", %H:%M:%S", " %H:%M:%S %z", *TWELVE_HOURS)
NAMED_DAYS = (  # of mails, and of JavaScript
    *("%a, %d %b %Y %H:%M:%S %z", "%a, %d %b %Y %H:%M:%S", "%a %b %d %H:%M:%S %Y", "%a %b %d %H:%M:%S UTC %Y"),
    "%a %b %d %Y %H:%M:%S GMT%z",  # Wed May 13 2026 11:21:41 GMT+0000 (Coordinated Universal Time)
)
NAMED_FORMATS = tuple(day + time for day, time in product(NAMED_MONTHS, TIMES))
FORMATS = (*(day + time for day, time in product(NUMERIC_DAYS, TIMES)), *NAMED_FORMATS, *NAMED_DAYS)
# Numbers since 1970, as formats: digits in a second.
EPOCHS = {"epoch_seconds": 0, "epoch_milliseconds": 3, "epoch_microseconds": 6, "epoch_nanoseconds": 9}
FIRST_EPOCH_SECOND = 10**8  # March 1973: earlier ones have as many digits as days such as 20240131
NUMBER = re.compile(r"\d{1,19}(?:\.\d{1,9})?", re.ASCII)
ZONE_NAME = re.compile(r"\s*\([^()]*\)$|\s+(?:UTC|GMT)$")
ZONE_FORMATS = ("%Z", "UTC", "GMT", ")")
MIN_YEAR = 1970
MAX_YEAR = 2200
ISO_FORMAT = "ISO8601"  # pandas uses the same name
EXPECTED = "2024-01-31 or 2024-01-31T09:30:00+01:00"
OUTSIDE = f"dates outside the years {MIN_YEAR} to {MAX_YEAR}"
MAX_LENGTH = 80  # characters, which bounds the time that the patterns take
MAX_OFFSET = timedelta(hours=24)  # datetime accepts no larger one
EPOCH_START = datetime(MIN_YEAR, 1, 1, tzinfo=UTC)
MAX_MICROSECONDS = (datetime(MAX_YEAR + 1, 1, 1, tzinfo=UTC) - EPOCH_START) // timedelta(microseconds=1)
NO_DATE = f"not a date; expected format: {EXPECTED}"
DAY = r"(?P<year>\d{4})(?:(?P<separator>[-/.])(?P<month>\d\d?)(?:(?P=separator)(?P<day>\d\d?))?|(?P<compact>\d{4}))?"
TIME = r"(?P<hour>\d\d?)(?::?(?P<minute>\d\d)(?::?(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?)?"
ZONE = r"(?:[Zz]|UTC|GMT|(?:UTC|GMT)?(?P<sign>[+-])(?P<offset_hours>\d\d)(?::?(?P<offset_minutes>\d\d))?)"
ISO = re.compile(rf"{DAY}(?:[Tt ]\s?{TIME}\s?{ZONE}?)?", re.ASCII)
# 2024-01-31T09:30:00 with or without a fraction of a second, in a year that is in range; no leap second.
PLAIN = re.compile(
    r"(?:19[7-9]|20\d|21\d)\d-\d\d-\d\d[T ](?:[01]\d|2[0-3]):\d\d:[0-5]\d(?:\.(?:\d{3}|\d{6}))?(?: ?UTC|Z)?", re.ASCII
)
# A day whose year may be out of range and whose other parts need not be valid: 0000-00-00, +275760-09-13.
ANY_YEAR = re.compile(r"(?P<year>[+-]?\d{4,9})-\d\d-\d\d(?:[Tt ][\d:.,+\-Zz ]*)?", re.ASCII)
FULL_YEAR = re.compile(r" ([0-9]{4,9}) ")
PADDED = re.compile(r"0|\d+\D0")  # of 01/31/2024
MAX_ID_LENGTH = 200
# No white space, which separates columns in TREC files, and no control characters; also the pattern of the API.
ID_PATTERN = r"^[^\s\x00-\x20\x7f-\x9f]+$"
ID_RULE = f"an id has 1 to {MAX_ID_LENGTH} characters, without blanks and control characters"
ID = re.compile(ID_PATTERN)
MAX_SHOWN_CHARACTERS = 60  # of a value in a message


def find_format(texts: Iterable[str], others: Iterable[str] = ()) -> str:
    """Detects the format of dates.

    Args:
        texts: The dates of a column.
        others: Dates of further columns, which tell whether days or months come first where ``texts`` do not.

    Returns:
        ``ISO8601``, a name in ``EPOCHS``, or a format of ``datetime.strptime``, after a language and a colon where the
        names of months are not English; ``ISO8601`` also if no format reads all dates.

    Raises:
        ValueError: It is ambiguous whether days or months come first.
    """

    def distinct(dates: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(date.strip() for date in dates if date.strip()))[:MAX_READ]

    def reads_all(form: str, dates: Iterable[str]) -> bool:
        try:
            return all(parse_date(date, form) for date in dates)
        except ValueError:
            return False

    written = distinct(texts)
    if not written or any(reads_all(ISO_FORMAT, [text]) for text in written):
        return ISO_FORMAT
    if all(NUMBER.fullmatch(text) for text in written):
        least = min(map(float, written)) / FIRST_EPOCH_SECOND  # each unit has its own number of digits
        units = (form for form, decimals in EPOCHS.items() if least >= 10**decimals)
        return next((form for form in units if reads_all(form, written)), ISO_FORMAT)
    formats = [form for form in FORMATS if reads_all(form, written)]
    if not formats and any(map(str.isalpha, written[0])):
        named = (f"{language}:{form}" for language, form in product(LANGUAGES, NAMED_FORMATS))
        formats = [form for form in named if reads_all(form, written)]
    if not formats:
        return ISO_FORMAT
    different: dict[tuple[datetime, ...], str] = {}
    for form in formats:
        different.setdefault(tuple(parse_date(text, form) for text in written), form)
    if len(different) == 1:
        return formats[0]
    if formats[-1].endswith(TWELVE_HOURS) and not any(PADDED.match(text) for text in written):
        return formats[-1]  # 1/31/2024 9:05 AM, as US English writes: nobody else writes both without zeros
    further = distinct(others)
    fitting = [form for form in different.values() if reads_all(form, further)]
    if len(fitting) == 1:
        return fitting[0]
    first, second, *_ = different.values()
    raise ValueError(
        f"dates such as {written[0]!r} may begin with the day or with the month: set dataset.date_format="
        f"{first!r} or dataset.date_format={second!r}"
    )


class OutOfRangeError(ValueError):
    """A date outside the years ``MIN_YEAR`` to ``MAX_YEAR``."""


def parse_date(text: str, date_format: str = ISO_FORMAT) -> datetime:
    """Reads a date.

    Args:
        text: The date; surrounding blanks are ignored.
        date_format: See ``find_format``.

    Returns:
        The moment in UTC. A leap second becomes the second before it; digits below a microsecond are dropped.

    Raises:
        OutOfRangeError: The date is out of range.
        ValueError: The text is not a date.
    """
    written = text.strip()
    if len(written) > MAX_LENGTH:
        raise ValueError(NO_DATE)
    if date_format in EPOCHS:
        return _read_epoch(written, EPOCHS[date_format])
    if date_format != ISO_FORMAT:
        language, _, form = date_format.partition(":")
        if language in LANGUAGES:  # de:%d. %b %Y
            written = to_english(written, language)
        else:
            form = date_format
        if not form.endswith(ZONE_FORMATS):
            written = ZONE_NAME.sub("", written)
        return check_range(datetime.strptime(written, form))
    year = ANY_YEAR.fullmatch(written)
    if year is not None:
        check_year(int(year["year"]))
    match = ISO.fullmatch(written)
    if match is None:
        raise ValueError(NO_DATE)
    return check_range(_moment(match))


def _read_epoch(text: str, decimals: int) -> datetime:
    if NUMBER.fullmatch(text) is None:
        raise ValueError(NO_DATE)
    microseconds = int(Decimal(text).scaleb(6 - decimals))
    if not 0 < microseconds < MAX_MICROSECONDS:
        raise OutOfRangeError(OUTSIDE)
    return EPOCH_START + timedelta(microseconds=microseconds)


def parse_mail_date(text: str) -> datetime:
    """Reads a date in the format of mails and HTTP headers, such as ``Wed, 31 Jan 2024 09:30:00 +0000``.

    Raises:
        OutOfRangeError: The date is out of range.
        ValueError: The text is not a date.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(NO_DATE)
    year = FULL_YEAR.search(text)
    if year is not None:
        check_year(int(year[1]))  # parsedate_to_datetime reads 0001 as 2001
    try:
        return check_range(parsedate_to_datetime(text))
    except (TypeError, OverflowError, IndexError) as error:
        raise ValueError(NO_DATE) from error


def check_range(moment: datetime) -> datetime:
    """Converts a moment to UTC, the default time zone. Raises OutOfRangeError if it is out of range."""
    check_year(moment.year)
    utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    check_year(utc.year)
    return utc


def check_year(year: int) -> None:
    """Raises OutOfRangeError unless the year is in range."""
    if not MIN_YEAR <= year <= MAX_YEAR:
        raise OutOfRangeError(f"the year must lie between {MIN_YEAR} and {MAX_YEAR}")


def check_format(date_format: str) -> None:
    """Raises ValueError if a format is not a string, or is ``mixed``, which guesses the format of each date."""
    if not isinstance(date_format, str):  # such as null on the command line
        value = "null" if date_format is None else date_format
        raise ValueError(
            f"dataset.date_format={value} must be a format such as '%d.%m.%Y %H:%M'; leave it out for ISO 8601"
        )
    if date_format == "mixed":
        raise ValueError(
            "dataset.date_format=mixed guesses, and may take words for dates: set the exact format of the dates"
        )


def parse_dates(texts: pd.Series, date_format: str = ISO_FORMAT) -> tuple[pd.Series, pd.Series]:
    """Reads a column of dates.

    Args:
        texts: ``(N,)`` text; empty where there is no date.
        date_format: ``ISO8601``, or as in ``datetime.strptime``.

    Returns:
        ``(N,)`` dates in UTC, ``NaT`` where the text is empty or cannot be read, and ``(N,)`` bool: where the date is
        out of range.

    Raises:
        ValueError: See ``check_format``.
    """
    check_format(date_format)
    dates: list[datetime | None] = []
    outside: list[bool] = []
    for text in texts:
        date = None
        is_outside = False
        try:
            if date_format == ISO_FORMAT and PLAIN.fullmatch(text):
                date = datetime.fromisoformat(text.rstrip(" UTCZ")).replace(tzinfo=UTC)  # faster than parse_date
            elif text:
                date = parse_date(text, date_format)
        except OutOfRangeError:
            is_outside = True
        except ValueError:
            pass  # callers distinguish empty texts from unreadable ones
        dates.append(date)
        outside.append(is_outside)
    column = pd.to_datetime(pd.Series(dates, index=texts.index, dtype=object), utc=True)
    return column, pd.Series(outside, index=texts.index, dtype=bool)


def _moment(match: re.Match[str]) -> datetime:
    """The moment of a match of ``ISO``. Raises ValueError if there is no such day or time."""
    compact = match["compact"] or ""
    month = match["month"] or compact[:2] or "1"
    day = match["day"] or compact[2:] or "1"
    # A leap second, 60, becomes 59; datetime refuses other numbers above 59.
    second = 59 if match["second"] == "60" else int(match["second"] or 0)
    # A fraction "5" is 500000 microseconds.
    microsecond = int((match["fraction"] or "0").ljust(6, "0")[:6])
    time = (int(match["hour"] or 0), int(match["minute"] or 0), second, microsecond)
    offset = timedelta(hours=int(match["offset_hours"] or 0), minutes=int(match["offset_minutes"] or 0))
    if offset >= MAX_OFFSET:
        raise ValueError(NO_DATE)
    zone = timezone(-offset if match["sign"] == "-" else offset)
    return datetime(int(match["year"]), int(month), int(day), *time, tzinfo=zone)


def check_ids(ids: pd.Series, source: str, column: str | None) -> None:
    """Checks that every report has a valid id and that no id occurs twice.

    Raises:
        ValueError: An id is missing, invalid or not unique; the message names the rows.
    """
    empty = ids.index[ids == ""]
    if len(empty):
        raise ValueError(f"{source}, row {empty[0]}, column {column!r}: the report has no id; give it a unique one")
    wrong = ids[~ids.map(is_id)]
    if len(wrong):
        example = wrong.iloc[0][:MAX_SHOWN_CHARACTERS]
        raise ValueError(
            f"{source}, row {wrong.index[0]}, column {column!r}: {example!r} is not a valid id "
            f"({len(wrong):,} in total); {ID_RULE}"
        )
    repeated = ids[ids.duplicated()]
    if len(repeated):
        first, second = ids.index[ids == repeated.iloc[0]][:2]
        raise ValueError(
            f"{source}, rows {first} and {second}, column {column!r}: "
            f"the id {repeated.iloc[0]!r} occurs twice; keep only one of the two reports, or set "
            "dataset.columns.id= to a column of unique ids"
        )


def in_chronological_order(
    reports: pd.DataFrame, source: str, column: str | None, date_format: str
) -> tuple[pd.DataFrame, list[str]]:
    """Reads the dates and sorts by them; ties, and trackers without dates, are sorted by id.

    Returns:
        The reports with ``created_at`` in UTC and their old index, and warnings about dates missing or out of range.
    """
    # The order by ids comes first and the sort by date is stable, so that reports of the same second stay sorted by id.
    # ABC-9 before ABC-10: "ABC-010" has the project "ABC-" and the number "10" of 2 digits, a text of any length.
    project = [id_.rstrip("0123456789") for id_ in reports["id"]]
    number = [id_[len(before) :].lstrip("0") for id_, before in zip(reports["id"], project, strict=True)]
    keys = pd.DataFrame({"project": project, "number": number}, index=reports.index, dtype=str)
    by_id = keys.assign(digits=[len(digits) for digits in number]).sort_values(["project", "digits", "number"])
    reports = reports.loc[by_id.index]
    dates, warnings = read_dates(reports["created_at"], source, column, date_format)
    missing = dates.isna()
    if missing.all():
        warnings.append("no report has a date, so reports are ordered by id")
    elif missing.any():
        # A missing date becomes the previous date of its project, or the next one if there is none before.
        by_project = dates.groupby(by_id["project"])
        dates = dates.fillna(by_project.ffill()).fillna(by_project.bfill()).ffill().bfill()
        warnings.append(
            f"reports without a date: {missing.sum():,}, each given the date of the report with the next lower id "
            f"(first: row {missing[missing].index.min()})"
        )
    return reports.assign(created_at=dates).sort_values("created_at", kind="stable"), warnings


def read_dates(texts: pd.Series, source: str, column: str | None, date_format: str) -> tuple[pd.Series, list[str]]:
    """Reads dates in UTC, the default time zone; ``NaT`` where the text is empty.

    Returns:
        The dates, and a warning that counts those out of range, which become ``NaT``.

    Raises:
        ValueError: A date cannot be read; the message names its row and value.
    """
    texts = texts.str.strip()
    dates, outside = parse_dates(texts, date_format)
    unreadable = texts[dates.isna() & ~outside & (texts != "")].sort_index()
    if len(unreadable):
        value = unreadable.iloc[0][:MAX_SHOWN_CHARACTERS]
        raise ValueError(
            f"{source}, row {unreadable.index[0]}, column {column!r}: unreadable date {value!r} "
            f"({len(unreadable):,} in total); expected format: {date_format}, such as 2024-01-31 or "
            "2024-01-31 09:30:00 +0100 for ISO8601; other formats: dataset.date_format, such as '%d.%m.%Y %H:%M'"
        )
    if not outside.any():
        return dates, []
    first = outside[outside].index.min()
    return dates, [outside_warning(int(outside.sum()), f"{Path(source).name}, row {first}, column {column!r}")]


def outside_warning(count: int, first: str) -> str:
    """A warning that counts the dates out of range and gives the position of the first."""
    return f"{OUTSIDE}: {count:,}, treated as missing (first: {first})"


def is_id(text: str) -> bool:
    """Whether a stripped text is a valid id."""
    return len(text) <= MAX_ID_LENGTH and ID.fullmatch(text) is not None
