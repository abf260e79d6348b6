"""The commits of a repository in the form in which they are ranked: counts of words and edited places, no texts."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.localization.change_ranking.change_index import ChangeIndex
from gedbd.localization.change_ranking.change_table import ChangeTable, empty_table, read_tables
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.text.words import CodeWords

SEPARATOR = "\0"  # no path, word or id holds one


class ChangeQuery(NamedTuple):
    """A report that changes are ranked for.

    Attributes:
        title: Its title.
        description: Its description.
        created_at: When it was created; None for now.
    """

    title: str
    description: str
    created_at: pd.Timestamp | None = None


class ChangeHistory:
    """The commits of a repository in chronological order.

    Attributes:
        ids: Ids of the commits.
        created_at: ``(N,)`` their dates.
        vocabulary: Numbers of the words of messages and diffs.
        table: The counts and edits of commits and of their files.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.created_at = np.empty(0, dtype="datetime64[s]")
        self.vocabulary = Vocabulary()
        self.table = empty_table()

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def index(self) -> ChangeIndex:
        """What queries look up, made when it is first needed."""
        return ChangeIndex(self.table)

    def add(self, commits: pd.DataFrame, files: pd.DataFrame) -> None:
        """Adds commits that are not there yet, of any date.

        Args:
            commits: A table of ``ChangeCorpus.commits``.
            files: The files of these commits; ``commit`` is a row of ``commits``.
        """
        self.table = self.table.joined(read_tables(commits, files, CodeWords(), self.vocabulary))
        self.ids = self.ids + commits["id"].tolist()
        moments = commits["created_at"].dt.tz_localize(None).to_numpy().astype("datetime64[s]")
        self.created_at = np.concatenate([self.created_at, moments])
        self._take(np.argsort(self.created_at, kind="stable"))

    def without(self, ids: set[str]) -> "ChangeHistory":
        """The history without some commits."""
        other = ChangeHistory()
        other.ids = self.ids
        other.created_at = self.created_at
        other.vocabulary = self.vocabulary
        other.table = self.table
        other._take(np.array([row for row, id_ in enumerate(self.ids) if id_ not in ids], dtype=np.int64))
        return other

    def num_before(self, moment: pd.Timestamp | None) -> int:
        """How many commits are before a moment; all for None."""
        if moment is None:
            return len(self)
        return int(np.searchsorted(self.created_at, in_utc(moment), side="left"))

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as arrays, to store it."""
        strings = {"ids": self.ids, "terms": self.vocabulary.terms, "paths": self.table.paths}
        encoded = {name: _encoded(values) for name, values in strings.items()}
        return encoded | {"created_at": self.created_at} | self.table.arrays()

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "ChangeHistory":
        """The history that ``arrays`` was called on."""
        history = cls()
        history.ids = _decoded(arrays["ids"])
        history.created_at = arrays["created_at"]
        history.vocabulary = Vocabulary(_decoded(arrays["terms"]))
        history.table = ChangeTable.of_arrays(arrays, _decoded(arrays["paths"]))
        return history

    def _take(self, rows: np.ndarray) -> None:
        """Keeps some commits in a given order."""
        self.ids = [self.ids[row] for row in rows]
        self.created_at = self.created_at[rows]
        self.table = self.table.take(rows)
        self.__dict__.pop("index", None)  # made of the table before


def in_utc(moment: pd.Timestamp) -> np.datetime64:
    """A moment in UTC to the microsecond; one without a time zone is in UTC."""
    plain = moment if moment.tzinfo is None else moment.tz_convert(None)
    return plain.as_unit("us").to_datetime64()


def _encoded(values: Sequence[str]) -> np.ndarray:
    """Strings as bytes; one that no file may hold, such as a lone surrogate, stays as it is."""
    return np.frombuffer(
        "".join(value + SEPARATOR for value in values).encode("utf-8", "surrogatepass"), dtype=np.uint8
    )


def _decoded(array: np.ndarray) -> list[str]:
    return array.tobytes().decode("utf-8", "surrogatepass").split(SEPARATOR)[:-1]
