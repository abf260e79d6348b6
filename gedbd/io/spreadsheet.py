"""CSV files that are safe to open in a spreadsheet program, which runs cells that begin like a formula.

Every CSV file with text of a tracker is written through ``safe_cells``: an apostrophe in front of such a cell makes it
text. The package reads back Parquet and JSON files only, except for captions, which it reads with ``plain_cell``.
"""

import pandas as pd

FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
APOSTROPHE = "'"


def safe_cell(value: object) -> object:
    """Puts an apostrophe in front of a text that would be run; other values do not change.

    Carriage returns become line feeds: pandas does not quote them, so that they could end a row.
    """
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    return f"{APOSTROPHE}{text}" if text.startswith(FORMULA_SIGNS) else text


def plain_cell(text: str) -> str:
    """The inverse of ``safe_cell``, except for carriage returns."""
    is_safe = text.startswith(APOSTROPHE) and text[1:].startswith(FORMULA_SIGNS)
    return text[1:] if is_safe else text


def safe_cells(table: pd.DataFrame) -> pd.DataFrame:
    """A copy of a table whose texts are safe in a spreadsheet program; numbers and dates do not change."""
    safe = table.copy()
    for name in table.columns:
        if not (pd.api.types.is_numeric_dtype(table[name]) or pd.api.types.is_datetime64_any_dtype(table[name])):
            safe[name] = pd.Series([safe_cell(value) for value in table[name]], index=table.index, dtype=object)
    return safe
