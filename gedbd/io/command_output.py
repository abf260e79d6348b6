"""The results of a command: tables in the terminal, or with ``json=true`` one JSON document on standard output.

In the terminal, every cell has whole words; a table that is too wide becomes a list of records. The document has all
digits. Functions that print a table also record it: ``record(results=table)``. Without ``json=true`` nothing is kept.
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

MAX_UNWRAPPED = 26  # characters of the widest cell of a column that is never wrapped
MIN_TEXT_WIDTH = 18  # of a column with longer texts: narrower ones are hard to read
INDENT = "  "
DIGITS = r"<?[-+]?[\d.,]+%?"
NUMBER = rf"({DIGITS}|{DIGITS} to {DIGITS}|nan|\d{{4}}-\d\d-\d\d|-)?"  # also an interval, a date, a missing value


class _Output(NamedTuple):
    """Where the running command writes its document, and what it holds so far."""

    stream: TextIO
    document: dict[str, Any]


_output: _Output | None = None


@contextmanager
def json_output(asked: bool) -> Iterator[None]:
    """Collects what is recorded while a command runs, and prints it at the end as one line of JSON.

    What the command prints meanwhile goes to standard error. A command that fails prints no document, and of several
    processes only the first one prints.

    Args:
        asked: Whether the command has the option ``json=true``; false changes nothing.
    """
    global _output
    if not asked:
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
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
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


class _Column(NamedTuple):
    """A column and its widths.

    Attributes:
        heading: Its heading.
        justify: Numbers and dates stand to the right.
        widest: Characters of the widest cell, or of the longest word of the heading.
        longest_word: Characters of the longest word of all cells and the heading.
    """

    heading: str
    justify: Literal["left", "right"]
    widest: int
    longest_word: int

    @property
    def is_wrapped(self) -> bool:
        """Whether its cells may take several lines."""
        return self.widest > MAX_UNWRAPPED

    @property
    def min_width(self) -> int:
        """Characters that it needs at least so that no word is cut."""
        return min(self.widest, max(self.longest_word, MIN_TEXT_WIDTH)) if self.is_wrapped else self.widest


def print_table(console: "Console", frame: "pd.DataFrame", title: str) -> None:
    """Prints a table below its title: numbers have three decimals, underscores in headings become blanks.

    With ``json=true`` the document holds the table instead. Where the terminal is too narrow for it, rows and columns
    change places if that fits; if not, every row is printed as a record, one field a line.

    Args:
        console: Where the table goes.
        frame: The table as it is to be read, see ``with_intervals``.
        title: A line above it; empty for none.
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
    turned = _turned(texts)
    turned_columns = _describe_all(turned)
    if _min_width(turned_columns) <= console.width:
        console.print(_table(turned, turned_columns))
    else:
        print_records(console, texts)


def print_records(console: "Console", frame: "pd.DataFrame") -> None:
    """Prints every row of a table of texts as a record: a line for each field that is not empty.

    An empty line separates two records.
    """
    width = max((len(_heading(name)) for name in frame), default=0)
    for position, row in enumerate(frame.to_dict("records")):
        if position:
            console.print()
        for name, text in row.items():
            if text:
                print_hanging(console, f"{INDENT}{_heading(name):<{width}}  ", text)


def _as_text(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The cells as they are shown; floats have three decimals."""
    import pandas as pd

    cells = [[_cell(value) for value in row] for row in frame.to_numpy()]
    return pd.DataFrame(cells, columns=frame.columns, dtype=object)


def _cell(value: object) -> str:
    """A cell in one line, safe for the terminal."""
    return printable(f"{value:.3f}" if isinstance(value, float) else str(value))


def _turned(texts: "pd.DataFrame") -> "pd.DataFrame":
    """Rows and columns exchanged: the first column gives the headings.

    The rows ``("bm25", "0.5")`` and ``("frozen", "0.6")`` of the columns method and F1 become the row
    ``("f1", "0.5", "0.6")`` of the columns method, bm25 and frozen.
    """
    import pandas as pd

    first, *rest = texts.columns
    rows = [[_heading(name), *texts[name]] for name in rest]
    return pd.DataFrame(rows, columns=[first, *texts[first]], dtype=object)


def _describe_all(texts: "pd.DataFrame") -> list[_Column]:
    # by position: two columns may have the same heading
    return [_describe(texts.iloc[:, position]) for position in range(texts.shape[1])]


def _describe(texts: "pd.Series") -> _Column:
    from rich.cells import cell_len  # counts the columns of a terminal: a Chinese sign takes two

    heading = _heading(texts.name)
    is_number = bool(texts.str.fullmatch(NUMBER).all())
    # Headings may be wrapped between words, cells only if they are long.
    widest = max((cell_len(text) for text in [*heading.split(), *texts]), default=0)
    words = [word for text in (heading, *texts) for word in text.split()]
    longest_word = max(map(cell_len, words), default=0)
    return _Column(heading, "right" if is_number else "left", widest, longest_word)


def _min_width(columns: Sequence[_Column]) -> int:
    """Characters of a line of the table: a blank between two columns."""
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
