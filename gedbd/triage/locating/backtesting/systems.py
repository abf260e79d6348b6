"""The systems that a backtest compares: rankers, and two baselines."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pandas as pd

from gedbd.retrieval.changes.history import ChangeHistory, ChangeQuery
from gedbd.retrieval.inverted_index import InvertedIndex
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.text.code_words import CodeWords

LEARNT = "learnt ranker"
DEFAULT = "default ranker"
BM25 = "BM25 over diffs"
NUM_FILES = "number of changed files"
# The first commit of each history that the default ranker has learnt from, Apache Tomcat and AspectJ.
DEFAULT_LEARNT_FROM = ("a84fabcbc6fee8a69253ad92a304b4718e96a7c9", "c3300283ecc397d26ad9dfe31d1710ec45db2af0")


def default_has_learnt_from(ids: Sequence[str]) -> bool:
    """Whether the default ranker has learnt from the history of some commits."""
    return not set(DEFAULT_LEARNT_FROM).isdisjoint(ids)


class System(Protocol):
    """Scores the commits before a report."""

    def scores(self, history: ChangeHistory, query: ChangeQuery) -> np.ndarray:
        """``(n,)`` scores of the n commits before the query; higher is more suspect."""
        ...


class Bm25Diffs:
    """BM25 of the report's words, and of the parts of its identifiers, over the diffs of commits.

    Args:
        commits: The table of the commits of the history, in its order.
    """

    def __init__(self, commits: pd.DataFrame) -> None:
        self._words = CodeWords()
        self._vocabulary = Vocabulary()
        self._index = InvertedIndex()
        self._index.add(self._vocabulary(self._words(commits["diff"]), learn=True))

    def scores(self, history: ChangeHistory, query: ChangeQuery) -> np.ndarray:
        """See ``System``."""
        text = self._vocabulary(self._words([f"{query.title}\n{query.description}"]), learn=False)[0]
        return self._index.scores(text, history.num_before(query.created_at))


class NumFiles:
    """The number of changed files: it reads nothing of report and commit, and shows what their sizes alone tell.

    Args:
        commits: The table of the commits of the history, in its order.
    """

    def __init__(self, commits: pd.DataFrame) -> None:
        self._num_files = commits["num_files"].to_numpy(dtype=np.float64)

    def scores(self, history: ChangeHistory, query: ChangeQuery) -> np.ndarray:
        """See ``System``."""
        return self._num_files[: history.num_before(query.created_at)]
