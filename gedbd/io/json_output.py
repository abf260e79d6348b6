"""The JSON document of a command with ``json=true``: its tables with all digits, and nothing else on standard output.

Functions that print a table also record it: ``record(results=table)``. Without ``json=true`` nothing is kept.
"""

import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from gedbd.io.console import is_first_process


class _Output(NamedTuple):
    """Where the running command writes its document, and what it holds so far."""

    stream: TextIO
    document: dict[str, Any]


_output: _Output | None = None


@contextmanager
def json_output(asked: bool) -> Iterator[None]:
    """Collects what is recorded while a command runs, and prints it at the end as one line of JSON.

    What the command prints meanwhile goes to standard error. A command that fails prints no document, and of several
    processes only the first one prints. Within another ``json_output`` this does nothing.

    Args:
        asked: Whether the command has the option ``json=true``; false changes nothing.
    """
    global _output
    if not asked or _output is not None:
        yield
        return
    _output = _Output(sys.stdout, {})
    try:
        with redirect_stdout(sys.stderr):
            yield
            finish_document()
    finally:
        _output = None


def is_json_asked() -> bool:
    """Whether the running command prints a document, so that no tables are shown."""
    return _output is not None


def record(**values: Any) -> None:
    """Adds values to the document of the running command: tables, texts, numbers, lists and mappings.

    A table becomes a list of rows; missing values, NaN and infinities become null, dates and paths texts.
    """
    if _output is not None:
        _output.document.update({name: _plain(value) for name, value in values.items()})


@contextmanager
def recorded_part(name: str, /, **values: Any) -> Iterator[None]:
    """Records what is recorded within it as a further element of a list.

    Args:
        name: The list's name in the document.
        values: The first values of the element.
    """
    global _output
    if _output is None:
        yield
        return
    whole = _output
    _output = _Output(whole.stream, {})
    record(**values)
    try:
        yield
        whole.document.setdefault(name, []).append(_output.document)
    finally:
        _output = whole


def discard_recorded() -> None:
    """Forgets what was recorded so far: the document of a sweep holds its table, not the last job's results."""
    if _output is not None:
        _output.document.clear()


def finish_document() -> None:
    """Prints the document, if there is one, and begins another."""
    if _output is not None and _output.document:
        write_json(_output.document)
        _output.document.clear()


def write_json(value: Any) -> None:
    """Prints one line of JSON on standard output at once, also where other output goes to standard error.

    It is of ASCII, so that no terminal and no encoding changes it.
    """
    write_json_line(json.dumps(_plain(value), allow_nan=False))


def write_json_line(line: str) -> None:
    """Prints a line that is JSON already, see ``write_json``."""
    if is_first_process():
        print(line, file=sys.stdout if _output is None else _output.stream, flush=True)


def _plain(value: Any) -> Any:
    """A value of types that JSON has."""
    if hasattr(value, "to_dict") and hasattr(value, "columns"):  # a pandas table
        columns = {str(name): [_plain(cell) for cell in column.array] for name, column in value.items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return _plain_object(value)


def _plain_object(value: Any) -> Any:
    """A value of numpy or pandas, a date or a path, by types that JSON has."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat() if value == value else None  # NaT is unequal to itself
    if hasattr(value, "tolist"):  # a number or an array of numpy
        plain = value.tolist()
        # The float32 0.1 is 0.10000000149 in float64: its own digits are those in the CSV file.
        return _plain(float(str(value)) if isinstance(plain, float) else plain)
    raise TypeError(f"{type(value).__name__} cannot be recorded")
