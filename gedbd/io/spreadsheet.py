"""CSV files that are safe to open in a spreadsheet program, which runs cells that begin like a formula.

``gedbd.io.tables`` writes every CSV file through ``safe_cells`` and reads it back with ``plain_cells``: an apostrophe
in front of such a cell makes it text. A column of numbers stays one, also where they are texts.
"""

import re

import pandas as pd

FORMULA_SIGNS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
LINE_SIGNS = ("\t", "\n", "\r")
QUOTES = ("'", '"', " ")
APOSTROPHE = "'"
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf", re.ASCII)


def safe_cell(value: object) -> object:
    """Puts an apostrophe in front of a text that would be run; other values do not change.

    Carriage returns become line feeds: pandas does not quote them, so that they could end a row.
    """
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    return f"{APOSTROPHE}{text}" if _is_run(text) else text


def plain_cell(text: str) -> str:
    """The inverse of ``safe_cell``, except for carriage returns."""
    return text[1:] if text.startswith(APOSTROPHE) and _is_run(text[1:]) else text


def safe_cells(table: pd.DataFrame) -> pd.DataFrame:
    """A copy of a table whose texts and names of columns are safe in a spreadsheet program; other values stay."""
    safe = table.copy()
    for place in range(table.shape[1]):
        column = table.iloc[:, place]
        if not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_datetime64_any_dtype(column)):
            safe.isetitem(place, pd.Series(_safe_column(list(column)), dtype=object).array)
    return safe.set_axis([safe_cell(name) for name in table.columns], axis="columns")


def plain_cells(table: pd.DataFrame) -> pd.DataFrame:
    """The inverse of ``safe_cells``, for a table that was read from a CSV file."""
    plain = table.rename(columns=lambda name: plain_cell(str(name)))
    for place in range(table.shape[1]):
        column = plain.iloc[:, place]
        if not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)):
            plain.isetitem(
                place, column.map(lambda value: plain_cell(value) if isinstance(value, str) else value).array
            )
    return plain


def _safe_column(values: list[object]) -> list[object]:
    """The values of a column; numbers in texts, such as the options of a sweep, are no formulas."""
    texts = [value for value in values if isinstance(value, str)]
    if texts and all(NUMBER.fullmatch(text) for text in texts):
        return values
    return [safe_cell(value) for value in values]


def _is_run(text: str) -> bool:
    """Whether a text begins like a formula, behind quotes, blanks and characters without a shape; or with a tab."""
    for sign in text:
        if sign in LINE_SIGNS or sign in FORMULA_SIGNS:
            return True
        if sign.isprintable() and sign not in QUOTES:
            return False
    return False
