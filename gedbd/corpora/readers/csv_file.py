"""Read a CSV file, plain or packed, into a table of text.

Rows are records, not lines: the header is row 1 and the first record is row 2, even if a field spans several lines.
"""

import codecs
import csv
import gzip
import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from io import BufferedReader, BytesIO, TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import pandas as pd

from gedbd.corpora.readers.bug_reports import DOCUMENT_FIELDS, RESOLVED_AT
from gedbd.io.unpacking import LimitedStream, UnpackLimit

HEAD_BYTES = 1 << 16
JIRA_COLUMNS = {"issue key", "summary"}
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
MARKS = (  # byte order marks; UTF-32 comes before UTF-16, whose mark is a prefix of its mark
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
DEFAULT_ENCODING = "utf-8-sig"
WESTERN, CENTRAL = "cp1252", "cp1250"
OLDER_ENCODINGS = (WESTERN, CENTRAL, "cp1251", "koi8_r", "cp932", "euc_jp", "gb18030", "big5", "cp949")
SAMPLE_BYTES = 1 << 22  # of a file, by whose lines an encoding is recognised
MAX_SHOWN_CHARACTERS = 120
DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile, zlib.error)
UNDECODED = re.compile("[\udc80-\udcff]")  # the codec error handler "surrogateescape" turns bytes into these
NOT_UTF8 = "not UTF-8"
SIGNS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}
MAX_FIELD_CHARACTERS = 2**31 - 1
CHUNK_BYTES = 1 << 18
NOT_UNPACKED = {".7z", ".br", ".bz2", ".lz4", ".lzma", ".rar", ".tar", ".tbz2", ".tgz", ".txz", ".z", ".zst"}
FIRST_RECORD = 2
PART_ROWS = 10_000
SEPARATOR_LINE = re.compile(r"sep=(.)\s*", re.IGNORECASE)  # Excel's first line, which is no row
# Fields that may have several values, each in a column of the same name, and what then separates them.
SEVERAL_VALUES = {"component": ", ", "version": ", ", "attachments": ";", "labels": ";", "duplicate": ";"}
RARELY_READ = ("labels", RESOLVED_AT)  # the tasks that read them say so where they are empty
Place = tuple[int, str]  # row and column


def read_table(
    path: Path,
    separator: str | None = ",",
    encoding: str | None = None,
    wanted: Collection[str] = (),
    may_repeat: bool = False,
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Read a CSV file with a header; all values are text, and an empty field is an empty text.

    Args:
        path: ``.csv``, or one packed as ``.zip``, ``.xz`` or ``.gz``. A byte order mark is dropped.
        separator: See ``find_dialect``.
        encoding: See ``find_dialect``.
        wanted: See ``find_dialect``.
        may_repeat: Whether several columns may have the same name, as they then have in the table.

    Returns:
        The table, indexed by row, and warnings about the detected format and about replaced bytes.

    Raises:
        ValueError: The file is missing, damaged, empty, has no record, or has a row that does not fit the header.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    with open_packed(path, path.suffix) as stream:
        dialect = find_dialect(stream.read(HEAD_BYTES), path, separator, encoding, wanted)
        stream.seek(0)
        table, replaced = read_rows(stream, path, dialect, may_repeat)
    recognised = recognise_encoding(path) if replaced and encoding is None else ""
    if recognised:
        notice = f"{path.name} is not UTF-8 and is read as {recognised}: if letters are wrong, set dataset.encoding="
        dialect = dialect._replace(encoding=recognised, warnings=(*dialect.warnings, notice))
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


def read_header(path: Path) -> list[str]:
    """The names of a file's columns; see ``read_table``. Raises ValueError if the file is empty."""
    with open_packed(path, path.suffix) as stream:
        head = stream.read(HEAD_BYTES)
    dialect = find_dialect(head, path, None, None, ())
    return header_of(read_records(BytesIO(head), path, dialect), path)


def header_of(records: Iterator[list[str]], path: Path) -> list[str]:
    """The names in the first record. Raises ValueError if there is none."""
    header = [column.strip() for column in next(records, [])]
    if not header:
        raise ValueError(f"{path}: the file is empty; it needs a header and one row per report")
    return header


@contextmanager
def open_packed(
    path: Path, suffix: str, kinds: tuple[str, ...] = ("csv",), limit: UnpackLimit | None = None
) -> Iterator[IO[bytes]]:
    """Open a plain or packed file; the number of unpacked bytes is limited.

    Args:
        path: The file.
        suffix: How it is packed: ``.zip``, ``.xz`` or ``.gz``. All others are read as plain files.
        kinds: Endings of the file inside a zip archive; files of other kinds are ignored.
        limit: A limit that several files share; ``None`` gives this file its own.

    Raises:
        ValueError: The archive is damaged, unpacks to too much (possibly only while it is read), or is of a kind that
            is not supported.
    """
    openers: dict[str, Any] = {".zip": partial(open_zip, kinds=kinds), ".xz": lzma.open, ".gz": gzip.open}
    opener = openers.get(suffix.lower())
    if opener is None and suffix.lower() in NOT_UNPACKED:
        raise ValueError(f"{path}: {suffix} files are not supported: pack it as .gz, .xz or .zip")
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
        # zipfile quotes all bytes that it finds in place of a name.
        raise ValueError(f"{path}: the archive is damaged ({str(error)[:120]}); download or pack it again") from error


def open_zip(path: Path, mode: str, kinds: tuple[str, ...]) -> IO[bytes]:
    """Open the single file of these kinds in a zip archive."""
    endings = tuple(f".{kind}" for kind in kinds)
    with zipfile.ZipFile(path) as archive:
        # macOS adds a folder __MACOSX with a file of the same ending.
        files = [name for name in archive.namelist() if name.lower().endswith(endings) and "__MACOSX" not in name]
        if len(files) != 1:
            what = " or ".join(kind.upper() for kind in kinds)
            raise ValueError(f"{path}: the archive holds {len(files)} {what} files; it must hold exactly one")
        try:
            return archive.open(files[0])
        except RuntimeError as error:
            raise ValueError(f"{path}: the archive cannot be unpacked ({error}); pack the file again") from error


class Dialect(NamedTuple):
    """The format of a CSV file.

    Attributes:
        separator: The character between two columns.
        encoding: A codec of Python.
        warnings: What was detected, unless it is a comma or UTF-8.
        names_separator: Whether the first line is ``sep=;``.
    """

    separator: str = ","
    encoding: str = DEFAULT_ENCODING
    warnings: tuple[str, ...] = ()
    names_separator: bool = False


def is_of_jira(header: Iterable[str]) -> bool:
    """Whether the columns are those of Jira's CSV export, some of which occur several times."""
    return {column.lower() for column in header} >= JIRA_COLUMNS


def check_not_jira(header: Iterable[str], path: Path) -> None:
    """Raises ValueError if the columns of a file that cannot be read otherwise are those of Jira's CSV export."""
    if is_of_jira(header):
        raise ValueError(f"{path}: this looks like a jira export: set dataset=jira")


def read_rows(
    stream: IO[bytes], path: Path, dialect: Dialect, may_repeat: bool = False
) -> tuple[pd.DataFrame, list[Place]]:
    """The table of the records below the header, indexed by row, and the places of replaced bytes."""
    records = read_records(stream, path, dialect)
    header = header_of(records, path)
    replaced = replace_bytes([header], header, 1)
    if header[0].startswith(("{", "[")):
        raise ValueError(f"{path}: looks like JSON, not CSV: set dataset= to github, gitlab, jira or bugzilla")
    doubled = [column for column, count in Counter(header).items() if count > 1]
    if doubled and not may_repeat:
        raise _repeated(path, doubled[0])
    tables: list[pd.DataFrame] = []
    row = FIRST_RECORD
    # Parts become tables one by one: the lists of all records would take many times the memory of the file.
    while part := list(islice(records, PART_ROWS)):
        for number, record in enumerate(part, start=row):
            if len(record) != len(header):
                raise ValueError(
                    f"{path}, row {number}: {len(record)} fields under a header of {len(header)}; quote fields that"
                    f" contain {SIGNS.get(dialect.separator, repr(dialect.separator))}, quotes or line breaks"
                )
        replaced += replace_bytes(part, header, row)
        index = pd.RangeIndex(row, row + len(part))
        tables.append(pd.DataFrame(part, columns=header, index=index, dtype=str))
        row += len(part)
    if not tables:
        raise ValueError(f"{path}: there are no rows below the header; add one row per report")
    return pd.concat(tables), replaced


def read_records(stream: IO[bytes], path: Path, dialect: Dialect) -> Iterator[list[str]]:
    """Yield the records one by one, header first, without empty lines.

    Raises:
        ValueError: The file is not in its encoding, or a quoted field does not end.
    """
    # Single invalid bytes are replaced later; in UTF-16 one of them shifts all that follows.
    errors = "surrogateescape" if is_bytewise(dialect.encoding) else "strict"
    csv.field_size_limit(MAX_FIELD_CHARACTERS)
    row = 0
    try:
        lines = TextIOWrapper(stream, encoding=dialect.encoding, errors=errors, newline="")
        if dialect.names_separator:
            next(lines)
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
            f"{path}, row {row + 1}: not readable as {dialect.encoding} ({error}): set dataset.encoding="
        ) from error


def recognise_encoding(path: Path) -> str:
    """The older encoding of a file that is not UTF-8; empty if most of it is, or if none is recognised."""
    from charset_normalizer import from_bytes

    with open_packed(path, path.suffix) as stream:
        lines = [line for line in stream.readlines(SAMPLE_BYTES) if not line.isascii()]
    valid = sum(is_utf8(line) for line in lines)
    if 10 * valid >= len(lines):
        return ""  # damaged UTF-8
    sample = b"".join(lines)
    match = from_bytes(sample, cp_isolation=list(OLDER_ENCODINGS)).best()
    if match is None:
        return ""
    # Words of western Europe read as well in the encoding of central Europe, but not the other way round.
    is_western = match.encoding == CENTRAL and from_bytes(sample, cp_isolation=[WESTERN]).best() is not None
    return WESTERN if is_western else match.encoding


def is_utf8(line: bytes) -> bool:
    """Whether bytes are valid UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def replace_bytes(records: list[list[str]], header: list[str], first_row: int) -> list[Place]:
    """Replace each invalid byte by U+FFFD, in place; return row and column of each such field."""
    places = []
    for row, record in enumerate(records, start=first_row):
        for position, field in enumerate(record):
            # isascii() is fast and true for almost all fields.
            if not field.isascii() and UNDECODED.search(field):
                record[position] = UNDECODED.sub("\ufffd", field)
                places.append((row, header[position]))
    return places


def take_columns(
    table: pd.DataFrame, columns: Mapping[str, str | None], path: Path
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Pick the columns of ``DOCUMENT_FIELDS``, ``resolved_at``, ``duplicate`` and ``group``, under these names.

    Args:
        table: Text, indexed by row.
        columns: Field to column of the file; ``None`` leaves the field empty.
        path: The file, for messages.

    Returns:
        The columns, and a warning about optional ones that the file does not have.

    Raises:
        ValueError: A field is unknown; ``id``, ``title`` or a named ``duplicate`` column is not in the file; the column
            of a field with a single value occurs twice.
    """
    fields = (*DOCUMENT_FIELDS, RESOLVED_AT, "duplicate", "group")
    unknown = [field for field in columns if field not in fields]
    if unknown:
        raise ValueError(f"dataset.columns.{unknown[0]}: no such field; the fields are {', '.join(fields)}")
    absent = [field for field in fields if columns.get(field) not in {None, *table.columns}]
    needed = [field for field in ("id", "title") if columns.get(field) is None or field in absent]
    has_group = columns.get("group") in table.columns
    needed += [field for field in ("duplicate", "group") if field in absent and not has_group]
    if needed:
        named = [f"no column {columns[field]!r}" if columns.get(field) else "no column is named" for field in needed]
        lacking = ", ".join(f"{what} for {field}" for what, field in zip(named, needed, strict=True))
        options = ", ".join(f"dataset.columns.{field}" for field in needed)
        to = "to one of them" if len(needed) == 1 else "to one of them each"
        if {"duplicate", "group"} & set(needed):
            to += ", or null if the tracker records no duplicates"
        raise ValueError(f"{path}, row 1: {lacking}; the columns are {', '.join(table.columns)}. Set {options} {to}")
    present = [field for field in fields if columns.get(field) and field not in absent]
    taken = dict.fromkeys(fields, "") | {field: _values(table, str(columns[field]), field, path) for field in present}
    missing = [field for field in absent if field not in RARELY_READ and not (field == "duplicate" and has_group)]
    warning = f"columns not in {path.name}, left empty: {', '.join(str(columns[field]) for field in missing)}"
    unread = [str(column) for column in table.columns if column not in columns.values()]
    if unread:
        warning += f"; its columns that are not read: {', '.join(unread)[:MAX_SHOWN_CHARACTERS]}"
    return pd.DataFrame(taken, index=table.index, dtype=str), (warning,) if missing else ()


def _values(table: pd.DataFrame, column: str, field: str, path: Path) -> pd.Series:
    """``(N,)`` values of a field: those of its column, or of all columns of that name where it may have several."""
    matching = table.loc[:, table.columns == column]
    if matching.shape[1] == 1:
        return matching[column]
    if field not in SEVERAL_VALUES:
        raise _repeated(path, column)
    between = SEVERAL_VALUES[field]
    return pd.Series([between.join(filter(None, row)) for row in matching.to_numpy()], index=table.index, dtype=str)


def _repeated(path: Path, column: str) -> ValueError:
    return ValueError(f"{path}, row 1: the column {column!r} occurs twice; rename one of them")


def find_dialect(
    head: bytes, path: Path, separator: str | None, encoding: str | None, wanted: Collection[str]
) -> Dialect:
    """Detect the separator and the encoding if they are not given.

    The encoding is that of the byte order mark, or else UTF-8. The separator is the one among comma, semicolon, tab
    and pipe that yields most of the wanted columns. If none yields any, it is the only one that occurs in the header.

    Args:
        head: The first ``HEAD_BYTES`` of the file.
        path: The file, for messages.
        separator: One character, or its name in ``SEPARATORS``; ``None`` to detect it.
        encoding: A codec of Python, such as ``cp1252``; ``None`` to detect it.
        wanted: Names of the columns that the file should have.

    Raises:
        ValueError: The separator or the encoding is unknown, or cannot be detected.
    """
    warnings = []
    if encoding is None:
        encoding = next((name for mark, name in MARKS if head.startswith(mark)), DEFAULT_ENCODING)
        if encoding != DEFAULT_ENCODING:
            warnings.append(f"{path.name} is read as {encoding}, according to its byte order mark")
    header, below = _first_lines(head, path, encoding)
    named = SEPARATOR_LINE.fullmatch(header)
    if named:
        header = below
        separator = separator or named[1]
    if separator is None:
        name = _detect_separator(header, path, wanted)
        if name != "comma":
            warnings.append(f"columns of {path.name} are separated by {name}")
        separator = name
    character = SEPARATORS.get(separator, separator)
    if len(character) != 1 or character in '"\r\n':
        raise ValueError(f"dataset.separator={separator} must be one character or {', '.join(SEPARATORS)}")
    return Dialect(character, encoding, tuple(warnings), named is not None)


def _first_lines(head: bytes, path: Path, encoding: str) -> tuple[str, str]:
    """The first two lines that are not empty, empty where there are none."""
    try:
        # An incremental decoder accepts a head that ends in the middle of a character.
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
    """Whether text around an invalid byte is decoded correctly, as in all encodings but UTF-16 and UTF-32."""
    return not codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))


def _detect_separator(header: str, path: Path, wanted: Collection[str]) -> str:
    """Name of the separator of a header. Raises ValueError if it cannot be detected."""
    if not header or header.strip() in wanted:
        return "comma"  # a single column has no separator
    columns: dict[str, list[str]] = {}
    for name, separator in SEPARATORS.items():
        with suppress(csv.Error):
            columns[name] = next(csv.reader([header], delimiter=separator))
    matches = {name: len({column.strip() for column in some} & set(wanted)) for name, some in columns.items()}
    # The first of several equal ones: comma before semicolon.
    best = max(matches, key=lambda name: matches[name], default="comma")
    if matches.get(best):
        return best
    several = [name for name, some in columns.items() if len(some) > 1]
    if "comma" in several or len(several) == 1:
        return several[0]
    raise ValueError(
        f"{path}, row 1: no comma, semicolon, tab or pipe separates the columns of the header"
        f" {header[:MAX_SHOWN_CHARACTERS]!r}: set dataset.separator=, or dataset.encoding= if it is not readable"
    )
