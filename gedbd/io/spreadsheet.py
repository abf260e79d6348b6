"""CSV files that people open in a spreadsheet program, which runs a cell that begins like a formula.

Every CSV file that holds text of a tracker is written through ``safe_cells``: an apostrophe in front of such a cell
makes it text. Files that the package reads back are Parquet or JSON, but for captions, which are read with
``plain_cell``.
"""

import pandas as pd

FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
APOSTROPHE = "'"


def safe_cell(value: object) -> object:
    """A text that would be run, with an apostrophe in front of it; anything else as it is.

    Carriage returns become line feeds: pandas writes them without quotes, and so a cell could end and a row begin.
    """
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    return f"{APOSTROPHE}{text}" if text.startswith(FORMULA_SIGNS) else text


def plain_cell(text: str) -> str:
    """What ``safe_cell`` was given, but for carriage returns."""
    is_safe = text.startswith(APOSTROPHE) and text[1:].startswith(FORMULA_SIGNS)
    return text[1:] if is_safe else text


def safe_cells(table: pd.DataFrame) -> pd.DataFrame:
    """A copy of a table whose texts no spreadsheet program runs; numbers stay numbers."""
    safe = table.copy()
    for name in table.columns:
        if not (pd.api.types.is_numeric_dtype(table[name]) or pd.api.types.is_datetime64_any_dtype(table[name])):
            safe[name] = pd.Series([safe_cell(value) for value in table[name]], index=table.index, dtype=object)
    return safe
