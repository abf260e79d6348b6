"""How the fields of reports were read from an export, and which of its columns or keys no field is read from."""

import re
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any

import pandas as pd

from gedbd.corpora.corpus import FieldSource
from gedbd.corpora.readers.duplicate_cells import AROUND, CAPITAL, COLUMN, GROUP, ID_SEPARATOR, plain_id
from gedbd.corpora.relevance import Links

# Columns or keys that are not read, and their first ``MAX_CELLS`` that hold something.
Unread = Mapping[str, Sequence[str]]
MAX_CELLS = 10_000
MAX_CHARACTERS = 40  # shown of a first value, or kept of a value that is not read
# Names of columns, in lower case with blanks between their words.
SAYS_SAME = re.compile(r"dup|merged|canonical|original|\brelated|\bsame\b")
SAYS_OTHER = re.compile(
    r"count|\bnum\b|estimate|parent|child|block|depend|clon|caus|follow|preced|split|sub ?task|epic|sprint|milestone"
    r"|version|iteration|point|weight|vote|user|author|assign|order|rank|index|row|priority|severity|comment|watch"
)
FLAGS = {"0", "1", "-1"}


def unread_columns(table: pd.DataFrame, read: Collection[str]) -> dict[str, list[str]]:
    """The columns of a table besides those that are ``read``."""
    unread: dict[str, list[str]] = {}
    for position, name in enumerate(table.columns):
        if name not in read:
            cells = table.iloc[:, position]
            unread.setdefault(name, []).extend(cells[cells != ""].head(MAX_CELLS))
    return unread


class UnreadKeys(dict[str, list[str]]):
    """The keys of records that hold something and that no field is read from, as expressions of JMESPath.

    Args:
        read: The keys that are read.
        inside: Key of an object whose keys count like those of the record; empty for none.
    """

    def __init__(self, read: Collection[str], inside: str = "") -> None:
        # Keys that are read or whose cells are full, of the record and of the object.
        self.skipped = {prefix: {*read, inside} for prefix in ("", f"{inside}.")}
        self.inside = inside

    def add(self, record: Mapping[str, Any]) -> None:
        """Adds the keys of a record."""
        inner = record.get(self.inside)
        parts = [("", record), (f"{self.inside}.", inner if isinstance(inner, Mapping) else {})]
        for prefix, key, value in ((prefix, *item) for prefix, part in parts for item in part.items()):
            if key in self.skipped[prefix] or value in (None, "", [], {}):
                continue
            cells = self.setdefault(prefix + (key if key.isidentifier() else f'"{key}"'), [])
            issue_number = value.get("number", "") if isinstance(value, Mapping) else value
            cells.append(str(issue_number)[:MAX_CHARACTERS])
            if len(cells) == MAX_CELLS:
                self.skipped[prefix].add(key)


def fields_read(
    exported: pd.DataFrame, reports: pd.DataFrame, columns: Mapping[str, str | None], links: Links
) -> tuple[FieldSource, ...]:
    """How each field was read.

    Args:
        exported: The reports as in the export, which say how many have a field.
        reports: The reports in chronological order and with dates, which hold the first value.
        columns: Name in the file of each field, see ``build_corpus``.
        links: The duplicates. Each of their sources is listed, except groups, which have a column.
    """
    rows = exported.index.get_indexer(reports.index)
    fields = []
    for field, source in columns.items():
        if source and field in exported and field != "duplicate":
            has_value = (exported[field].notna() & (exported[field] != "")).to_numpy()[rows]
            first = _shown(reports[field].iloc[has_value.argmax()]) if has_value.any() else ""
            fields.append(FieldSource(field, source, int(has_value.sum()), first))
    by_source = {str(source): part for source, part in links.table.groupby("source", sort=False) if source != GROUP}
    column = columns.get("duplicate")
    if column and COLUMN not in by_source:
        fields.append(FieldSource("duplicate", column, 0, ""))
    ids = reports["id"].to_numpy()
    for source, part in by_source.items():
        first = f"{ids[part['query'].iloc[0]]} of {ids[part['document'].iloc[0]]}"
        name = column if column and source == COLUMN else source
        fields.append(FieldSource("duplicate", name, part["query"].nunique(), first))
    return tuple(fields)


def _shown(value: Any) -> str:
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d %H:%M} UTC"
    text = " ".join(str(value).split())
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."


def duplicate_warnings(unread: Unread, option: str, ids: pd.Series) -> list[str]:
    """A warning for each unread column or key that may name duplicates, with the option that reads it."""
    known = set(ids.tolist())
    suspects = [name for name, cells in unread.items() if may_name_duplicates(name, cells, known)]
    where = ", in a dataset= with fields, such as records" if ".fields." in option else ""
    warnings = []
    for name in suspects:
        escaped = name.replace('"', '\\"')  # within quotes for Hydra, and for the shell
        warnings.append(f"{name!r} is not read and may name duplicates: \"{option}='{escaped}'\" reads it{where}")
    return warnings


def may_name_duplicates(name: str, cells: Sequence[str], ids: Set[str]) -> bool:
    """Whether a column with ``cells`` that hold something may name duplicates, as far as its name and ids tell."""
    words = CAPITAL.sub(" ", name.rpartition(".")[2]).casefold()
    if SAYS_OTHER.search(words) or FLAGS.issuperset(cells):
        return False
    named = ({plain_id(part.strip(AROUND)) for part in ID_SEPARATOR.split(cell) if part} for cell in cells)
    if SAYS_SAME.search(words):
        return any(not parts.isdisjoint(ids) for parts in named)
    # Numbers in all rows, or few different ones, are rather counts or other ids.
    is_other = len(cells) >= min(len(ids), MAX_CELLS) or 4 * len({*cells}) < len(cells)
    return not is_other and all(parts and parts <= ids for parts in named)
