"""What the ranking reads of the commits of a repository: counts of words and numbers, no texts."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.retrieval.inverted_index import InvertedIndex
from gedbd.retrieval.vocabulary import Vocabulary, words


class ChangeQuery(NamedTuple):
    """A report that changes are ranked for.

    Attributes:
        title: Its title.
        description: Its description.
        created_at: When it was created; None for now.
        vector: ``(D,)`` unit vector of its text; None without an encoder.
    """

    title: str
    description: str
    created_at: pd.Timestamp | None = None
    vector: np.ndarray | None = None


class ChangeHistory:
    """The commits of a repository in chronological order, in the form in which they are ranked."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.created_at = np.empty(0, dtype="datetime64[s]")
        self.vocabulary = Vocabulary()
        self.texts: list[np.ndarray] = []
        self.index = InvertedIndex()

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, commits: pd.DataFrame, files: pd.DataFrame, vectors: np.ndarray | None = None) -> None:
        """Adds commits that are not there yet, of any date.

        Args:
            commits: A table of ``ChangeCorpus.commits``.
            files: The files of these commits; ``commit`` is a row of ``commits``.
            vectors: ``(N, D)`` unit vectors of the commits; None without an encoder.
        """
        lines = commits["title"] + "\n" + commits["description"] + "\n" + commits["paths"] + "\n" + commits["diff"]
        self.texts += self.vocabulary(words(list(lines)), learn=True)
        self.ids += commits["id"].tolist()
        moments = commits["created_at"].dt.tz_localize(None).to_numpy().astype("datetime64[s]")
        self.created_at = np.concatenate([self.created_at, moments])
        self._sort()

    def without(self, ids: set[str]) -> "ChangeHistory":
        """The history without some commits."""
        other = ChangeHistory()
        other.vocabulary = self.vocabulary
        stays = [row for row, id_ in enumerate(self.ids) if id_ not in ids]
        other.ids = [self.ids[row] for row in stays]
        other.texts = [self.texts[row] for row in stays]
        other.created_at = self.created_at[stays]
        other._sort()
        return other

    def num_before(self, moment: pd.Timestamp | None) -> int:
        """How many commits are before a moment; all for None."""
        if moment is None:
            return len(self)
        return int(np.searchsorted(self.created_at, moment.tz_localize(None).to_datetime64(), side="left"))

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as arrays, to store it."""
        lengths = np.array([len(text) for text in self.texts], dtype=np.int64)
        return {
            "ids": np.array(self.ids, dtype=str),
            "created_at": self.created_at,
            "terms": np.array(self.vocabulary.terms, dtype=str),
            "lengths": lengths,
            "texts": np.concatenate([np.empty(0, dtype=np.int32), *self.texts]),
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "ChangeHistory":
        """The history that ``arrays`` was called on."""
        history = cls()
        history.ids = arrays["ids"].tolist()
        history.created_at = arrays["created_at"]
        history.vocabulary = Vocabulary(arrays["terms"].tolist())
        history.texts = np.split(arrays["texts"], np.cumsum(arrays["lengths"])[:-1]) if len(history.ids) else []
        history._sort()
        return history

    def _sort(self) -> None:
        """Brings the commits into chronological order."""
        order = np.argsort(self.created_at, kind="stable")
        self.ids = [self.ids[row] for row in order]
        self.texts = [self.texts[row] for row in order]
        self.created_at = self.created_at[order]
        self.index = InvertedIndex()
        self.index.add(self.texts)
