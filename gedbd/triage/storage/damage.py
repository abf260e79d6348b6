"""Tells what an index file holds from what damage has made of it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gedbd.triage.storage.rows import Row

CURE = "restore it from a copy, or delete it and build it again with python -m gedbd.index"


def check_numbers(rows: Sequence[Row], dim: int, terms: int, path: Path) -> None:
    """Checks that numbers fit together.

    Args:
        rows: Those of all reports.
        dim: Size D of their vectors.
        terms: How many terms there are.
        path: The file, for the error message.

    Raises:
        ValueError: If a vector has another length or holds what is no number, or a term is none of those.
    """
    itemsize = np.dtype(np.float32).itemsize
    kinds = (str, str | None, str, str, bytes, bytes, bytes)
    for row in rows:
        if not all(map(isinstance, row, kinds)):
            raise damaged(path, f"report {str(row.issue_id)[:100]} holds text where numbers belong, or the reverse")
        if len(row.vector) != dim * itemsize:
            size = len(row.vector) / itemsize
            raise damaged(path, f"the vector of report {row.issue_id} has {size:g} numbers, not {dim}")
        if len(row.text) % itemsize or len(row.heading) % itemsize:
            raise damaged(path, f"the words of report {row.issue_id} are cut off")
    vectors = np.frombuffer(b"".join(row.vector for row in rows), dtype=np.float32).reshape(len(rows), dim)
    strange = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(strange):
        raise damaged(path, f"the vector of report {rows[strange[0]].issue_id} holds what is no number")
    for part in ("text", "heading"):
        numbers = np.frombuffer(b"".join(getattr(row, part) for row in rows), dtype=np.int32)
        if numbers.max(initial=-1) >= terms or numbers.min(initial=0) < 0:
            raise damaged(path, f"a report has words that are not among its {terms:,}")


def damaged(path: Path, what: str) -> ValueError:
    """The error that says so."""
    return ValueError(f"{path} is damaged ({what}): {CURE}")
