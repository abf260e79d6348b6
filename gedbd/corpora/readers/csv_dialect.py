"""Detect the separator and the encoding of a CSV file from its header."""

import codecs
import csv
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import pandas as pd

HEAD_BYTES = 1 << 16
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
MARKS = (  # byte order marks; UTF-32 comes before UTF-16, whose mark is a prefix of its mark
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
DEFAULT_ENCODING = "utf-8-sig"
MAX_SHOWN_CHARACTERS = 120


class Dialect(NamedTuple):
    """The format of a CSV file.

    Attributes:
        separator: The character between two columns.
        encoding: A codec of Python.
        warnings: What was detected, unless it is a comma or UTF-8.
    """

    separator: str = ","
    encoding: str = DEFAULT_ENCODING
    warnings: tuple[str, ...] = ()


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
    header = _first_line(head, path, encoding)
    if separator is None:
        name = _detect_separator(header, path, wanted)
        if name != "comma":
            warnings.append(f"columns of {path.name} are separated by {name}")
        separator = name
    character = SEPARATORS.get(separator, separator)
    if len(character) != 1 or character in '"\r\n':
        raise ValueError(f"dataset.separator={separator} must be one character or {', '.join(SEPARATORS)}")
    return Dialect(character, encoding, tuple(warnings))


def _first_line(head: bytes, path: Path, encoding: str) -> str:
    """The first line that is not empty.

    Raises:
        ValueError: The encoding is unknown, or is not that of the file.
    """
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
    return next((line for line in text.splitlines() if line), "")


def is_bytewise(encoding: str) -> bool:
    """Whether text around an invalid byte is decoded correctly, as in all encodings but UTF-16 and UTF-32."""
    return not codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))


def _detect_separator(header: str, path: Path, wanted: Collection[str]) -> str:
    """Name of the separator of a header.

    Raises:
        ValueError: It cannot be detected.
    """
    if not header or header.strip() in wanted:
        return "comma"  # a single column has no separator
    columns = {name: _columns(header, separator) for name, separator in SEPARATORS.items()}
    matches = {name: len({column.strip() for column in some} & set(wanted)) for name, some in columns.items()}
    best = max(matches, key=lambda name: matches[name])  # the first of several equal ones: comma before semicolon
    if matches[best]:
        return best
    several = [name for name, some in columns.items() if len(some) > 1]
    if "comma" in several or len(several) == 1:
        return several[0]
    raise ValueError(
        f"{path}, row 1: no comma, semicolon, tab or pipe separates the columns of the header"
        f" {header[:MAX_SHOWN_CHARACTERS]!r}: set dataset.separator=, or dataset.encoding= if it is not readable"
    )


def _columns(header: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([header], delimiter=separator))
    except csv.Error:
        return []


def missing_column(field: str, column: str | None, table: pd.DataFrame, path: Path) -> str:
    """The message that names a missing column, the existing ones, and the option that selects one."""
    what = "no column is named" if column is None else f"no column {column!r}"
    none = ", or null if the tracker records no duplicates" if field == "duplicate" else ""
    return (
        f"{path}, row 1: {what} for {field}; the columns are {', '.join(table.columns)}. "
        f"Set dataset.columns.{field} to one of them{none}"
    )
