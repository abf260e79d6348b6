"""The commits of a repository, with their words and changes as arrays."""

from collections.abc import Mapping
from copy import copy
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.localization.change_ranking.change_table import ChangeTable, empty_table, read_tables
from gedbd.retrieval.inverted_index import Vocabulary
from gedbd.text.words import CodeWords

SEPARATOR = "\0"  # occurs in no path, word or id


class ChangeQuery(NamedTuple):
    """A report as a query; without a date, all commits are before it."""

    title: str
    description: str
    created_at: pd.Timestamp | None = None


class ChangeHistory:
    """The commits of a repository in chronological order."""

    def __init__(self) -> None:
        self.ids: list[str] = []  # ids of the commits
        self.created_at = np.empty(0, dtype="datetime64[s]")  # ``(N,)`` dates of the commits
        self.vocabulary = Vocabulary()  # numbers of the words of messages and diffs
        self.table = empty_table()  # counts and edits of commits and their files

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, commits: pd.DataFrame, files: pd.DataFrame) -> None:
        """Adds new commits of any date; ``commit`` of a file is a row of ``commits``."""
        self.table = self.table.joined(read_tables(commits, files, CodeWords(), self.vocabulary))
        self.ids = self.ids + commits["id"].tolist()
        dates = commits["created_at"].dt.tz_localize(None).to_numpy().astype("datetime64[s]")
        self.created_at = np.concatenate([self.created_at, dates])
        self._take(np.argsort(self.created_at, kind="stable"))

    def without(self, ids: set[str]) -> "ChangeHistory":
        """The history without the commits ``ids``."""
        other = copy(self)
        other._take(np.array([row for row, id_ in enumerate(self.ids) if id_ not in ids], dtype=np.int64))
        return other

    def num_before(self, moment: pd.Timestamp | None) -> int:
        """Number of commits before a time; all for None."""
        if moment is None:
            return len(self)
        return int(np.searchsorted(self.created_at, in_utc(moment), side="left"))

    def arrays(self) -> dict[str, np.ndarray]:
        """The history as arrays, for storage."""
        arrays = {"created_at": self.created_at}
        for name, values in (("ids", self.ids), ("terms", self.vocabulary.terms), ("paths", self.table.paths)):
            content = "".join(value + SEPARATOR for value in values).encode("utf-8", "surrogatepass")
            arrays[name] = np.frombuffer(content, dtype=np.uint8)
        return arrays | self.table.arrays()

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "ChangeHistory":
        """The history from the result of ``arrays``."""
        history = cls()
        history.ids = _decoded(arrays["ids"])
        history.created_at = arrays["created_at"]
        history.vocabulary = Vocabulary(_decoded(arrays["terms"]))
        history.table = ChangeTable.of_arrays(arrays, _decoded(arrays["paths"]))
        return history

    def _take(self, rows: np.ndarray) -> None:
        """Keeps the commits ``rows`` in this order."""
        self.ids = [self.ids[row] for row in rows]
        self.created_at = self.created_at[rows]
        self.table = self.table.take(rows)


def in_utc(moment: pd.Timestamp) -> np.datetime64:
    """A time in UTC to the microsecond; a time without a zone counts as UTC."""
    utc = moment if moment.tzinfo is None else moment.tz_convert(None)
    return utc.as_unit("us").to_datetime64()


def _decoded(array: np.ndarray) -> list[str]:
    return array.tobytes().decode("utf-8", "surrogatepass").split(SEPARATOR)[:-1]
