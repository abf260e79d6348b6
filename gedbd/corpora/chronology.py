"""Chronological order: checks of ids and dates, and the order they give."""

import re
from pathlib import Path

import pandas as pd

from gedbd.corpora.dates import OUTSIDE, parse_dates

MAX_ID_LENGTH = 200
# No white space, which separates columns in TREC files, and no control characters; also the pattern of the API.
ID_PATTERN = r"^[^\s\x00-\x20\x7f-\x9f]+$"
ID_RULE = f"an id has 1 to {MAX_ID_LENGTH} characters, without blanks and control characters"
ID = re.compile(ID_PATTERN)
MAX_SHOWN_CHARACTERS = 60  # of a value in a message


def check_ids(ids: pd.Series, source: str, column: str | None) -> None:
    """Check that every report has a valid id and that no id occurs twice.

    Args:
        ids: ``(N,)`` ids, indexed by row in the source.
        source: The file, for messages.
        column: Name of the ids' column in the file, for messages.

    Raises:
        ValueError: Names the row, or both rows.
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
    doubled = ids[ids.duplicated()]
    if len(doubled):
        first, again = ids.index[ids == doubled.iloc[0]][:2]
        raise ValueError(
            f"{source}, rows {first} and {again}, column {column!r}: "
            f"the id {doubled.iloc[0]!r} occurs twice; keep only one of the two reports"
        )


def in_chronological_order(
    reports: pd.DataFrame, source: str, column: str | None, date_format: str
) -> tuple[pd.DataFrame, list[str]]:
    """Read the dates and sort by them; ties, and a tracker without dates, follow the ids.

    Returns:
        The reports with ``created_at`` in UTC and their old index, and warnings about dates missing or out of range.
    """
    # The order by ids comes first and the sort by date is stable, so that reports of one second follow their ids.
    by_id = natural_keys(reports["id"]).sort_values(["project", "digits", "number"])
    reports = reports.loc[by_id.index]
    dates, warnings = read_dates(reports["created_at"], source, column, date_format)
    missing = dates.isna()
    if missing.all():
        warnings.append("no report has a date, so reports are ordered by id")
    elif missing.any():
        # Each takes the date before it in its project, the first ones of a project the date after them.
        by_project = dates.groupby(by_id["project"])
        dates = dates.fillna(by_project.ffill()).fillna(by_project.bfill()).ffill().bfill()
        warnings.append(
            f"reports without a date: {missing.sum():,}, each given the date of the report with the next lower id "
            f"(first: row {missing[missing].index.min()})"
        )
    return reports.assign(created_at=dates).sort_values("created_at", kind="stable"), warnings


def natural_keys(ids: pd.Series) -> pd.DataFrame:
    """Sorting keys that put ``ABC-9`` before ``ABC-10``.

    Returns:
        ``(N, 3)``: ``project``, the part before the last number; ``digits``, the length of that number; ``number``, as
        text, since an id may exceed any integer type.
    """
    # "ABC-010" has the project "ABC-" and the number "10" of 2 digits.
    project = [id_.rstrip("0123456789") for id_ in ids]
    number = [id_[len(before) :].lstrip("0") for id_, before in zip(ids, project, strict=True)]
    keys = pd.DataFrame({"project": project, "number": number}, index=ids.index, dtype=str)
    return keys.assign(digits=[len(digits) for digits in number])


def read_dates(texts: pd.Series, source: str, column: str | None, date_format: str) -> tuple[pd.Series, list[str]]:
    """Read dates as UTC, ``NaT`` where the text is empty; a date without a zone is taken as UTC.

    Returns:
        The dates, and a warning that counts those out of range, which become ``NaT``.

    Raises:
        ValueError: A date cannot be read; names its row and the value.
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
    """Count the dates that are out of range, and give the position of the first."""
    return f"{OUTSIDE}: {count:,}, treated as missing (first: {first})"


def is_id(text: str) -> bool:
    """Whether a stripped text is a valid id."""
    return len(text) <= MAX_ID_LENGTH and ID.fullmatch(text) is not None
