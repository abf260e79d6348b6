"""Read the cells of tables that name duplicates: columns of ids, columns of groups, and files of links."""

import re
from collections import Counter
from collections.abc import Iterable

import pandas as pd

# What separates the ids in a cell, unless the whole cell is an id: "1, 2", "1;2", "1 and 2", "1|2".
ID_SEPARATOR = re.compile(r"[;,|\s]+(?:and\b[;,|\s]*)?")
WHOLE_NUMBER = re.compile(r"(\d+)\.0+")  # spreadsheets and pandas write whole numbers like this in columns with gaps
COLUMN = "column"  # source of the links of a column of ids
GROUP = "group"  # source of the links of a column of groups
NO_DATE = pd.Series(dtype="datetime64[ns, UTC]")


def plain_id(text: str) -> str:
    """An id without surrounding blanks, leading ``#`` and trailing ``.0``: ``#12``, ``12.0`` and ``12 `` become 12."""
    bare = text.strip().lstrip("#").strip()
    number = WHOLE_NUMBER.fullmatch(bare)
    return number[1] if number else bare


class KnownIds:
    """The ids of a file, also found where a cell spells them differently."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = {name.strip() for name in ids}
        counts = Counter(map(_folded, self._ids))
        # A spelling that two ids share finds neither.
        self._by_spelling = {_folded(name): name for name in self._ids if counts[_folded(name)] == 1}

    def find(self, text: str) -> str:
        """The id that a text spells, or its ``plain_id`` if no report has it."""
        bare = text.strip()
        return bare if bare in self._ids else self._by_spelling.get(_folded(bare), plain_id(bare))

    def find_all(self, cell: str) -> list[str]:
        """The ids in a cell; an id may itself contain separators."""
        ids = []
        for part in filter(None, map(str.strip, cell.split(";"))):
            whole = self.find(part)
            ids += [whole] if whole in self._ids else [self.find(name) for name in ID_SEPARATOR.split(part) if name]
        return list(dict.fromkeys(ids))


def _folded(text: str) -> str:
    return plain_id(text).casefold()


def split_links(ids: pd.Series, duplicates: pd.Series, resolved_at: pd.Series = NO_DATE) -> pd.DataFrame:
    """The links of a column that names the duplicates of each report.

    Args:
        ids: ``(N,)`` ids.
        duplicates: ``(N,)`` ids of the duplicates of each, see ``KnownIds.find_all``.
        resolved_at: When each report was resolved, UTC, by row; taken as the date of its links.

    Returns:
        One row per link: ``id``, ``duplicate_id``, ``source`` (``column``) and ``made_at`` (``NaT`` where unknown).
    """
    known = KnownIds(ids)
    cells = duplicates[duplicates.str.strip() != ""]
    named = pd.Series([known.find_all(cell) for cell in cells], index=cells.index, dtype=object).explode().dropna()
    return _links(ids.loc[named.index], named, COLUMN, resolved_at.reindex(named.index))


def group_links(ids: pd.Series, groups: pd.Series, resolved_at: pd.Series = NO_DATE) -> pd.DataFrame:
    """The links of a column in which duplicates have the same value: from each report to the first one with it.

    For the arguments see ``split_links``; a report without a value is no duplicate.
    """
    values = groups.str.strip()
    values = values[values != ""]
    first = ids.loc[values.index].groupby(values).transform("first")
    later = values.index[values.duplicated()]
    return _links(ids.loc[later], first.loc[later], GROUP, resolved_at.reindex(later))


def file_links(ids: pd.Series, table: pd.DataFrame, source: str) -> pd.DataFrame:
    """The links of a file: the first column names a report, the second its duplicates."""
    known = KnownIds(ids)
    reports = table.iloc[:, 0].map(known.find)
    named = table.iloc[:, 1].map(known.find_all).explode().dropna()
    return _links(reports.loc[named.index], named, source, NO_DATE.reindex(named.index))


def _links(ids: pd.Series, duplicates: pd.Series, source: str, made_at: pd.Series) -> pd.DataFrame:
    columns = {"id": ids.str.strip().to_numpy(), "duplicate_id": duplicates.str.strip().to_numpy()}
    return pd.DataFrame(columns, dtype=str).assign(source=source, made_at=made_at.array)
