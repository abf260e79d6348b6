"""Read any tracker's CSV export, given the names of its columns."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gedbd.corpora.corpus import Corpus, keep_last
from gedbd.corpora.readers.bug_reports import build_corpus, split_links
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
        name: Short name of the corpus; null takes it from the path.
        path: The file; ``pkg://gedbd.corpora/demo.csv`` is one that lies in a Python package.
        columns: Field to column of the file; null where the tracker has none.
        date_format: ``ISO8601``, or as in ``datetime.strptime``.
        last_n: If given, only so many reports are kept, those filed last.
        image_dir: Folder under which attached images lie, by default that of the file.
        url_template: Address of a report that has none, with ``{issue_id}`` in place of its id; null for none.
        separator: Between columns: one character, or comma, semicolon, tab, pipe; null recognises it by the header.
        encoding: A codec of Python, such as cp1252; null takes UTF-8, or what a byte order mark says.

    Raises:
        ValueError: The file is missing or not as it should be; names file, row and column.
    """
    check_template(url_template)
    file = locate(path)
    table, notices = read_table(file, separator, encoding, [column for column in columns.values() if column])
    if any(NOT_UTF8 in notice for notice in notices):
        notices += (f"if {file.name} is in an older encoding, name it: dataset.encoding=cp1252",)
    reports, column_notices = take_columns(table, columns, file)
    notices += column_notices
    title = name or corpus_name(file)
    links = split_links(reports["id"], reports["duplicate"])
    corpus = build_corpus(title, reports, links, str(file), columns, notices, date_format, url_template=url_template)
    corpus = replace(corpus, image_dir=Path(image_dir).expanduser() if image_dir else file.parent)
    return corpus if last_n is None else keep_last(corpus, last_n)
