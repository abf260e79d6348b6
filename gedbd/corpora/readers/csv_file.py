"""Open a CSV file, plain or packed, as a table of text.

A row is a record, not a line: the header is row 1 and the first record row 2, however many lines a field spans.
"""

import csv
import gzip
import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from io import BufferedReader, TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pandas as pd

from gedbd.corpora.readers.bug_reports import BUG_FIELDS
from gedbd.corpora.readers.csv_dialect import DEFAULT_ENCODING, HEAD_BYTES, Dialect, find_dialect, is_bytewise
from gedbd.io.unpacking import LimitedStream, UnpackLimit

DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile, zlib.error)
UNDECODED = re.compile("[\udc80-\udcff]")  # what "surrogateescape" makes of bytes
NOT_UTF8 = "not UTF-8"
SIGNS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}
LONGEST_FIELD = 2**31 - 1
CHUNK_BYTES = 1 << 18
NOT_UNPACKED = {".7z", ".br", ".bz2", ".lz4", ".lzma", ".rar", ".tar", ".tbz2", ".tgz", ".txz", ".z", ".zst"}
FIRST_RECORD = 2
PART_ROWS = 10_000

Place = tuple[int, str]  # row and column


def read_table(
    path: Path, separator: str | None = ",", encoding: str | None = None, wanted: Collection[str] = ()
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Read a CSV file with a header; every value stays text, and an empty field is an empty text.

    Args:
        path: ``.csv``, or one packed as ``.zip``, ``.xz`` or ``.gz``. A byte order mark is dropped.
        separator: See ``find_dialect``.
        encoding: See ``find_dialect``.
        wanted: See ``find_dialect``.

    Returns:
        The table, indexed by row, and notices about what was recognised and bytes that had to be replaced.

    Raises:
        ValueError: The file is missing, damaged, empty, has no record, or a row does not fit the header.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    with open_packed(path, path.suffix) as stream:
        dialect = find_dialect(stream.read(HEAD_BYTES), path, separator, encoding, wanted)
        stream.seek(0)
        table, replaced = read_rows(stream, path, dialect)
    return table, dialect.notices + replaced_notices(replaced, path, dialect.encoding)


@contextmanager
def open_packed(
    path: Path, suffix: str, kinds: tuple[str, ...] = ("csv",), limit: UnpackLimit | None = None
) -> Iterator[IO[bytes]]:
    """Open a file or the one file of some kind packed in it; unpacked bytes are counted and limited.

    Args:
        path: The file.
        suffix: How it is packed: ``.zip``, ``.xz``, ``.gz``; any other is read as it stands.
        kinds: Endings of the file in a zip archive; what else lies there is passed over.
        limit: Counts for several files together; null gives this file a limit of its own.

    Raises:
        ValueError: The archive is damaged, unpacks to too much, also when that shows only while it is read, or is of a
            kind that is not read.
    """
    openers: dict[str, Any] = {".zip": partial(open_zip, kinds=kinds), ".xz": lzma.open, ".gz": gzip.open}
    opener = openers.get(suffix.lower())
    if opener is None and suffix.lower() in NOT_UNPACKED:
        raise ValueError(f"{path}: {suffix} files are not unpacked: pack it as .gz, .xz or .zip")
    if opener is None:
        with path.open("rb") as plain:
            yield plain
        return
    limit = limit or UnpackLimit()
    try:
        with opener(path, "rb") as stream:
            limit.open(path)
            yield BufferedReader(LimitedStream(stream, path, limit), CHUNK_BYTES)
    except DAMAGED as error:
        raise ValueError(f"{path}: the archive is damaged ({error}); fetch or pack it again") from error


def open_zip(path: Path, mode: str, kinds: tuple[str, ...]) -> IO[bytes]:
    """Open the one file of these kinds in a zip archive."""
    endings = tuple(f".{kind}" for kind in kinds)
    with zipfile.ZipFile(path) as archive:
        files = [name for name in archive.namelist() if name.lower().endswith(endings) and "__MACOSX" not in name]
        if len(files) != 1:
            what = " or ".join(kind.upper() for kind in kinds)
            raise ValueError(f"{path}: the archive holds {len(files)} {what} files; pack exactly one")
        try:
            return archive.open(files[0])
        except RuntimeError as error:
            raise ValueError(f"{path}: the archive cannot be unpacked ({error}); pack the file again") from error


def read_rows(stream: IO[bytes], path: Path, dialect: Dialect) -> tuple[pd.DataFrame, list[Place]]:
    """Read the records under the header, a part at a time, as lists of Python take many times the file's size.

    Returns:
        The table, indexed by row, and where bytes had to be replaced.

    Raises:
        ValueError: As ``read_table``.
    """
    records = read_records(stream, path, dialect)
    header = [column.strip() for column in next(records, [])]
    if not header:
        raise ValueError(f"{path}: the file is empty; it needs a header and one row for each report")
    replaced = replace_bytes([header], header, 1)
    check_header(header, path)
    tables: list[pd.DataFrame] = []
    row = FIRST_RECORD
    while part := list(islice(records, PART_ROWS)):
        check_shape(part, header, row, path, dialect.separator)
        replaced += replace_bytes(part, header, row)
        index = pd.RangeIndex(row, row + len(part))
        tables.append(pd.DataFrame(part, columns=header, index=index, dtype=str))
        row += len(part)
    if not tables:
        raise ValueError(f"{path}: there is a header but no row under it; add one row for each report")
    return pd.concat(tables), replaced


def read_records(stream: IO[bytes], path: Path, dialect: Dialect) -> Iterator[list[str]]:
    """Read the records one by one, header first; empty lines are left out.

    Raises:
        ValueError: The file is not in its encoding, or a quoted field does not end.
    """
    errors = "surrogateescape" if is_bytewise(dialect.encoding) else "strict"
    csv.field_size_limit(LONGEST_FIELD)
    row = 0
    try:
        lines = TextIOWrapper(stream, encoding=dialect.encoding, errors=errors, newline="")
        for record in filter(None, csv.reader(lines, delimiter=dialect.separator, strict=True)):
            row += 1
            yield record
    except csv.Error as error:
        raise ValueError(
            f"{path}, row {row + 1}: not readable as CSV ({error}); "
            "close every quoted field with a quote and double the quotes inside it"
        ) from error
    except UnicodeError as error:
        raise ValueError(
            f"{path}, row {row + 1}: not readable as {dialect.encoding} ({error}): say dataset.encoding="
        ) from error


def check_header(header: list[str], path: Path) -> None:
    """Refuse doubled columns."""
    doubled = [column for column, count in Counter(header).items() if count > 1]
    if doubled:
        raise ValueError(f"{path}, row 1: the column {doubled[0]!r} occurs twice; rename one of them")


def check_shape(records: list[list[str]], header: list[str], first_row: int, path: Path, separator: str) -> None:
    """Refuse a row longer or shorter than the header."""
    for row, record in enumerate(records, start=first_row):
        if len(record) != len(header):
            raise ValueError(
                f"{path}, row {row}: {len(record)} fields under a header of {len(header)}; "
                f"quote fields that contain {SIGNS.get(separator, repr(separator))}, quotes or line breaks"
            )


def replace_bytes(records: list[list[str]], header: list[str], first_row: int) -> list[Place]:
    """Put U+FFFD, in place, for each byte that is not in the encoding; gives row and column of each such field."""
    met = []
    for row, record in enumerate(records, start=first_row):
        for position, field in enumerate(record):
            if not field.isascii() and UNDECODED.search(field):
                record[position] = UNDECODED.sub("\ufffd", field)
                met.append((row, header[position]))
    return met


def replaced_notices(met: list[Place], path: Path, encoding: str) -> tuple[str, ...]:
    """Count the rows in which bytes were replaced, and name the first field."""
    if not met:
        return ()
    num_rows = len({row for row, _ in met})
    row, column = met[0]
    name = NOT_UTF8 if encoding == DEFAULT_ENCODING else f"not {encoding}"
    return (
        f"rows of {path.name} with bytes that are {name}: {num_rows:,}, each byte replaced by U+FFFD "
        f"(first: row {row}, column {column!r})",
    )


def take_columns(
    table: pd.DataFrame, columns: Mapping[str, str | None], path: Path
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Pick the columns of ``BUG_FIELDS`` and ``duplicate``, under these names.

    Args:
        table: Text, indexed by row.
        columns: Field to column of the file; null where the tracker has none, which leaves the field empty.
        path: The file, for messages.

    Returns:
        The columns, and a notice about the optional ones that the file does not have.

    Raises:
        ValueError: A field is unknown; ``id``, ``title`` or a named ``duplicate`` column is not in the file.
    """
    fields = (*BUG_FIELDS, "duplicate")
    unknown = [field for field in columns if field not in fields]
    if unknown:
        raise ValueError(f"dataset.columns.{unknown[0]}: no such field; the fields are {', '.join(fields)}")
    absent = [field for field in fields if columns.get(field) not in {None, *table.columns}]
    needed = [field for field in ("id", "title") if columns.get(field) is None or field in absent]
    needed += ["duplicate"] if "duplicate" in absent else []
    if needed:
        raise ValueError(missing_column(needed[0], columns.get(needed[0]), table, path))
    taken = {f: table[columns[f]] if columns.get(f) and f not in absent else "" for f in fields}
    names = ", ".join(repr(columns[field]) for field in absent)
    notice = f"columns not in {path.name}: {names}; left empty: {', '.join(absent)}"
    return pd.DataFrame(taken, index=table.index, dtype=str), (notice,) if absent else ()


def missing_column(field: str, column: str | None, table: pd.DataFrame, path: Path) -> str:
    """Say which column is missing, which there are, and how to name the right one."""
    what = "no column is named" if column is None else f"no column {column!r}"
    none = ", or null if the tracker records no duplicates" if field == "duplicate" else ""
    return (
        f"{path}, row 1: {what} for {field}; the columns are {', '.join(table.columns)}. "
        f"Set dataset.columns.{field} to one of them{none}"
    )
