"""Read the CSV export of any tracker, given the names of its columns."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Unpack

import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.dates import ISO_FORMAT, find_format
from gedbd.corpora.readers.bug_reports import RESOLVED_AT, ReportOptions, build_corpus, resolution_dates
from gedbd.corpora.readers.csv_file import NOT_UTF8, names_of, read_table, take_columns, text_table
from gedbd.corpora.readers.duplicate_cells import label_names, read_duplicates, read_groups, says_duplicate
from gedbd.corpora.readers.fields_read import Unread, unread_columns
from gedbd.corpora.readers.formats import Columns, columns_in, recognise_table
from gedbd.corpora.readers.issue import NAMED_NOWHERE
from gedbd.corpora.readers.links_file import read_links
from gedbd.corpora.readers.pull_requests import without_pull_requests
from gedbd.corpora.readers.rich_text import html_text
from gedbd.corpora.urls import check_template
from gedbd.io.files import corpus_name, locate


class TableOptions(ReportOptions, total=False):
    """The options of tables."""

    date_format: str | None  # ``ISO8601``, or a format of ``datetime.strptime``; ``None`` detects it
    html: bool  # whether descriptions are HTML
    # a CSV file of further duplicates: the id of a report in its first column, those of its duplicates in the second
    # one; ``None`` for none
    links: str | None


def read_csv(
    name: str | None,
    path: str,
    columns: Columns,
    separator: str | None = None,
    encoding: str | None = None,
    mutual: bool = False,
    **options: Unpack[TableOptions],
) -> Corpus:
    """Reads one CSV file, plain or packed as ``.zip``, ``.xz`` or ``.gz``.

    Args:
        name: Short name of the corpus; ``None`` takes it from the path.
        path: The file; ``pkg://gedbd.corpora/demo.csv`` is one in a Python package.
        columns: Field to column of the file, or to several, see ``columns_in``; ``None`` if it has no such column.
        separator: One character, or comma, semicolon, tab or pipe; ``None`` detects it from the header.
        encoding: A codec of Python, such as cp1252; ``None`` takes that of the byte order mark, or UTF-8.
        mutual: See ``build_corpus``.
        options: See ``TableOptions``.

    Returns:
        The corpus; if any report has a resolution date, its table has the column ``resolved_at`` (UTC, ``NaT`` where
        unknown) besides ``DOCUMENT_FIELDS``.

    Raises:
        ValueError: The file is missing or malformed. The message names file, row and column.
    """
    check_template(options.get("url_template"))
    file = locate(path)
    expected = [name for column in columns.values() if column for name in names_of(column)]
    table, warnings = read_table(file, separator, encoding, expected, may_repeat=True)
    present = columns_in(columns, table.columns)
    table, dropped = without_pull_requests(table, present.get("id"))
    warnings += dropped
    if not all(isinstance(columns.get(field), str) and columns[field] in table for field in ("id", "title")):
        detected = recognise_table(table.columns)
        if detected:
            raise ValueError(f"{file}: this looks like a {detected} export: set dataset={detected}")
    if any(NOT_UTF8 in warning for warning in warnings):
        warnings += (f"if {file.name} has an older encoding, set it, for example dataset.encoding=cp1252",)
    return build_from_table(name or corpus_name(file), table, file, present, warnings, mutual, **options)


def read_frame(frame: pd.DataFrame, columns: Columns, name: str = "table", **options: Unpack[TableOptions]) -> Corpus:
    """Reads a table in memory, one row per report, like a CSV file, see ``read_csv``.

    Missing values become empty, and dates may be datetimes. Messages number rows as in a file, from 2 on.
    """
    check_template(options.get("url_template"))
    if frame.empty:
        raise ValueError(f"{name}: the table is empty; it needs one row per report")
    table, dropped = without_pull_requests(text_table(frame), columns.get("id"))
    return build_from_table(name, table, Path(name), columns, dropped, **options)


def build_from_table(
    title: str,
    table: pd.DataFrame,
    file: Path,
    columns: Columns,
    warnings: tuple[str, ...],
    mutual: bool = False,
    further_links: pd.DataFrame | None = None,
    written: Mapping[str, str] | None = None,
    unread: Unread | None = None,
    date_format: str | None = ISO_FORMAT,
    html: bool = False,
    links: str | None = None,
    **options: Unpack[ReportOptions],
) -> Corpus:
    """The corpus of a table of text, indexed by the number of the row or record in ``file``.

    ``warnings`` are those about the table, which come first. ``further_links`` are links that no cell of the table
    names: ``id``, ``duplicate_id``, ``source`` and ``made_at``. Of records, ``written`` is the place of each field, and
    ``unread`` what is not read; both are ``None`` for a table. For the other arguments and errors see ``read_csv``.
    """
    reports = take_columns(table, columns, file)
    named = {field: names_of(column) for field, column in columns.items() if column}
    shown = written or {field: " or ".join(names) for field, names in named.items()}
    if unread is None:
        unread = unread_columns(table, {name for names in named.values() for name in names})
    option = "dataset.fields.duplicate" if written else "dataset.columns.duplicate"
    if date_format is None:
        try:
            date_format = find_format(reports["created_at"], reports[RESOLVED_AT])
        except ValueError as error:
            raise ValueError(f"{file}, column {shown['created_at']!r}: {error}") from error
    resolved_at, date_warnings = resolution_dates(reports[RESOLVED_AT], date_format)
    if html:
        reports = reports.assign(description=reports["description"].map(html_text))
    ids = reports["id"]
    duplicates, duplicate_warnings = read_duplicates(
        ids, reports["duplicate"], str(shown.get("duplicate")), resolved_at
    )
    groups, group_warnings = read_groups(ids, reports["group"], str(shown.get("group")), resolved_at)
    link_tables = [duplicates, groups]
    if further_links is not None:
        link_tables.append(further_links)
    warnings = (*warnings, *date_warnings, *duplicate_warnings, *group_warnings)
    if links is not None:
        links_file = locate(links)
        links_table, file_warnings = read_table(links_file, None, may_repeat=True)
        further, link_warnings = read_links(ids, links_table, links_file.name)
        link_tables.append(further)
        warnings = (*warnings, *file_warnings, *link_warnings)
    all_links = pd.concat([part for part in link_tables if len(part)] or link_tables[:1], ignore_index=True)
    closed = reports[["status", "resolution"]].apply(lambda texts: texts.map(cache(says_duplicate))).any(axis=1)
    unlinked = closed & ~ids.str.strip().isin([*all_links["id"], *all_links["duplicate_id"]])
    if unlinked.any():
        warnings += (f"reports {NAMED_NOWHERE}: {unlinked.sum():,} (first: row {unlinked.idxmax()})",)
    reports = reports.assign(labels=label_names(reports["labels"]), **{RESOLVED_AT: resolved_at})
    return build_corpus(
        *(title, reports, all_links, str(file), shown, warnings, date_format, mutual, file.parent, unread, option),
        **options,
    )
