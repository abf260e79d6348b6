"""Replays reports with inducing commits: where each system ranks these commits."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pandas as pd

from gedbd.corpora.changes import ChangeCorpus
from gedbd.io.console import item_progress
from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.change_training import query_of
from gedbd.localization.locating.backtesting.labelled_reports import LabelledReports
from gedbd.localization.locating.backtesting.locating_tables import NEAR
from gedbd.retrieval.inverted_index import InvertedIndex
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.text.words import CodeWords

BM25 = "BM25 over diffs"
NUM_FILES = "number of changed files"
COLUMNS = ("report", "system", "rank", "candidates", "first", "right", "margin")


class System(Protocol):
    """Scores the commits before a report."""

    def scores(self, history: ChangeHistory, query: ChangeQuery) -> np.ndarray:
        """``(n,)`` scores of the n commits before the query; higher is more suspect."""
        ...


def replay_commits(
    corpus: ChangeCorpus,
    history: ChangeHistory,
    labelled: LabelledReports,
    places: np.ndarray,
    systems: Mapping[str, System],
) -> pd.DataFrame:
    """Where each system ranks the inducing commits of some reports.

    Args:
        corpus: Reports and commits.
        history: The commits of the corpus, in its order.
        labelled: The reports with inducing commits.
        places: Which of them are replayed.
        systems: The systems by name.

    Returns:
        A row for each report and system: ``report`` (its row), ``system``, ``rank`` of the best inducing commit from 1,
        ``candidates`` (number of commits before the report), ``first`` (row of the most suspect commit), ``right``
        (it is an inducing one) and ``margin`` (its score less that of the commit in place ``NEAR``).
    """
    assert corpus.reports is not None
    table = corpus.reports.reports
    rows: list[dict[str, object]] = []
    with item_progress("reports") as progress:
        for place in progress.track(places.tolist(), description="replay"):
            row = int(labelled.rows[place])
            query = query_of(table.iloc[row])
            for name, system in systems.items():
                found = rank_one(system.scores(history, query), labelled.right[place])
                rows.append({"report": row, "system": name, **found})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def rank_one(scores: np.ndarray, inducing: np.ndarray) -> dict[str, object]:
    """The result of one report; of equal scores the newer commit comes first.

    Args:
        scores: ``(n,)`` scores of the commits in chronological order.
        inducing: Rows of the inducing ones.
    """
    num_near = min(NEAR, len(scores))
    # Reversed and sorted stably by falling score: newer commits of one score come first.
    order = len(scores) - 1 - np.argsort(-scores[::-1], kind="stable")
    first = int(order[0])
    return {
        "rank": int(np.flatnonzero(np.isin(order, inducing))[0]) + 1,
        "candidates": len(scores),
        "first": first,
        "right": first in inducing,
        "margin": float(scores[first] - scores[order[num_near - 1]]),
    }


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
