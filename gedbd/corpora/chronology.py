"""Filing order: report ids and dates."""

from pathlib import Path

import pandas as pd

from gedbd.corpora.dates import OUTSIDE, parse_dates
from gedbd.corpora.ids import ID_RULE, is_id

LONGEST_SHOWN = 60  # characters of a value in a message


def check_ids(ids: pd.Series, source: str, column: str | None) -> None:
    """Refuse a report without an id, what is no id, and an id that occurs twice.

    Args:
        ids: ``(N,)`` ids, indexed by row in the source.
        source: The file, for messages.
        column: Name of the ids' column in the file, for messages.

    Raises:
        ValueError: Names the row, or both rows.
    """
    empty = ids.index[ids == ""]
    if len(empty):
        raise ValueError(f"{source}, row {empty[0]}, column {column!r}: the report has no id; give it one of its own")
    wrong = ids[~ids.map(is_id)]
    if len(wrong):
        raise ValueError(
            f"{source}, row {wrong.index[0]}, column {column!r}: {wrong.iloc[0][:LONGEST_SHOWN]!r} is no id (in all: "
            f"{len(wrong):,}); {ID_RULE}"
        )
    doubled = ids[ids.duplicated()]
    if len(doubled):
        first, again = ids.index[ids == doubled.iloc[0]][:2]
        raise ValueError(
            f"{source}, rows {first} and {again}, column {column!r}: "
            f"the id {doubled.iloc[0]!r} occurs twice; keep one of the two reports"
        )


def in_chronological_order(
    reports: pd.DataFrame, source: str, column: str | None, date_format: str
) -> tuple[pd.DataFrame, list[str]]:
    """Read the dates and sort by them; ties, and a tracker without dates, follow the ids.

    Returns:
        The reports, ``created_at`` in UTC and their index untouched, and notices about dates missing or out of range.
    """
    by_id = natural_keys(reports["id"]).sort_values(["project", "digits", "number"])
    reports = reports.loc[by_id.index]
    dates, notices = read_dates(reports["created_at"], source, column, date_format)
    missing = dates.isna()
    if missing.all():
        notices.append("no report has a date: they are taken to be filed in the order of their ids")
    elif missing.any():
        dates = fill_dates(dates, by_id["project"])
        notices.append(
            f"reports without a date: {missing.sum():,}, each given the date of the report with the next lower id "
            f"(first: row {missing[missing].index.min()})"
        )
    return reports.assign(created_at=dates).sort_values("created_at", kind="stable"), notices


def natural_keys(ids: pd.Series) -> pd.DataFrame:
    """Sorting keys that put ``ABC-9`` before ``ABC-10``.

    Returns:
        ``(N, 3)``: ``project``, all before the last number; ``digits``, how long that number is; ``number``, as text,
        so that no id is too long.
    """
    project = [issue_id.rstrip("0123456789") for issue_id in ids]
    number = [issue_id[len(before) :].lstrip("0") for issue_id, before in zip(ids, project, strict=True)]
    keys = pd.DataFrame({"project": project, "number": number}, index=ids.index, dtype=str)
    return keys.assign(digits=[len(digits) for digits in number])


def read_dates(texts: pd.Series, source: str, column: str | None, date_format: str) -> tuple[pd.Series, list[str]]:
    """Read dates as UTC, ``NaT`` where the text is empty; a date without a zone is taken as UTC.

    Returns:
        The dates, and a notice that counts those out of range, which are no dates.

    Raises:
        ValueError: A date cannot be read; names its row and the value.
    """
    texts = texts.str.strip()
    dates, outside = parse_dates(texts, date_format)
    unreadable = texts[dates.isna() & ~outside & (texts != "")].sort_index()
    if len(unreadable):
        value = unreadable.iloc[0][:LONGEST_SHOWN]
        raise ValueError(
            f"{source}, row {unreadable.index[0]}, column {column!r}: unreadable date {value!r} "
            f"(unreadable in all: {len(unreadable):,}); expected is {date_format}, such as 2024-01-31 or "
            "2024-01-31 09:30:00 +0100 for ISO8601, else set dataset.date_format, such as '%d.%m.%Y %H:%M'"
        )
    if not outside.any():
        return dates, []
    first = outside[outside].index.min()
    return dates, [outside_notice(int(outside.sum()), f"{Path(source).name}, row {first}, column {column!r}")]


def outside_notice(count: int, first: str) -> str:
    """Say how many dates are out of range, and where the first one stands."""
    return f"{OUTSIDE}: {count:,}, taken as no date (first: {first})"


def fill_dates(dates: pd.Series, project: pd.Series) -> pd.Series:
    """Give each missing date the date before it in id order, within its project as far as that goes.

    Args:
        dates: ``(N,)`` in id order.
        project: ``(N,)`` the part of the id before the number.
    """
    by_project = dates.groupby(project)
    dates = dates.fillna(by_project.ffill()).fillna(by_project.bfill())
    return dates.ffill().bfill()
