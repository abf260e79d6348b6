"""Tables in CSV, Parquet and LaTeX files, read with errors that name file and row; and files of vectors."""

import csv
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.errors import ParserError

from gedbd.io.files import check_regular, replacing, write_text

FORMULA_SIGNS = "=+-@\uff1d\uff0b\uff0d\uff20\t\n\r"
QUOTES = "'\" "
APOSTROPHE = "'"
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf", re.ASCII)


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Replaces a CSV file atomically, without the table's index; spreadsheet programs run none of its cells."""
    with replacing(path) as unfinished:
        safe_cells(table).to_csv(unfinished, index=False)


def write_latex(path: Path, table: pd.DataFrame, comment: str) -> None:
    """Replaces a LaTeX file atomically by a one-line comment and a table for booktabs, with three decimals."""
    write_text(path, f"% {' '.join(comment.splitlines())}\n{latex(table)}")


def latex(table: pd.DataFrame, alignment: str | None = None) -> str:
    """A table in LaTeX, for the package booktabs, without its index; texts are escaped.

    Args:
        table: The table; numbers get three decimals.
        alignment: A letter for each column, ``l`` or ``r``; None aligns numbers to the right.
    """
    escaped = table.to_latex(index=False, escape=True, float_format="%.3f", na_rep="", column_format=alignment)
    return escaped.replace("<", "$<$")  # pandas does not escape it, and LaTeX's default font shows another character


def write_parquet(path: Path, table: pd.DataFrame) -> None:
    """Replaces a Parquet file atomically, without the table's index."""
    with replacing(path) as unfinished:
        table.to_parquet(unfinished, index=False)


def read_csv(path: Path, *numbers: str) -> pd.DataFrame:
    """Reads a CSV table that a command has written.

    Raises:
        ValueError: If rows are missing or truncated, or a column is missing or holds no numbers; the message names the
            file, and as the row the line number of a text editor.
    """
    _check_rows(path)
    try:
        table = plain_cells(pd.read_csv(path))
    except (ParserError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is damaged: {str(error).partition(chr(10))[0]}") from error
    for name in numbers:
        if name not in table:
            raise ValueError(f"{path} is damaged: it has no column {name!r}")
        is_invalid = pd.to_numeric(table[name], errors="coerce").isna() & table[name].notna()
        if is_invalid.any():
            row = int(is_invalid.to_numpy().argmax())  # row 0 is in line 2, below the header
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
    check_regular(path)
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


def safe_cell(value: object) -> object:
    """Puts an apostrophe before a text that a spreadsheet program would run; other values do not change.

    Carriage returns become line feeds: pandas does not quote them, so that they could end a row.
    """
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    return f"{APOSTROPHE}{text}" if _is_formula(text) else text


def plain_cell(text: str) -> str:
    """The inverse of ``safe_cell``, except for carriage returns."""
    return text[1:] if text.startswith(APOSTROPHE) and _is_formula(text[1:]) else text


def safe_cells(table: pd.DataFrame) -> pd.DataFrame:
    """A copy of a table whose texts and names of columns are safe in a spreadsheet program; other values stay."""
    safe = table.copy()
    for column_number in range(table.shape[1]):
        column = table.iloc[:, column_number]
        if not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_datetime64_any_dtype(column)):
            values = list(column)
            texts = [value for value in values if isinstance(value, str)]
            # Texts that are numbers, such as the options of a sweep, are not formulas.
            if not texts or not all(NUMBER.fullmatch(text) for text in texts):
                values = [safe_cell(value) for value in values]
            safe.isetitem(column_number, pd.Series(values, dtype=object).array)
    return safe.set_axis([safe_cell(name) for name in table.columns], axis="columns")


def plain_cells(table: pd.DataFrame) -> pd.DataFrame:
    """The inverse of ``safe_cells``, for a table that was read from a CSV file."""
    plain = table.rename(columns=lambda name: plain_cell(str(name)))
    return plain.map(lambda value: plain_cell(value) if isinstance(value, str) else value)


def _is_formula(text: str) -> bool:
    """Whether a text begins like a formula, after quotes, blanks and invisible characters; or with a tab."""
    for sign in text:
        if sign in FORMULA_SIGNS:
            return True
        if sign.isprintable() and sign not in QUOTES:
            return False
    return False


def check_writable(path: Path, ending: str, content: str) -> None:
    """Checks that a command can write its result.

    Raises:
        ValueError: If it has another ending, or its folder is missing or not writable.
    """
    if path.suffix != ending:
        raise ValueError(f"out={path} must end in {ending}: {content}")
    if path.is_dir() or not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
        raise ValueError(f"out={path} cannot be written: give a file in an existing, writable folder")


def save_vectors(path: Path, ids: pd.Series, vectors: np.ndarray) -> None:
    """Writes ``id`` ``(N,)`` as text and ``vectors`` ``(N, D)`` float32; an interrupted call leaves no file."""
    with replacing(path) as unfinished:
        np.savez(unfinished, id=ids.to_numpy(dtype=str), vectors=vectors)


def write_faiss(path: Path, ids: Sequence[str], vectors: np.ndarray) -> tuple[Path, Path]:
    """Writes an exact index of inner products; an interrupted call leaves the former files.

    Args:
        path: The file.
        ids: N ids; row i of the index is line i of the file of ids.
        vectors: ``(N, D)`` float32 unit rows, whose inner products are cosines.

    Returns:
        The file, and that of the ids, whose name ends in ``.ids.txt``.

    Raises:
        OSError: If they cannot be written.
    """
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(np.ascontiguousarray(vectors, dtype=np.float32))
    ids_path = path.with_name(f"{path.name}.ids.txt")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as unfinished:
        unfinished.write_bytes(faiss.serialize_index(index).tobytes())
    write_text(ids_path, "".join(f"{issue_id}\n" for issue_id in ids))
    return path, ids_path
