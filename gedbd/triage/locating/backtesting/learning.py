"""Teaches a ranker of commits with the fixed reports of a tracker."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.changes import ChangeCorpus
from gedbd.retrieval.changes.change_history import ChangeHistory, ChangeQuery
from gedbd.retrieval.changes.change_ranker import ChangeRanker
from gedbd.retrieval.changes.change_training import (
    ChangeExample,
    ChangeTrainingOptions,
    examples_of,
    fit_examples,
    fixes_of,
    training_set,
)
from gedbd.retrieval.changes.known_fixes import KnownFix, KnownFixes


class FixedReports(NamedTuple):
    """The fixed reports of a tracker.

    Attributes:
        known_at: When the fix of each was known, by the row of the report.
        fixes: What a ranker reads of them, in the order of ``known_at``.
    """

    known_at: pd.Series
    fixes: list[KnownFix]

    def before(self, moment: pd.Timestamp | None) -> np.ndarray:
        """Rows of the reports that were fixed before a moment; of all for None. Ascending."""
        chosen = self.known_at if moment is None else self.known_at[self.known_at < moment]
        return np.sort(chosen.index.to_numpy(dtype=np.int64))


class LearntRanker:
    """A ranker that reads the fixed reports that were known at the date of a query.

    Args:
        ranker: The ranker.
        fixes: The fixed reports.
    """

    def __init__(self, ranker: ChangeRanker, fixes: KnownFixes) -> None:
        self.ranker = ranker
        self._fixes = fixes

    def scores(self, history: ChangeHistory, query: ChangeQuery) -> np.ndarray:
        """``(n,)`` scores of the n commits before the query; higher is more suspect."""
        return self.ranker.scores(history, query, fixes=self._fixes)


class Learnt(NamedTuple):
    """What was learnt from the fixed reports of a tracker.

    Attributes:
        measured: The ranker that has learnt from the older reports only.
        ranker: The ranker for use, which has learnt from all of them.
        fixes: The fixed reports that it reads.
    """

    measured: LearntRanker
    ranker: ChangeRanker
    fixes: list[KnownFix]


def learn_rankers(
    corpus: ChangeCorpus, history: ChangeHistory, older: np.ndarray, max_learnt: int, seed: int
) -> Learnt:
    """Learns from the older fixed reports, to measure, and from all of them, for use.

    Args:
        corpus: Reports and commits.
        history: The commits of the corpus, in its order.
        older: Rows of the older fixed reports.
        max_learnt: Number of reports that are learnt from at most, the newest.
        seed: Seed of the learning.

    Raises:
        ValueError: If the reports teach nothing.
    """
    fixed = fixed_reports(corpus)
    rows = fixed.before(None)[-max_learnt:]
    older = older[-max_learnt:]
    options = ChangeTrainingOptions(seed=seed)
    of_rows = learning_examples(corpus, history, rows)
    # The features of a report are of its own date, so that both rankers learn from the same ones.
    shared = [of_rows[row] for row in older.tolist() if row in of_rows]
    if len(shared) < len(older):
        shared = list(learning_examples(corpus, history, older).values())
    measured = fit_examples(shared, options)
    ranker = fit_examples(list(of_rows.values()), options)
    return Learnt(LearntRanker(measured, KnownFixes(history, fixed.fixes)), ranker, fixed.fixes)


def fixed_reports(corpus: ChangeCorpus) -> FixedReports:
    """The fixed reports of a corpus, see ``fixes_of``."""
    fixes = fixes_of(corpus)
    known_at = pd.Series({row: fix.known_at for row, fix in fixes.items()}).sort_values(kind="stable")
    return FixedReports(known_at, [fixes[row] for row in map(int, known_at.index)])


def learning_examples(corpus: ChangeCorpus, history: ChangeHistory, rows: np.ndarray) -> dict[int, ChangeExample]:
    """The features of some fixed reports by their rows, and which files and commits are the right ones.

    Args:
        corpus: Reports and commits.
        history: The commits of the corpus, in its order.
        rows: Rows of the reports. One without an inducing commit before it still teaches which files are meant.
    """
    chosen = training_set(corpus, rows.tolist(), history)
    return dict(zip(chosen.rows, examples_of(chosen), strict=True))
