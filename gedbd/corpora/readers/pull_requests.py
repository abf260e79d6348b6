"""Find the pull requests that trackers list among their issues."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from gedbd.corpora.readers.duplicate_cells import FALSE, NOTHING, plain_id

PULL_REQUESTS = "pull requests among the issues"
FLAG = re.compile(r"is_?(?:pull_?request|pr)", re.IGNORECASE)
MARK = re.compile(r"pull_?request(?:[._](?:\w+_)?url)?", re.IGNORECASE)  # also as pandas flattens objects
KIND = re.compile(r"(?:pull|merge)[ _-]?request", re.IGNORECASE)
KINDS = ("__typename", "type")  # keys
PAGES = ("url", "html_url", "web_url")  # keys
NUMBER = re.compile(r"(?:/pulls?/|^#?)(\d+)")
NO = {*NOTHING, *FALSE, "0"}


def is_pull_request(record: Mapping[str, Any], number: str = "") -> bool:
    """Whether a record of a tracker, or a row of a table, is a pull request.

    Args:
        record: Key or column to value: ``isPullRequest``, ``pull_request`` or ``pull_request.url``, ``__typename``, or
            the address of the page.
        number: Its number, if known; an issue may hold the address or number of another pull request, which fixes it.
    """
    for key, value in record.items():
        written = str(value).strip() if value else ""
        is_mark = MARK.fullmatch(key) or (key in PAGES and "/pull/" in written)
        if key in KINDS and KIND.fullmatch(written):
            return True
        if (is_mark or FLAG.fullmatch(key)) and written.lower() not in NO:
            named = NUMBER.search(written) if is_mark else None
            if not number or not named or named[1] == number:
                return True
    return False


def without_pull_requests(table: pd.DataFrame, ids: str | None) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The rows of a table that are no pull requests, and a warning that counts the others.

    Args:
        table: Text, one row per issue.
        ids: The column of the issues' numbers.
    """
    told = [
        column
        for column in dict.fromkeys(table.columns)
        if FLAG.fullmatch(column)
        or MARK.fullmatch(column)
        or (column in (*KINDS, *PAGES) and table[column].str.contains("request|/pull/", case=False).any())
    ]
    if not told or ids not in table:
        return table, ()
    rows = zip(table[told].to_numpy(), table[ids], strict=True)
    dropped = [is_pull_request(dict(zip(told, row, strict=True)), plain_id(number)) for row, number in rows]
    count = sum(dropped)
    return table[~np.array(dropped)], (f"{PULL_REQUESTS}: {count:,}, dropped",) if count else ()
