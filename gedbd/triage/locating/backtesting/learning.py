"""Teaches a ranker of commits with the fixed reports of a tracker."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.changes import ChangeCorpus
from gedbd.retrieval.changes.history import ChangeHistory, ChangeQuery
from gedbd.retrieval.changes.known_fixes import KnownFix, KnownFixes
from gedbd.retrieval.changes.ranker import ChangeRanker
from gedbd.retrieval.changes.training import TrainingOptions, fit_ranker
from gedbd.retrieval.changes.training_reports import fixes_of, training_set


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
    measured = learn_ranker(corpus, history, older[-max_learnt:], seed)
    ranker = learn_ranker(corpus, history, fixed.before(None)[-max_learnt:], seed)
    return Learnt(LearntRanker(measured, KnownFixes(history, fixed.fixes)), ranker, fixed.fixes)


def fixed_reports(corpus: ChangeCorpus) -> FixedReports:
    """The fixed reports of a corpus, see ``fixes_of``."""
    fixes = fixes_of(corpus)
    known_at = pd.Series({row: fix.known_at for row, fix in fixes.items()}).sort_values(kind="stable")
    return FixedReports(known_at, [fixes[row] for row in map(int, known_at.index)])


def learn_ranker(corpus: ChangeCorpus, history: ChangeHistory, rows: np.ndarray, seed: int) -> ChangeRanker:
    """A ranker that has learnt from some fixed reports.

    Args:
        corpus: Reports and commits.
        history: The commits of the corpus, in its order.
        rows: Rows of the reports. One without an inducing commit before it still teaches which files are meant.
        seed: Seed of the learning.

    Raises:
        ValueError: If the reports teach nothing.
    """
    return fit_ranker([training_set(corpus, rows.tolist(), history)], TrainingOptions(seed=seed))
