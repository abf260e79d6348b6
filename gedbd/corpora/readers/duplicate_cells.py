"""Read the cells of tables that name duplicates: columns of ids and columns of groups."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property

import pandas as pd

# What separates the ids in a cell, unless the whole cell is an id: "1, 2", "1;2", "1 and 2", "1|2".
ID_SEPARATOR = re.compile(r"[;,|\s]+(?:and\b[;,|\s]*)?")
WHOLE_NUMBER = re.compile(r"(\d+)\.0+")  # spreadsheets and pandas write whole numbers like this in columns with gaps
LEADING_ZEROS = re.compile(r"(?<![\d.])0+(?=\d)")
AROUND = "[](){}<>'\"`:."  # around ids in lists, as Python, JSON and PostgreSQL write them, and in sentences
ADDRESS_SIGN = re.compile(r"[/?&=#]")
ADDRESS = re.compile(r"\S*[/=]\S*")
NOTHING = ("", "-", "[]", "{}", "()", "na", "n/a", "nan", "<na>", "nil", "none", "null")  # in lower case
NO_ID = {"0", "-1", *NOTHING}  # also written where there is no duplicate, unless a report has this id
COLUMN = "column"  # source of the links of a column of ids
GROUP = "group"  # source of the links of a column of groups
NO_DATE = pd.Series(dtype="datetime64[ns, UTC]")
# Duplicate, dup of, dupliziert, doublon, duplicado, dubbel, дубликат, merged, ...
SAYS_DUPLICATE = re.compile(r"dup(?:l|e|s?\b)|doublon|dubb?[el]l|дубл|重[复複]|\bmerged", re.IGNORECASE)
# It is not one, may be one, or is to be checked for being one.
SAYS_NOT = re.compile(
    r"\?|\b(?:no|non|not|never|nt|isn|de|un|possibl[ey]|potential(?:ly)?|maybe|may|might|probabl[ey]|likely|suspect(?:ed)?"
    r"|candidates?|almost|near|unconfirmed|needs?|to be merged|check\w*|detect\w*|find\w*|remov\w*|prevent|allow)\b"
    r"|\bno[nt](?=dup)|\bun(?=dup)",
    re.IGNORECASE,
)
# "*duplicate", "kind/duplicate", "Closed as duplicate", "Duplicate: see comments", "duplicate-issue", ...
DUPLICATE_LABEL = re.compile(
    r"(?!(?:area|component|module|feature|topic)\b)(?:^|.*[^\w\s]|.*_)\s*"
    r"(?:(?:closed|closing|resolved|resolution|marked|status|type|as|is|an?|exact|confirmed)\s+)*"
    r"(?:duplicat(?:ed?|es|ion)|dup(?:e|es|s)?)(?:[\s_-]+(?:issue|report|bug|ticket|question|closed)s?)?"
    r"(?:\s*[:/|.(\[\u2010-\u2015].*|\s+-.*|[^\w-]*)",
    re.IGNORECASE,
)
OTHER_RELATION = re.compile(
    r"relat|block|depend|parent|child|follow|preced|clon|cop(?:y|ied)|caus|split|refer|mention|similar|contain|task",
    re.IGNORECASE,
)
WORD = re.compile(r"(?<![\w-])[^\W\d_]{2,}(?![\w-]*\d)")  # AB-12 is an id, not a word
RELATION_END = re.compile(r"[,;|\n]")
TRUE = {"true", "yes", "y", "t"}
FALSE = {"false", "no", "n", "f"}
# Names of columns, in lower case with blanks between their words, that tell what numbers in them are.
NAME_OF_DUPLICATES = re.compile(rf"{SAYS_DUPLICATE.pattern}|original|canonical|master", re.IGNORECASE)
NAME_OF_COUNTS = re.compile(r"counts?\b|\bnum\b|\bnumber of\b|\btotal\b|\bamount\b|\bvotes\b|^n\b|^#")
NAME_OF_FLAGS = re.compile(r"^(?:is|has|was)\b(?!.*\bof\b)|\bflag")
NAME_OF_IDS = re.compile(r"\b(?:of|ids?|into|key|number|original|canonical|master)\b|issue|bug|ticket|report")
NAME_OF_LABEL = re.compile(r"['\"](?:name|title)['\"]:\s*(?:'([^']*)'|\"([^\"]*)\")")  # [{'name': 'bug', ...}]
LIST_ITEM = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|([^,'\"]+)")
LIST = re.compile(r"\s*[\[({](.*)[\])}]\s*", re.DOTALL)
CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])|_|-")
MAX_TYPICAL_COUNT = 10  # the median of counts above zero is lower; that of numbers of reports seldom is
MAX_SHOWN_CHARACTERS = 40


def plain_id(text: str) -> str:
    """An id without surrounding blanks, leading ``#`` and trailing ``.0``: ``#12``, ``12.0`` and ``12 `` become 12."""
    bare = text.strip().lstrip("#").strip()
    number = WHOLE_NUMBER.fullmatch(bare)
    return number[1] if number else bare


class KnownIds:
    """The ids of a file, also found where a cell spells them differently or gives the address of the report."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = {name.strip() for name in ids}
        spellings = {name: _folded(name) for name in self._ids}
        counts = Counter(spellings.values())
        # A spelling that two ids share finds neither.
        self._by_spelling = {spelling: name for name, spelling in spellings.items() if counts[spelling] == 1}

    def __contains__(self, name: str) -> bool:
        return name in self._ids

    @cached_property
    def shapes(self) -> set[str]:
        """The patterns of the ids: ``ab-0`` for AB-12."""
        return set(map(_shape, self._ids))

    def find(self, text: str) -> str:
        """The id that a text spells, or its ``plain_id`` if no report has it."""
        bare = text.strip()
        if bare in self._ids:
            return bare
        named = self._by_spelling.get(_folded(bare))
        if named is None and ADDRESS_SIGN.search(bare) and not ID_SEPARATOR.search(bare):
            # The last part that looks like an id: 12 in https://example.org/issues/12#comment-7.
            parts = ["", *(part for part in ADDRESS_SIGN.split(bare) if _shape(part) in self.shapes)]
            named = self._by_spelling.get(_folded(parts[-1]), parts[-1])
        return named or plain_id(bare)

    def find_all(self, cell: str) -> list[str]:
        """The ids in a cell; an id may itself contain separators.

        Words beside an id are left out; a cell without any id gives its words, which name no report.
        """
        named = []
        for part in filter(None, map(str.strip, cell.split(";"))):
            whole = self.find(part)
            if whole in self._ids:
                named.append(whole)
            else:
                named += [self.find(name.strip(AROUND) or name) for name in ID_SEPARATOR.split(part) if name]
        named = [name for name in dict.fromkeys(named) if name in self._ids or name.casefold() not in NO_ID]
        like_ids = [name for name in named if name in self._ids or any(map(str.isdigit, name))]
        return like_ids or named


def _folded(text: str) -> str:
    """The part of an id that all its spellings share: ``0001234``, ``#1234`` and ``1234.0`` are the same."""
    if text.isdigit():
        return text.lstrip("0") or "0"  # the same, several times faster
    return LEADING_ZEROS.sub("", plain_id(text).casefold())


def _shape(text: str) -> str:
    return re.sub(r"\d+", "0", text.casefold())


def filled(cells: pd.Series) -> pd.Series:
    """The cells that hold something, as pandas, JSON or a database writes it."""
    return cells[~cells.str.strip().str.casefold().isin(NOTHING)]


def says_duplicate(text: str) -> bool:
    """Whether a status, a resolution or a relation says that a report is a duplicate of another."""
    return SAYS_DUPLICATE.search(text) is not None and SAYS_NOT.search(text.replace("_", " ")) is None


def is_duplicate_label(label: str) -> bool:
    """Whether a label says so: it begins or ends with "duplicate", apart from a prefix."""
    return DUPLICATE_LABEL.fullmatch(label.strip()) is not None and SAYS_NOT.search(label.replace("_", " ")) is None


def read_duplicates(
    ids: pd.Series, cells: pd.Series, column: str, resolved_at: pd.Series
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The links of a column that names the duplicates of each report, if it does.

    Flags, counts and texts that name no report are left out, and so are relations that are no duplicates, such as
    "Related to #17".

    Args:
        ids: ``(N,)`` ids, indexed by row.
        cells: ``(N,)`` the cells of the column.
        column: Its name, which decides where ids and counts look alike, see ``_no_ids``.
        resolved_at: When each report was resolved, UTC, by row; taken as the date of its links.

    Returns:
        The links, see ``split_links``, and warnings about what is left out.
    """
    known = KnownIds(ids)
    cells, warnings = _only_duplicates(filled(cells), known, column)
    links = _links_of(known, ids, cells, resolved_at)
    other = _no_ids(ids, cells, known, links, column)
    if not other:
        return links, warnings
    warning = (
        f"column {column!r} holds {other}, not ids of reports, and is left out (first: row {cells.index[0]},"
        f" {cells.iloc[0][:MAX_SHOWN_CHARACTERS]!r}): set dataset.columns.duplicate= to a column of ids; if these are"
        " ids, name the column duplicate_of"
    )
    return links[:0], (*warnings, warning)


def _only_duplicates(cells: pd.Series, known: KnownIds, column: str) -> tuple[pd.Series, tuple[str, ...]]:
    """Cells without relations that are no duplicates, such as "Related to #17", and a warning that counts these."""
    worded = cells[[WORD.search(ADDRESS.sub(" ", cell)) is not None for cell in cells]]
    # Where some cells say that they name duplicates, others with words do not.
    needs_word = not NAME_OF_DUPLICATES.search(column) or any(map(says_duplicate, worded))
    dropped = []
    kept_cells = []
    for row, cell in worded.items():
        kept = []
        is_duplicate = True  # in "Duplicates #12, #13", the second id belongs to the same relation
        for item in RELATION_END.split(cell):
            words = "" if known.find(item) in known else " ".join(WORD.findall(ADDRESS.sub(" ", item)))
            if words:
                is_duplicate = says_duplicate(words) or not (needs_word or OTHER_RELATION.search(words))
            if is_duplicate:
                kept.append(item)
            else:
                dropped.append((row, item.strip()))
        kept_cells.append(";".join(kept))
    if not dropped:
        return cells, ()
    row, item = dropped[0]
    cells = pd.Series(kept_cells, index=worded.index, dtype=str).reindex(cells.index).fillna(cells)
    counted = f"relations in column {column!r} that are no duplicates: {len(dropped):,}, left out"
    return filled(cells), (f"{counted} (first: row {row}, {item[:MAX_SHOWN_CHARACTERS]!r})",)


def _no_ids(ids: pd.Series, cells: pd.Series, known: KnownIds, links: pd.DataFrame, column: str) -> str:
    """What a column holds instead of ids; empty if it holds ids.

    The column is judged as a whole, and by its name where its numbers may be either:

    - true, false, yes and no are flags, and texts of which none names a report or looks like an id are texts;
    - numbers in a column whose name counts (``num_duplicates``) are counts;
    - numbers in a column whose name says ids (``duplicate_of``, ``Duplicate ID``) are ids, and 0 means none;
    - other numbers are flags (nothing but 0 and 1) or counts (their median is at most ``MAX_TYPICAL_COUNT``) if 0 is
      written where no report has the id 0, if some report would name itself, or if none names a report.
    """
    if cells.empty:
        return ""
    values = cells.str.strip().str.casefold()
    named = links["duplicate_id"]
    names_none = not any(name in known for name in named)
    if names_none:
        if values.isin(TRUE | FALSE).all():
            return " and ".join(sorted(set(values)))
        if not any(_shape(name) in known.shapes for name in named):
            return "texts"
    numbers = pd.to_numeric(values, errors="coerce")
    name = CAPITAL.sub(" ", column).casefold()
    if (numbers % 1 != 0).any():
        return ""
    if NAME_OF_COUNTS.search(name):
        return "counts"
    if NAME_OF_IDS.search(name) and not NAME_OF_FLAGS.search(name):
        return ""
    has_zero = "0" not in known and bool((numbers == 0).any())
    own = set(named[named == links["id"]])
    # Where duplicates name the first report of their group, that report may name itself too.
    names_itself = bool(own) and not own >= set(named)
    if numbers.isin([-1, 0, 1]).all():
        is_flag = NAME_OF_FLAGS.search(name) or has_zero or own or names_none or len(cells) == len(ids)
        return "0 and 1" if is_flag else ""
    is_count = (has_zero or names_itself or names_none) and numbers[numbers > 0].median() <= MAX_TYPICAL_COUNT
    return "counts" if is_count else ""


def split_links(ids: pd.Series, duplicates: pd.Series) -> pd.DataFrame:
    """The links of a column that is known to name the duplicates of each report.

    Args:
        ids: ``(N,)`` ids.
        duplicates: ``(N,)`` ids of the duplicates of each, see ``KnownIds.find_all``.

    Returns:
        One row per link: ``id``, ``duplicate_id``, ``source`` (``column``) and ``made_at`` (``NaT`` where unknown).
    """
    return _links_of(KnownIds(ids), ids, filled(duplicates), NO_DATE)


def _links_of(known: KnownIds, ids: pd.Series, cells: pd.Series, resolved_at: pd.Series) -> pd.DataFrame:
    named = pd.Series([known.find_all(cell) for cell in cells], index=cells.index, dtype=object).explode().dropna()
    return make_links(ids, named, COLUMN, resolved_at)


def read_groups(
    ids: pd.Series, groups: pd.Series, column: str, resolved_at: pd.Series
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The links of a column in which duplicates have the same value: from each report to the first one with it.

    A report without a value, or with -1 as clusterings write it, is no duplicate. For the arguments and the result see
    ``read_duplicates``.
    """
    values = filled(groups).str.strip()
    values = values[values != "-1"]
    if len(values) and values.str.casefold().isin(TRUE | FALSE).all():
        warning = f"column {column!r} holds true and false, not groups of duplicates, and is left out"
        return make_links(ids, values[:0], GROUP), (f"{warning}: set dataset.columns.group=null",)
    first = ids.loc[values.index].groupby(values).transform("first")
    return make_links(ids, first[values.duplicated()], GROUP, resolved_at), ()


def make_links(ids: pd.Series, named: pd.Series, source: str, made_at: pd.Series = NO_DATE) -> pd.DataFrame:
    """The links of the reports in the index of ``named`` to the ids in it, see ``split_links``; an index may repeat."""
    columns = {"id": ids.loc[named.index].str.strip().to_numpy(), "duplicate_id": named.str.strip().to_numpy()}
    return pd.DataFrame(columns, dtype=str).assign(source=source, made_at=made_at.reindex(named.index).array)


def label_names(cells: pd.Series) -> pd.Series:
    """Labels, separated by ``;``, of cells that hold lists, objects with names, or names separated by ``;`` or commas.

    Commas separate labels if no cell has a ``;``.
    """
    separator = ";" if cells.str.contains(";", regex=False).any() else ","
    return cells.map({cell: ";".join(_labels(cell, separator)) for cell in cells.unique()})


def _labels(cell: str, separator: str) -> list[str]:
    if cell.casefold() in NOTHING:
        return []
    listed = LIST.fullmatch(cell)
    if listed is None:
        names = cell.split(separator)
    else:
        matches = NAME_OF_LABEL.findall(listed[1]) or LIST_ITEM.findall(listed[1])
        names = ["".join(match) for match in matches]
    return [name.strip().replace(";", ",") for name in names if name.strip()]
