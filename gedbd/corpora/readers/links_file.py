"""Read a file of links: two ids a row, and perhaps whether they are duplicates."""

import re

import pandas as pd

from gedbd.corpora.readers.duplicate_cells import (
    FALSE,
    MAX_SHOWN_CHARACTERS,
    OTHER_RELATION,
    SAYS_DUPLICATE,
    TRUE,
    KnownIds,
    make_links,
    says_duplicate,
)

NAME_OF_LABELS = re.compile(r"label|type|relation|dup|class|target|kind|link", re.IGNORECASE)
INDEX_NAMES = {"", "index", "unnamed: 0"}  # of the column of row numbers that pandas writes


def read_links(ids: pd.Series, table: pd.DataFrame, source: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The links of a file whose first column names a report and whose second one names its duplicates.

    A further column may hold labels (1 and 0, true and false) or types of links (Duplicate, Relates), which tell which
    rows are duplicates, unless it is empty throughout. A first line that names reports is a row, not a header.

    Args:
        ids: ``(N,)`` ids of the reports.
        table: The rows of the file as text.
        source: Its name, for messages and as the source of the links.

    Returns:
        The links, see ``duplicate_cells.split_links``, and warnings about rows that are no links.

    Raises:
        ValueError: There are no two columns, or the labels are not understood.
    """
    known = KnownIds(ids)
    header = table.columns.tolist()
    if any(known.find(cell) in known for cell in header):
        table = pd.DataFrame([header, *table.to_numpy()], index=[table.index[0] - 1, *table.index], dtype=str)
        header = [f"column {number}" for number in range(1, table.shape[1] + 1)]
    elif header[0].casefold() in INDEX_NAMES:
        table = table.iloc[:, 1:]
        header = header[1:]
    if len(header) < 2:
        raise ValueError(f"{source}: one column only; dataset.links= needs two columns of ids")
    warnings = []
    filled = [place for place in range(2, len(header)) if table.iloc[:, place].str.strip().any()]
    if filled:
        column = next((place for place in filled if NAME_OF_LABELS.search(header[place])), filled[0])
        is_duplicate = _read_labels(table.iloc[:, column], f"{source}, column {header[column]!r}")
        if not is_duplicate.all():
            no_duplicates = f"{(~is_duplicate).sum():,} (first: row {is_duplicate.idxmin()})"
            warnings.append(f"rows of {source} that are no duplicates by {header[column]!r}: {no_duplicates}, left out")
        table = table[is_duplicate]
    reports = table.iloc[:, 0].map(known.find)
    named = table.iloc[:, 1].map(known.find_all).explode().dropna()
    is_known = reports.isin(ids.str.strip()).loc[named.index]
    if not is_known.all():
        unknown = f"{(~is_known).sum():,}, left out (first: row {is_known.idxmin()})"
        warnings.append(f"links of {source} from a report that is not in the corpus: {unknown}")
    return make_links(reports, named[is_known.to_numpy()], source), tuple(warnings)


def _read_labels(labels: pd.Series, place: str) -> pd.Series:
    """Whether each row is a duplicate, by its label or type of link. Raises ValueError if one is not understood."""
    values = labels.str.strip().str.casefold()
    is_duplicate = values.isin({*TRUE, "1", "1.0"}) | values.map(says_duplicate)
    is_other = values.isin({*FALSE, "0", "0.0", "-1", "-1.0"})
    is_other |= values.str.contains(OTHER_RELATION) | values.str.contains(SAYS_DUPLICATE)
    if values.map(says_duplicate).any():
        is_other |= values.str.contains(r"[^\W\d_]")  # types of links have many names, and one that is known is enough
    unread = labels[~is_duplicate & ~is_other]
    if len(unread):
        value = unread.iloc[0][:MAX_SHOWN_CHARACTERS]
        raise ValueError(
            f"{place}, row {unread.index[0]}: {value!r} does not tell whether the two are duplicates: write 1 or 0,"
            " true or false, or a type such as Duplicate or Relates, or leave the column out"
        )
    return is_duplicate
