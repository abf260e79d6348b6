"""The results of a command: tables in the terminal, or with ``json=true`` one JSON document on standard output.

A table that is too wide for the terminal becomes a list of records. The document has all digits. Functions that print a
table also record it, ``record(results=table)``, which does nothing without ``json=true``.
"""

import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from gedbd.io.console import UNWRAPPED_WIDTH, is_first_process, print_hanging, print_line, printable

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

MAX_UNWRAPPED = 26  # characters of the widest cell; wider columns are wrapped
MIN_TEXT_WIDTH = 18  # characters of a wrapped column
INDENT = "  "
DIGITS = r"<?[-+]?[\d.,]+%?"
NUMBER = rf"({DIGITS}|{DIGITS} to {DIGITS}|nan|\d{{4}}-\d\d-\d\d|-)?"  # or an interval, a date, a missing value


_document: dict[str, Any] | None = None  # of the running command; None without json=true
_stdout: TextIO | None = None  # where it is printed


@contextmanager
def json_output(is_enabled: bool) -> Iterator[None]:
    """Collects the values that a command records, and prints them at the end as one line of JSON.

    Other output goes to standard error. A command that fails prints no document, and only the first process prints.

    Args:
        is_enabled: Whether the command has the option ``json=true``; False changes nothing.
    """
    global _document, _stdout
    if not is_enabled:
        yield
        return
    _document, _stdout = {}, sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            yield
            finish_document()
    finally:
        _document = _stdout = None


def is_json_asked() -> bool:
    """Whether the running command prints JSON instead of tables."""
    return _document is not None


def record(**values: Any) -> None:
    """Adds values to the JSON document of the running command.

    Tables become lists of rows; missing values, NaN and infinities become null; dates and paths become strings.
    """
    if _document is not None:
        _document.update({name: _plain(value) for name, value in values.items()})


@contextmanager
def recorded_part(name: str, /, **values: Any) -> Iterator[None]:
    """Appends the values that are recorded inside the context, after ``values``, as an element of the list ``name``."""
    global _document
    if _document is None:
        yield
        return
    outer, _document = _document, {}
    record(**values)
    try:
        yield
        outer.setdefault(name, []).append(_document)
    finally:
        _document = outer


def finish_document() -> None:
    """Prints and clears the document, if there is one."""
    if _document:
        write_json_line(json.dumps(_document, allow_nan=False))
        _document.clear()


def write_json_line(line: str) -> None:
    """Prints a line of JSON to standard output, even where other output goes to standard error."""
    if is_first_process():
        print(line, file=_stdout or sys.stdout, flush=True)


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


def print_table(console: "Console", frame: "pd.DataFrame", title: str) -> None:
    """Prints a table with three decimals, unless ``json=true``.

    A table that is too wide for the terminal is transposed; if that is too wide too, each row is printed as a record,
    one field per line.
    """
    if is_json_asked():
        return
    texts = _as_text(frame)
    if title:
        print_line(console, f"\n{title}", style="italic")
    table = _table(texts)
    if not _fits(table, console):
        table = _table(_transposed(texts))
    if _fits(table, console):
        console.print(table)
    else:
        print_records(console, texts)


def _fits(table: "Table", console: "Console") -> bool:
    """Whether a table is printed with no word cut."""
    unbounded = console.options.update(width=UNWRAPPED_WIDTH)
    return table.__rich_measure__(console, unbounded).minimum <= console.width


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


def _table(texts: "pd.DataFrame") -> "Table":
    """A table whose long cells are wrapped, and whose numbers and dates are aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len  # a Chinese character takes two columns of a terminal
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False, pad_edge=False)
    for position, name in enumerate(texts.columns):
        cells = texts.iloc[:, position]  # by position, since two columns may have the same heading
        heading = _heading(name)
        justify: Literal["left", "right"] = "right" if cells.str.fullmatch(NUMBER).all() else "left"
        # Headings may be wrapped between words, cells only if they are long.
        width = max((cell_len(text) for text in [*heading.split(), *cells]), default=0)
        if width > MAX_UNWRAPPED:
            longest_word = max(map(cell_len, " ".join([heading, *cells]).split()))
            table.add_column(escape(heading), justify=justify, min_width=max(longest_word, MIN_TEXT_WIDTH))
        else:
            table.add_column(escape(heading), justify=justify, width=width)
    for row in texts.to_numpy():
        table.add_row(*map(escape, row))
    return table


def _heading(name: object) -> str:
    return printable(str(name)).replace("_", " ")
