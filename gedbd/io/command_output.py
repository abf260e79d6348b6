"""The results of a command: tables in the terminal, or with ``json=true`` one JSON document on standard output.

A table that is too wide for the terminal becomes a list of records. The document has all digits. Functions that print a
table also record it, ``record(results=table)``, which does nothing without ``json=true``.
"""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TextIO

from gedbd.io.console import is_first_process, print_hanging, print_line, printable

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

MAX_UNWRAPPED = 26  # characters of the widest cell; wider columns are wrapped
MIN_TEXT_WIDTH = 18  # characters of a wrapped column
INDENT = "  "
DIGITS = r"<?[-+]?[\d.,]+%?"
NUMBER = rf"({DIGITS}|{DIGITS} to {DIGITS}|nan|\d{{4}}-\d\d-\d\d|-)?"  # or an interval, a date, a missing value


class _Output(NamedTuple):
    """The document of the running command, and where it is printed."""

    stream: TextIO
    document: dict[str, Any]


_output: _Output | None = None


@contextmanager
def json_output(is_enabled: bool) -> Iterator[None]:
    """Collects the values that a command records, and prints them at the end as one line of JSON.

    Other output goes to standard error. A command that fails prints no document, and only the first process prints.

    Args:
        is_enabled: Whether the command has the option ``json=true``; False changes nothing.
    """
    global _output
    if not is_enabled:
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
    """Whether the running command prints JSON instead of tables."""
    return _output is not None


def record(**values: Any) -> None:
    """Adds values to the JSON document of the running command.

    Tables become lists of rows; missing values, NaN and infinities become null; dates and paths become strings.
    """
    if _output is not None:
        _output.document.update({name: _plain(value) for name, value in values.items()})


@contextmanager
def recorded_part(name: str, /, **values: Any) -> Iterator[None]:
    """Appends the values that are recorded inside the context, after ``values``, as an element of the list ``name``."""
    global _output
    if _output is None:
        yield
        return
    outer = _output
    _output = _Output(outer.stream, {})
    record(**values)
    try:
        yield
        outer.document.setdefault(name, []).append(_output.document)
    finally:
        _output = outer


def finish_document() -> None:
    """Prints and clears the document, if there is one."""
    if _output is not None and _output.document:
        write_json(_output.document)
        _output.document.clear()


def write_json(value: Any) -> None:
    """Prints one line of ASCII JSON to standard output, even where other output goes to standard error."""
    write_json_line(json.dumps(_plain(value), allow_nan=False))


def write_json_line(line: str) -> None:
    """Prints a line of JSON to standard output."""
    if is_first_process():
        print(line, file=sys.stdout if _output is None else _output.stream, flush=True)


def _plain(value: Any) -> Any:
    """Converts a value to types of JSON."""
    if hasattr(value, "to_dict") and hasattr(value, "columns"):  # a pandas table
        columns = {str(name): [_plain(cell) for cell in column.array] for name, column in value.items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return _plain_object(value)


def _plain_object(value: Any) -> Any:
    """Converts a value of NumPy or pandas, a date or a path to types of JSON."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat() if value == value else None  # NaT is unequal to itself
    if hasattr(value, "tolist"):  # a number or an array of NumPy
        plain = value.tolist()
        # float32 0.1 is 0.10000000149 in float64; str gives the digits of the CSV file.
        return _plain(float(str(value)) if isinstance(plain, float) else plain)
    raise TypeError(f"{type(value).__name__} cannot be recorded")


class _Column(NamedTuple):
    """A column and its widths."""

    heading: str  # its heading
    justify: Literal["left", "right"]  # ``right`` for numbers and dates
    widest: int  # width of the widest cell, or of the longest word of the heading
    longest_word: int  # width of the longest word of the cells and the heading

    @property
    def is_wrapped(self) -> bool:
        """Whether its cells may take several lines."""
        return self.widest > MAX_UNWRAPPED

    @property
    def min_width(self) -> int:
        """The smallest width at which no word is cut."""
        return min(self.widest, max(self.longest_word, MIN_TEXT_WIDTH)) if self.is_wrapped else self.widest


def print_table(console: "Console", frame: "pd.DataFrame", title: str) -> None:
    """Prints a table with three decimals, unless ``json=true``.

    A table that is too wide for the terminal is transposed; if that is too wide too, each row is printed as a record,
    one field per line.
    """
    if is_json_asked():
        return
    texts = _as_text(frame)
    columns = _describe_all(texts)
    if title:
        print_line(console, f"\n{title}", style="italic")
    if _min_width(columns) <= console.width:
        console.print(_table(texts, columns))
        return
    transposed = _transposed(texts)
    transposed_columns = _describe_all(transposed)
    if _min_width(transposed_columns) <= console.width:
        console.print(_table(transposed, transposed_columns))
    else:
        print_records(console, texts)


def print_records(console: "Console", frame: "pd.DataFrame") -> None:
    """Prints each row of a table of texts as a record, one nonempty field per line, with empty lines in between."""
    width = max((len(_heading(name)) for name in frame), default=0)
    for position, row in enumerate(frame.to_dict("records")):
        if position:
            console.print()
        for name, text in row.items():
            if text:
                print_hanging(console, f"{INDENT}{_heading(name):<{width}}  ", text)


def _as_text(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The cells as text; floats have three decimals."""
    import pandas as pd

    cells = [
        [printable(f"{value:.3f}" if isinstance(value, float) else str(value)) for value in row]
        for row in frame.to_numpy()
    ]
    return pd.DataFrame(cells, columns=frame.columns, dtype=object)


def _transposed(texts: "pd.DataFrame") -> "pd.DataFrame":
    """Transposes a table; the first column gives the headings.

    The rows ``("bm25", "0.5")`` and ``("frozen", "0.6")`` of the columns method and F1 become the row
    ``("f1", "0.5", "0.6")`` of the columns method, bm25 and frozen.
    """
    import pandas as pd

    first, *rest = texts.columns
    rows = [[_heading(name), *texts[name]] for name in rest]
    return pd.DataFrame(rows, columns=[first, *texts[first]], dtype=object)


def _describe_all(texts: "pd.DataFrame") -> list[_Column]:
    # By position, since two columns may have the same heading.
    return [_describe(texts.iloc[:, position]) for position in range(texts.shape[1])]


def _describe(texts: "pd.Series") -> _Column:
    from rich.cells import cell_len  # a Chinese character takes two columns of a terminal

    heading = _heading(texts.name)
    is_number = bool(texts.str.fullmatch(NUMBER).all())
    # Headings may be wrapped between words, cells only if they are long.
    widest = max((cell_len(text) for text in [*heading.split(), *texts]), default=0)
    words = [word for text in (heading, *texts) for word in text.split()]
    longest_word = max(map(cell_len, words), default=0)
    return _Column(heading, "right" if is_number else "left", widest, longest_word)


def _min_width(columns: Sequence[_Column]) -> int:
    """The minimum width of the table, with a blank between two columns."""
    return sum(column.min_width for column in columns) + len(columns) - 1


def _table(texts: "pd.DataFrame", columns: Sequence[_Column]) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False, pad_edge=False)
    for column in columns:
        width = None if column.is_wrapped else column.widest
        table.add_column(escape(column.heading), justify=column.justify, width=width, min_width=column.min_width)
    for row in texts.to_numpy():
        table.add_row(*map(escape, row))
    return table


def _heading(name: object) -> str:
    return printable(str(name)).replace("_", " ")
