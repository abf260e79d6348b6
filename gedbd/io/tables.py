"""CSV and Parquet tables: written as a whole, read with errors that name file and row."""

import csv
import io
from pathlib import Path

import pandas as pd
from pandas.errors import ParserError

from gedbd.io.files import replacing
from gedbd.io.spreadsheet import plain_cells, safe_cells


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Replaces a CSV file as a whole, without the table's index; no spreadsheet program runs a cell of it."""
    with replacing(path) as unfinished:
        safe_cells(table).to_csv(unfinished, index=False)


def write_parquet(path: Path, table: pd.DataFrame) -> None:
    """Replaces a Parquet file as a whole, without the table's index."""
    with replacing(path) as unfinished:
        table.to_parquet(unfinished, index=False)


def read_csv(path: Path, *numbers: str) -> pd.DataFrame:
    """Reads a CSV table that a command has written.

    Args:
        path: The file.
        numbers: Columns that must hold numbers.

    Raises:
        ValueError: If rows are missing or truncated, or a column is missing or holds no numbers; names the file, and
            the row as the line number of a text editor.
    """
    _check_rows(path)
    try:
        table = plain_cells(pd.read_csv(path))
    except (ParserError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is damaged: {str(error).partition(chr(10))[0]}") from error
    for name in numbers:
        if name not in table:
            raise ValueError(f"{path} is damaged: it has no column {name!r}")
        wrong = pd.to_numeric(table[name], errors="coerce").isna() & table[name].notna()
        if wrong.any():
            row = int(wrong.to_numpy().argmax())  # row 0 is in line 2, below the header
            raise ValueError(f"{path}, row {row + 2}: {name} is {table[name][row]!r}, not a number")
    return table


def read_parquet(path: Path) -> pd.DataFrame:
    """Reads a Parquet table that a command has written. Raises ValueError, naming the file, if it is damaged."""
    try:
        return pd.read_parquet(path)
    except (ValueError, OSError) as error:  # pyarrow's ArrowInvalid is a ValueError
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise ValueError(f"{path} is damaged: {str(error).partition(chr(10))[0]}") from error


def _check_rows(path: Path) -> None:
    """Raises ValueError if a CSV file has no rows, rows of different lengths, or no line break at its end."""
    text = path.read_text(encoding="utf-8", errors="replace")
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        width = len(next(rows, []))
        for row in rows:
            if len(row) != width:
                raise ValueError(
                    f"{path}, row {rows.line_num}: {len(row)} values instead of {width}: the file is truncated"
                )
    except csv.Error as error:
        raise ValueError(f"{path}, row {rows.line_num}: {error}") from error
    if rows.line_num < 2:
        raise ValueError(f"{path} is damaged: it holds no rows")
    if not text.endswith("\n"):
        raise ValueError(f"{path}, row {rows.line_num}: the line has no end: the file is truncated")
