"""Read the CSV export of any tracker, given the names of its columns."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gedbd.corpora.corpus import Corpus, keep_last
from gedbd.corpora.readers.bug_reports import RESOLVED_AT, build_corpus, resolution_dates, split_links
from gedbd.corpora.readers.csv_file import NOT_UTF8, read_table, take_columns
from gedbd.corpora.urls import check_template
from gedbd.io.paths import corpus_name, locate


def read_csv(
    name: str | None,
    path: str,
    columns: Mapping[str, str | None],
    date_format: str = "ISO8601",
    last_n: int | None = None,
    image_dir: str | None = None,
    url_template: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> Corpus:
    """Read one CSV file, plain or packed as ``.zip``, ``.xz`` or ``.gz``.

    Args:
        name: Short name of the corpus; ``None`` takes it from the path.
        path: The file; ``pkg://gedbd.corpora/demo.csv`` is one in a Python package.
        columns: Field to column of the file; ``None`` if the tracker has no such column.
        date_format: ``ISO8601``, or a format of ``datetime.strptime``.
        last_n: Keep only this many reports, the latest ones; ``None`` keeps all.
        image_dir: Folder of the attached images, by default that of the file.
        url_template: Address of a report without one, in which ``{issue_id}`` stands for its id; ``None`` for none.
        separator: One character, or comma, semicolon, tab or pipe; ``None`` detects it from the header.
        encoding: A codec of Python, such as cp1252; ``None`` takes that of the byte order mark, or UTF-8.

    Returns:
        The corpus; if any report has a date of resolution, its table has the column ``resolved_at`` (UTC, ``NaT`` where
        unknown) besides ``DOCUMENT_FIELDS``.

    Raises:
        ValueError: The file is missing or malformed. The message names file, row and column.
    """
    check_template(url_template)
    file = locate(path)
    table, warnings = read_table(file, separator, encoding, [column for column in columns.values() if column])
    if any(NOT_UTF8 in warning for warning in warnings):
        warnings += (f"if {file.name} is in an older encoding, name it: dataset.encoding=cp1252",)
    reports, column_warnings = take_columns(table, columns, file)
    warnings += column_warnings
    title = name or corpus_name(file)
    resolved_at, date_warnings = resolution_dates(reports[RESOLVED_AT], date_format)
    warnings += date_warnings
    links = split_links(reports["id"], reports["duplicate"], resolved_at)
    reports = reports.assign(**{RESOLVED_AT: resolved_at})
    corpus = build_corpus(title, reports, links, str(file), columns, warnings, date_format, url_template=url_template)
    corpus = replace(corpus, image_dir=Path(image_dir).expanduser() if image_dir else file.parent)
    return corpus if last_n is None else keep_last(corpus, last_n)
