"""Read the duplicate links of ``PostLinks.xml``, and when each was made."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from gedbd.corpora.chronology import read_dates
from gedbd.corpora.readers.stackexchange.xml_rows import Attributes

DUPLICATE = "3"
REFERENCE = "1"
SOURCE = "post link"
# When the site introduced the table of links, it made those of all questions closed before, within seconds.
BULK_DATE = "2013-02-18T03:03:3"
CLOSED = "10"  # PostHistoryTypeId
ENDS = ("id", "duplicate_id")

History = Callable[[], Iterable[Attributes] | None]


def read_links(rows: Iterable[Attributes], path: Path, questions: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Collect the duplicate links between questions of the file.

    Args:
        rows: The attributes of each row of ``PostLinks.xml``.
        path: The file, for messages.
        questions: See ``Posts``.

    Returns:
        Texts ``id`` (the duplicate), ``duplicate_id`` (its original) and ``made_at``, indexed by row of the file,
        counted from 1; and warnings about other and dropped links.

    Raises:
        ValueError: There are links, and none has an end among the questions.
    """
    kinds: Counter[str] = Counter()
    found: dict[int, tuple[str, str, str]] = {}
    for number, attributes in enumerate(rows, start=1):
        kind = attributes.get("LinkTypeId", "")
        kinds[kind] += 1
        if kind == DUPLICATE:
            ends = (attributes.get("PostId", ""), attributes.get("RelatedPostId", ""))
            found[number] = (*ends, attributes.get("CreationDate", ""))
    links = pd.DataFrame.from_dict(found, orient="index", columns=[*ENDS, "made_at"], dtype=str)
    both, end_warnings = _with_both_ends(links, path, questions["id"])
    return both, (*_kind_warnings(kinds), *end_warnings)


def _with_both_ends(links: pd.DataFrame, path: Path, ids: pd.Series) -> tuple[pd.DataFrame, list[str]]:
    """The links between two questions of the file, each once."""
    known = frozenset(ids)
    is_question = pd.DataFrame(
        {end: [id_ in known for id_ in links[end]] for end in ENDS}, index=links.index, dtype=bool
    )
    if len(links) and not is_question.to_numpy().any():
        raise ValueError(
            f"{path}: none of its {len(links):,} duplicate links refers to a question in Posts.xml; it belongs "
            "to another site"
        )
    both = links[is_question.all(axis=1)]
    dropped = len(links) - len(both)
    once = both.drop_duplicates(list(ENDS))
    again = len(both) - len(once)
    warnings = []
    if dropped:
        warnings.append(
            f"duplicate links to or from a post that is not a question in the file: {dropped:,}, dropped "
            f"(first: row {is_question.all(axis=1).idxmin()})"
        )
    if again:
        warnings.append(f"duplicate links that repeat an earlier one: {again:,}, dropped")
    return once, warnings


def _kind_warnings(kinds: Counter[str]) -> list[str]:
    """Count the links of other types."""
    warnings = []
    if kinds[REFERENCE]:
        warnings.append(
            f"links that only refer to a question (LinkTypeId 1): {kinds[REFERENCE]:,}, not used; many name a pair "
            "before it is marked as duplicate"
        )
    others = kinds.total() - kinds[REFERENCE] - kinds[DUPLICATE]
    if others:
        warnings.append(f"links of types other than 1 and 3: {others:,}, not used")
    return warnings


def date_links(
    links: pd.DataFrame, path: Path, questions: pd.DataFrame, history: History
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Read when each link was made; a link made in bulk takes the date at which the duplicate was closed.

    Args:
        links: See ``read_links``.
        path: ``PostLinks.xml``, for messages.
        questions: See ``Posts``.
        history: Gives the rows of ``PostHistory.xml``, or None; called only if a link made in bulk has no other date.

    Returns:
        The links as ``resolve_links`` takes them, ``NaT`` where the date is unknown, and warnings.

    Raises:
        ValueError: A date cannot be read.
    """
    in_bulk = links["made_at"].str.startswith(BULK_DATE)
    closed = links["id"].map(questions.set_index("id")["closed_at"]).where(in_bulk, "")
    missing = in_bulk & (closed == "")
    told: dict[str, str] = {}
    if missing.any():
        told = _closings(history() or (), set(links.loc[missing, "id"]))
    in_history = links["id"].map(told).where(missing).notna()
    dates = links["made_at"].mask(in_bulk, closed).mask(in_history, links["id"].map(told))
    made_at, warnings = read_dates(dates.astype(str), str(path), "CreationDate", "ISO8601")
    counted = {
        "the date at which the duplicate was closed": in_bulk & (closed != ""),
        "the date of closing in PostHistory.xml": in_history,
        "no date, because none is known": missing & ~in_history,
    }
    warnings += [
        f"duplicate links made in bulk on 2013-02-18: {rows.sum():,}, given {date}"
        for date, rows in counted.items()
        if rows.any()
    ]
    undated = int((made_at.isna() & ~in_bulk).sum())
    warnings += [f"duplicate links without a date: {undated:,}, kept"] if undated else []
    return links.assign(source=SOURCE, made_at=made_at), tuple(warnings)


def _closings(rows: Iterable[Attributes], ids: set[str]) -> dict[str, str]:
    """The last closing of each question before the links were made in bulk."""
    closings: dict[str, str] = {}
    for attributes in rows:
        id_ = attributes.get("PostId", "")
        date = attributes.get("CreationDate", "")
        # Dates of one format sort as text.
        if attributes.get("PostHistoryTypeId") == CLOSED and id_ in ids and date < BULK_DATE:
            closings[id_] = max(closings.get(id_, ""), date)
    return closings
