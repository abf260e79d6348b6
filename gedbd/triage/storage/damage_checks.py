"""Checks the features in an index file for damage."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gedbd.triage.storage.rows import TERM_COLUMNS, FeatureRow

CURE = "restore it from a copy, or delete it and build it again with gedbd index"


def check_features(rows: Sequence[FeatureRow], dim: int, terms: int, path: Path) -> None:
    """Checks that the features of all reports are valid.

    Args:
        rows: The features of all reports.
        dim: Size D of the vectors.
        terms: Number of terms in the index.
        path: The file, for the error message.

    Raises:
        ValueError: If a vector has another length or a value that is not finite, or a term number is unknown.
    """
    itemsize = np.dtype(np.float32).itemsize  # that of int32 too
    kinds = (str, str | None, str | None, *[str] * 4, bytes, *[bytes] * len(TERM_COLUMNS))  # SQLite checks no types
    for row in rows:
        if not all(map(isinstance, row, kinds)):
            raise damaged(path, f"a value of report {str(row.issue_id)[:100]} has the wrong type")
        if len(row.vector) != dim * itemsize:
            size = len(row.vector) / itemsize
            raise damaged(path, f"the vector of report {row.issue_id} has {size:g} numbers, not {dim}")
        if any(len(getattr(row, column)) % itemsize for column in TERM_COLUMNS):
            raise damaged(path, f"the words of report {row.issue_id} are cut off")
    vectors = np.frombuffer(b"".join(row.vector for row in rows), dtype=np.float32).reshape(len(rows), dim)
    invalid = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(invalid):
        raise damaged(path, f"the vector of report {rows[invalid[0]].issue_id} has a value that is not a number")
    for part in TERM_COLUMNS:
        numbers = np.frombuffer(b"".join(getattr(row, part) for row in rows), dtype=np.int32)
        if numbers.max(initial=-1) >= terms or numbers.min(initial=0) < 0:
            raise damaged(path, f"a report has words that are not among its {terms:,} terms")


def damaged(path: Path, reason: str) -> ValueError:
    """The error for a damaged file."""
    return ValueError(f"{path} is damaged ({reason}): {CURE}")


def not_an_index(path: Path, reason: str) -> ValueError:
    """The error for a file of another kind."""
    return ValueError(f"{path} is not an index ({reason}): build one with gedbd index")
