"""Read plain or compressed CSV files as tables of text.

Row numbers count records, not lines: the header is row 1 and the first record is row 2.
"""

import codecs
import csv
import gzip
import json
import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from io import BufferedReader, BytesIO, TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.readers.bug_reports import DOCUMENT_FIELDS, RESOLVED_AT
from gedbd.corpora.readers.formats import Columns
from gedbd.io.console import Pace
from gedbd.io.files import check_regular
from gedbd.io.unpacking import LimitedStream, UnpackLimit, check_size

HEAD_BYTES = 1 << 16
PARQUET, ZIP, OLD_EXCEL = b"PAR1", b"PK\x03\x04", b"\xd0\xcf\x11\xe0"  # the first bytes of files
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
DEFAULT_ENCODING = "utf-8-sig"
WESTERN, CENTRAL = "cp1252", "cp1250"
OLDER_ENCODINGS = (WESTERN, CENTRAL, "cp1251", "koi8_r", "cp932", "euc_jp", "gb18030", "big5", "cp949")
SAMPLE_BYTES = 1 << 22  # of a file, to detect its encoding
MAX_SHOWN_CHARACTERS = 120
DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile, zlib.error)
UNDECODED = re.compile("[\udc80-\udcff]")  # invalid bytes, decoded with "surrogateescape"
NOT_UTF8 = "not UTF-8"
SIGNS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}
MAX_FIELD_CHARACTERS = 2**31 - 1
CHUNK_BYTES = 1 << 18
NOT_UNPACKED = {".7z", ".br", ".bz2", ".lz4", ".lzma", ".rar", ".tar", ".tbz2", ".tgz", ".txz", ".z", ".zst"}
FIRST_RECORD = 2
CHUNK_ROWS = 10_000
SEPARATOR_LINE = re.compile(r"sep=(.)\s*", re.IGNORECASE)  # the first line of Excel's files
# Fields with several values in columns of the same name, and the separator that joins them.
MULTIVALUED = {"component": ", ", "version": ", ", "attachments": ";", "labels": ";", "duplicate": ";"}
Cell = tuple[int, str]  # row and column


def read_table(
    path: Path,
    separator: str | None = ",",
    encoding: str | None = None,
    expected: Collection[str] = (),
    may_repeat: bool = False,
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Reads a CSV file with a header; all values are strings, and missing ones are empty.

    ``path`` is a ``.csv``, plain or compressed as ``.zip``, ``.xz`` or ``.gz``, or see ``read_sheet``; a byte order
    mark is dropped. ``may_repeat`` allows column names to repeat. For the other arguments see ``find_dialect``.

    Returns:
        The table, indexed by row, and warnings about the detected format and about replaced bytes.

    Raises:
        ValueError: The file is missing, damaged or empty, or a row does not fit the header.
    """
    if not path.exists():
        raise ValueError(f"{path}: no such file")
    sheet = read_sheet(path)
    if sheet is not None:
        return sheet, ()
    with open_packed(path, path.suffix) as stream:
        dialect = find_dialect(stream.read(HEAD_BYTES), path, separator, encoding, expected)
        stream.seek(0)
        table, replaced = read_rows(stream, path, dialect, may_repeat)
    detected = detect_encoding(path) if replaced and encoding is None else ""
    if detected:
        warning = f"{path.name} is not UTF-8 and is read as {detected}: if letters are wrong, set dataset.encoding="
        dialect = dialect._replace(encoding=detected, warnings=(*dialect.warnings, warning))
        with open_packed(path, path.suffix) as stream:
            table, replaced = read_rows(stream, path, dialect, may_repeat)
    if not replaced:
        return table, dialect.warnings
    num_rows = len({row for row, _ in replaced})
    row, column = replaced[0]
    name = NOT_UTF8 if dialect.encoding == DEFAULT_ENCODING else f"not {dialect.encoding}"
    warning = (
        f"rows of {path.name} with bytes that are {name}: {num_rows:,}, replaced by U+FFFD (first: row {row}, column"
        f" {column!r})"
    )
    return table, (*dialect.warnings, warning)


def read_header(path: Path, separator: str | None = None, encoding: str | None = None) -> list[str]:
    """Reads the column names of a CSV file, see ``find_dialect``. Raises ValueError if it is empty."""
    sheet = read_sheet(path)
    if sheet is not None:
        return sheet.columns.tolist()
    with open_packed(path, path.suffix) as stream:
        head = stream.read(HEAD_BYTES)
    return table_rows(head, path, separator, encoding)[0]


def table_rows(
    content: bytes, path: Path, separator: str | None = None, encoding: str | None = DEFAULT_ENCODING
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The header of a CSV file, and its rows with their numbers; see ``find_dialect``."""
    dialect = find_dialect(content[:HEAD_BYTES], path, separator, encoding, ())
    records = csv_records(BytesIO(content), path, dialect)
    return header_of(records, path), enumerate(records, start=FIRST_RECORD)


def read_sheet(path: Path) -> pd.DataFrame | None:
    """The table of a Parquet file or, with openpyxl, of an Excel workbook, as text; ``None`` for other files.

    Raises:
        ValueError: The file is another workbook or a web page under the name of a table, or is damaged.
    """
    check_regular(path)
    with path.open("rb") as stream:
        head = stream.read(len(PARQUET))
    try:
        if head == PARQUET:
            from pyarrow.parquet import read_metadata

            table = read_metadata(path)
            groups = (table.row_group(number).total_byte_size for number in range(table.num_row_groups))
            check_size(path, table.num_rows * table.num_columns + sum(groups))
            return text_table(pd.read_parquet(path))
        if head == ZIP and path.suffix.lower() != ".zip":
            with zipfile.ZipFile(path) as workbook:
                check_size(path, sum(part.file_size for part in workbook.infolist()))
            return text_table(pd.read_excel(path, dtype=object))
    except ImportError as error:
        raise ValueError(f"{path}: this is an Excel workbook: save it as CSV, or install openpyxl") from error
    except (*DAMAGED, OSError, ValueError, KeyError) as error:
        reason = str(error).removeprefix(f"{path}: ")[:160]
        raise ValueError(f"{path}: the table cannot be read ({reason}); save it as CSV") from error
    if head == OLD_EXCEL:
        raise ValueError(f"{path}: this is an Excel workbook of before 2007: save it as CSV")
    if head.startswith(b"<"):
        raise ValueError(f"{path}: this is a web page or an HTML table, whatever its name says: save it as CSV")
    return None


def text_table(frame: pd.DataFrame) -> pd.DataFrame:
    """A table with its values as a CSV file would hold them, indexed by row."""
    table = pd.DataFrame({str(column): _as_texts(values) for column, values in frame.items()}, dtype=str)
    table.index = pd.RangeIndex(FIRST_RECORD, FIRST_RECORD + len(table))
    return table


def _as_texts(values: pd.Series) -> list[str]:
    texts = []
    for value in values.tolist():
        if isinstance(value, np.ndarray | list):
            texts.append(str([str(item) for item in value]))
        elif isinstance(value, datetime) and not pd.isna(value):
            texts.append(value.isoformat())
        else:
            texts.append("" if pd.isna(value) else str(value))
    return texts


def header_of(records: Iterator[list[str]], path: Path) -> list[str]:
    """The column names in the first record. Raises ValueError if there is none."""
    header = [column.strip() for column in next(records, [])]
    if not header:
        raise ValueError(f"{path}: the file is empty; it needs a header and one row per report")
    return header


@contextmanager
def open_packed(
    path: Path, suffix: str, kinds: tuple[str, ...] = ("csv",), limit: UnpackLimit | None = None
) -> Iterator[IO[bytes]]:
    """Opens a plain or compressed file, with a limit on the unpacked bytes.

    Args:
        path: The file.
        suffix: The compression: ``.zip``, ``.xz`` or ``.gz``; other files are plain.
        kinds: Suffixes of the file inside a zip archive; other files are ignored.
        limit: A limit that several files share; ``None`` for this file alone.

    Raises:
        ValueError: It is no regular file; or the archive is damaged, unsupported, or too large, possibly only while it
            is read.
    """
    openers: dict[str, Any] = {".zip": partial(open_zip, kinds=kinds), ".xz": lzma.open, ".gz": gzip.open}
    opener = openers.get(suffix.lower())
    if opener is None and suffix.lower() in NOT_UNPACKED:
        raise ValueError(f"{path}: {suffix} files are not supported: pack it as .gz, .xz or .zip")
    check_regular(path)
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
        # zipfile's messages may quote many bytes, so cut them off.
        raise ValueError(f"{path}: the archive is damaged ({str(error)[:120]}); download or pack it again") from error


def open_zip(path: Path, mode: str, kinds: tuple[str, ...]) -> IO[bytes]:
    """Opens the only file of these kinds in a zip archive."""
    endings = tuple(f".{kind}" for kind in kinds)
    with zipfile.ZipFile(path) as archive:
        # macOS adds a folder __MACOSX with a file of the same ending.
        files = [name for name in archive.namelist() if name.lower().endswith(endings) and "__MACOSX" not in name]
        if len(files) != 1:
            names = " or ".join(kind.upper() for kind in kinds)
            raise ValueError(f"{path}: the archive holds {len(files)} {names} files; it must hold exactly one")
        if archive.getinfo(files[0]).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # zipfile unpacks a chunk of the others as a whole: a few bytes of bzip2 may become gigabytes.
            raise ValueError(f"{path}: the archive is not packed by deflate, as zip does it: pack the file again")
        try:
            return archive.open(files[0])
        except RuntimeError as error:
            raise ValueError(f"{path}: the archive cannot be unpacked ({error}); pack the file again") from error


class Dialect(NamedTuple):
    """The format of a CSV file."""

    separator: str = ","  # the character between two columns
    encoding: str = DEFAULT_ENCODING  # a codec of Python
    warnings: tuple[str, ...] = ()  # warnings about a separator other than a comma, or an encoding other than UTF-8
    names_separator: bool = False  # whether the first line names the separator, such as ``sep=;``


def read_rows(
    stream: IO[bytes], path: Path, dialect: Dialect, may_repeat: bool = False
) -> tuple[pd.DataFrame, list[Cell]]:
    """The table of the records, indexed by row, and the cells with replaced bytes."""
    records = csv_records(stream, path, dialect)
    header = header_of(records, path)
    replaced = replace_bytes([header], header, 1)
    if header[0].startswith(("{", "[")):
        raise ValueError(
            f"{path}: looks like JSON, not CSV: name it .json and leave dataset= out, or set dataset=records"
        )
    repeated = [column for column, count in Counter(header).items() if count > 1]
    if repeated and not may_repeat:
        raise _repeated(path, repeated[0])
    tables: list[pd.DataFrame] = []
    row = FIRST_RECORD
    pace = Pace(f"read {path.name}", "rows", None)
    # In chunks, as lists of all records would take many times the memory of the file.
    while chunk := list(islice(records, CHUNK_ROWS)):
        replaced += replace_bytes(chunk, header, row)
        index = pd.RangeIndex(row, row + len(chunk))
        tables.append(pd.DataFrame(chunk, columns=header, index=index, dtype=str))
        row += len(chunk)
        pace.update(row)
    if not tables:
        raise ValueError(f"{path}: there are no rows below the header; add one row per report")
    return pd.concat(tables), replaced


def csv_records(stream: IO[bytes], path: Path, dialect: Dialect) -> Iterator[list[str]]:
    """Yields the records, header first, without empty lines.

    Raises:
        ValueError: The file is not in its encoding, a quoted field does not end, or a row does not fit the header.
    """
    # Invalid bytes are replaced later; in UTF-16 they would shift the rest of the text.
    errors = "surrogateescape" if is_bytewise(dialect.encoding) else "strict"
    csv.field_size_limit(MAX_FIELD_CHARACTERS)
    row = 0
    num_columns = 0
    try:
        lines = TextIOWrapper(stream, encoding=dialect.encoding, errors=errors, newline="")
        if dialect.names_separator:
            next(lines)
        for record in filter(None, csv.reader(lines, delimiter=dialect.separator, strict=True)):
            row += 1
            num_columns = num_columns or len(record)
            if len(record) != num_columns:
                raise ValueError(
                    f"{path}, row {row}: {len(record)} fields under a header of {num_columns}; quote fields that"
                    f" contain {SIGNS.get(dialect.separator, repr(dialect.separator))}, quotes or line breaks"
                )
            yield record
    except csv.Error as error:
        raise ValueError(
            f"{path}, row {row + 1}: not readable as CSV ({error}); "
            "close every quoted field with a quote and double the quotes inside it"
        ) from error
    except UnicodeError as error:
        raise ValueError(
            f"{path}, row {row + 1}: not readable as {dialect.encoding} ({error}): set dataset.encoding="
        ) from error


def detect_encoding(path: Path) -> str:
    """Detects the legacy encoding of a file; empty for damaged UTF-8 or if none is detected."""
    from charset_normalizer import from_bytes

    with open_packed(path, path.suffix) as stream:
        lines = [line for line in stream.readlines(SAMPLE_BYTES) if not line.isascii()]
    valid = sum(line.decode(errors="ignore").encode() == line for line in lines)
    if 10 * valid >= len(lines):
        return ""  # damaged UTF-8
    sample = b"".join(lines)
    match = from_bytes(sample, cp_isolation=list(OLDER_ENCODINGS)).best()
    if match is None:
        return ""
    # Western European words are also valid in the Central European encoding, but not vice versa.
    is_western = match.encoding == CENTRAL and from_bytes(sample, cp_isolation=[WESTERN]).best() is not None
    return WESTERN if is_western else match.encoding


def replace_bytes(records: list[list[str]], header: list[str], first_row: int) -> list[Cell]:
    """Replaces each invalid byte by U+FFFD, in place; returns the affected cells."""
    cells = []
    for row, record in enumerate(records, start=first_row):
        for position, field in enumerate(record):
            # isascii() is a fast check that almost all fields pass.
            if not field.isascii() and UNDECODED.search(field):
                record[position] = UNDECODED.sub("\ufffd", field)
                cells.append((row, header[position]))
    return cells


def take_columns(table: pd.DataFrame, columns: Columns, path: Path) -> pd.DataFrame:
    """Selects and renames the columns of ``DOCUMENT_FIELDS``, ``resolved_at``, ``duplicate`` and ``group``.

    Args:
        table: Text, indexed by row.
        columns: Field to column of the file, or to several of which the first that is not empty counts in each row;
            ``None`` leaves the field empty.
        path: The file, for messages.

    Raises:
        ValueError: A field is unknown; ``id``, ``title`` or a given ``duplicate`` column is missing; the column of a
            field with a single value occurs twice.
    """
    fields = (*DOCUMENT_FIELDS, RESOLVED_AT, "duplicate", "group")
    named = {field: names_of(columns[field]) for field in fields if columns.get(field)}
    unknown = [field for field in columns if field not in fields]
    if unknown:
        raise ValueError(f"dataset.columns.{unknown[0]}: no such field; the fields are {', '.join(fields)}")
    absent = [field for field, names in named.items() if not set(names) <= set(table.columns)]
    needed = [field for field in ("id", "title") if columns.get(field) is None or field in absent]
    has_group = "group" in named and "group" not in absent
    needed += [field for field in ("duplicate", "group") if field in absent and not has_group]
    if needed:
        problems = [f"no column {columns[field]!r}" if columns.get(field) else "no column is named" for field in needed]
        lacking = ", ".join(f"{problem} for {field}" for problem, field in zip(problems, needed, strict=True))
        options = ", ".join(f"dataset.columns.{field}" for field in needed)
        choice = "to one of them" if len(needed) == 1 else "to one of them each"
        if {"duplicate", "group"} & set(needed):
            choice += ", or null if the tracker records no duplicates"
        raise ValueError(
            f"{path}, row 1: {lacking}; the columns are {', '.join(table.columns)}. Set {options} {choice}"
        )
    values = dict.fromkeys(fields, "") | {
        field: _first_values(table, names, field, path) for field, names in named.items() if field not in absent
    }
    return pd.DataFrame(values, index=table.index, dtype=str)


def names_of(columns: str | Sequence[str]) -> Sequence[str]:
    """The columns of a field as a list."""
    return [columns] if isinstance(columns, str) else columns


def _first_values(table: pd.DataFrame, names: Sequence[str], field: str, path: Path) -> pd.Series:
    """The values of a field ``(N,)``: the first of several columns that is not empty in each row."""
    values = _values(table, names[0], field, path)
    for name in names[1:]:
        values = values.where(values.str.strip() != "", _values(table, name, field, path))
    return values


def _values(table: pd.DataFrame, column: str, field: str, path: Path) -> pd.Series:
    """The values of a field ``(N,)``, joined if several columns have its name."""
    matching = table.loc[:, table.columns == column]
    if matching.shape[1] == 1:
        return matching[column]
    if field not in MULTIVALUED:
        raise _repeated(path, column)
    joiner = MULTIVALUED[field]
    return pd.Series([joiner.join(filter(None, row)) for row in matching.to_numpy()], index=table.index, dtype=str)


def _repeated(path: Path, column: str) -> ValueError:
    return ValueError(f"{path}, row 1: the column {column!r} occurs twice; rename one of them")


def find_dialect(
    head: bytes, path: Path, separator: str | None, encoding: str | None, expected: Collection[str]
) -> Dialect:
    """Detects the separator and the encoding if they are not given.

    The encoding is that of the byte order mark, or else UTF-8. The separator is the one of comma, semicolon, tab and
    pipe that yields most of the expected columns, or else the only one in the header.

    Args:
        head: The first ``HEAD_BYTES`` of the file.
        path: The file, for messages.
        separator: One character, or its name in ``SEPARATORS``; ``None`` to detect it.
        encoding: A codec of Python, such as ``cp1252``; ``None`` to detect it.
        expected: Names of the columns that the file should have.

    Raises:
        ValueError: The separator or the encoding is unknown, or cannot be detected.
    """
    warnings = []
    if encoding is None:
        encoding = json.detect_encoding(head) if head.startswith(MARKS) else DEFAULT_ENCODING
        if encoding != DEFAULT_ENCODING:
            warnings.append(f"{path.name} is read as {encoding}, according to its byte order mark")
    header, second = _first_lines(head, path, encoding)
    separator_line = SEPARATOR_LINE.fullmatch(header)
    if separator_line:
        header = second
        separator = separator or separator_line[1]
    if separator is None:
        name = _detect_separator(header, path, expected)
        if name != "comma":
            warnings.append(f"columns of {path.name} are separated by {name}")
        separator = name
    character = SEPARATORS.get(separator, separator)
    if len(character) != 1 or character in '"\r\n':
        raise ValueError(f"dataset.separator={separator} must be one character or {', '.join(SEPARATORS)}")
    return Dialect(character, encoding, tuple(warnings), separator_line is not None)


def _first_lines(head: bytes, path: Path, encoding: str) -> tuple[str, str]:
    """The first two nonempty lines, padded with empty ones."""
    try:
        # An incremental decoder accepts a head that ends within a character.
        decoder = codecs.getincrementaldecoder(encoding)("surrogateescape" if is_bytewise(encoding) else "strict")
        text = decoder.decode(head)
    except LookupError as error:
        raise ValueError(f"dataset.encoding={encoding} is unknown: utf-8, utf-16, cp1252, latin-1, ...") from error
    except UnicodeError as error:
        raise ValueError(f"{path}: not readable as {encoding} ({error}): set dataset.encoding=") from error
    if "\0" in text:
        raise ValueError(f"{path}: not readable as {encoding} (it contains zero bytes): try dataset.encoding=utf-16-le")
    first, second, *_ = [*filter(None, text.splitlines()), "", ""]
    return first, second


def is_bytewise(encoding: str) -> bool:
    """Whether text around an invalid byte is decoded correctly, unlike in UTF-16 and UTF-32."""
    return not codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))


def _detect_separator(header: str, path: Path, expected: Collection[str]) -> str:
    """Detects the name of the separator of a header. Raises ValueError if that fails."""
    if not header or header.strip() in expected:
        return "comma"  # a single column has no separator
    columns: dict[str, list[str]] = {}
    for name, separator in SEPARATORS.items():
        with suppress(csv.Error):
            columns[name] = next(csv.reader([header], delimiter=separator))
    matches = {name: len({column.strip() for column in names} & set(expected)) for name, names in columns.items()}
    # max returns the first of equal ones: comma before semicolon.
    best = max(matches, key=lambda name: matches[name], default="comma")
    if matches.get(best):
        return best
    separators = [name for name, names in columns.items() if len(names) > 1]
    if "comma" in separators or len(separators) == 1:
        return separators[0]
    raise ValueError(
        f"{path}, row 1: no comma, semicolon, tab or pipe separates the columns of the header"
        f" {header[:MAX_SHOWN_CHARACTERS]!r}: set dataset.separator=, or dataset.encoding= if it is not readable"
    )
