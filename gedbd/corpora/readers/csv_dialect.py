"""How a CSV file is written: what separates its columns, and in which encoding; recognised from its header."""

import codecs
import csv
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

HEAD_BYTES = 1 << 16
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
MARKS = (  # byte order marks; UTF-32's begins with UTF-16's
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
DEFAULT_ENCODING = "utf-8-sig"
LONGEST_SHOWN = 120


class Dialect(NamedTuple):
    """How a CSV file is written.

    Attributes:
        separator: The character between two columns.
        encoding: A codec of Python.
        notices: What was recognised and is not a comma or UTF-8.
    """

    separator: str = ","
    encoding: str = DEFAULT_ENCODING
    notices: tuple[str, ...] = ()


def find_dialect(
    head: bytes, path: Path, separator: str | None, encoding: str | None, wanted: Collection[str]
) -> Dialect:
    """Recognises what is not given.

    The encoding is that of the byte order mark, else UTF-8. The separator is the one of comma, semicolon, tab and pipe
    under which most of the wanted columns are in the header; where none is, the only one that the header has.

    Args:
        head: The first ``HEAD_BYTES`` of the file.
        path: The file, for messages.
        separator: One character, or its name in ``SEPARATORS``; null to recognise it.
        encoding: A codec of Python, such as ``cp1252``; null to recognise it.
        wanted: Names of the columns that the file should have.

    Raises:
        ValueError: If separator or encoding is unknown, or cannot be recognised.
    """
    if encoding is None:
        encoding = next((name for mark, name in MARKS if head.startswith(mark)), DEFAULT_ENCODING)
        told = [] if encoding == DEFAULT_ENCODING else [f"{path.name} is read as {encoding}, by its byte order mark"]
    else:
        told = []
    header = _first_line(head, path, encoding)
    if separator is not None:
        character = SEPARATORS.get(separator, separator)
        if len(character) != 1 or character in '"\r\n':
            raise ValueError(f"dataset.separator={separator} must be one character or {', '.join(SEPARATORS)}")
        return Dialect(character, encoding, tuple(told))
    name = _recognise(header, wanted)
    if name is None:
        raise ValueError(
            f"{path}, row 1: no comma, semicolon, tab or pipe separates columns in the header"
            f" {header[:LONGEST_SHOWN]!r}: say dataset.separator=, or dataset.encoding= if it is not readable"
        )
    if name != "comma":
        told.append(f"columns of {path.name} are separated by {name}")
    return Dialect(SEPARATORS[name], encoding, tuple(told))


def _first_line(head: bytes, path: Path, encoding: str) -> str:
    """The first line that is not empty.

    Raises:
        ValueError: If the encoding is unknown, or not that of the file.
    """
    try:
        decoder = codecs.getincrementaldecoder(encoding)("surrogateescape" if is_bytewise(encoding) else "strict")
        text = decoder.decode(head)
    except LookupError as error:
        raise ValueError(f"dataset.encoding={encoding} is unknown: utf-8, utf-16, cp1252, latin-1, ...") from error
    except UnicodeError as error:
        raise ValueError(f"{path}: not readable as {encoding} ({error}): say dataset.encoding=") from error
    if "\0" in text:
        raise ValueError(f"{path}: not readable as {encoding} (it has zero bytes): try dataset.encoding=utf-16-le")
    return next((line for line in text.splitlines() if line), "")


def is_bytewise(encoding: str) -> bool:
    """Whether a byte that an encoding does not know can be told from the text around it."""
    return not codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))


def _recognise(header: str, wanted: Collection[str]) -> str | None:
    """Name of the separator of a header; null if it cannot be told."""
    if not header or header.strip() in wanted:
        return "comma"
    columns = {name: _columns(header, separator) for name, separator in SEPARATORS.items()}
    found = {name: len({column.strip() for column in some} & set(wanted)) for name, some in columns.items()}
    best = max(found, key=lambda name: found[name])
    if found[best]:
        return best
    several = [name for name, some in columns.items() if len(some) > 1]
    if "comma" in several or len(several) == 1:
        return several[0]
    return None


def _columns(header: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([header], delimiter=separator))
    except csv.Error:
        return []
