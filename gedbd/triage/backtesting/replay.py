"""Replays a tracker's history: every report is a query against those created before it, as if it had just come in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gedbd.retrieval.reports.history import Replayed, ReportHistory
from gedbd.retrieval.reports.ranker import ReportRanker
from gedbd.triage.confidence import CONFIDENCE_FEATURES, NUM_COMPARED, confidence_features

COLUMNS = ("query", "candidate", "place", "right", "rank", *CONFIDENCE_FEATURES)


def replay(history: ReportHistory, rows: np.ndarray, rankers: Sequence[ReportRanker], label: str) -> pd.DataFrame:
    """The best groups for some reports of a corpus. No later report is a candidate, nor counts in word statistics.

    What is right is decided by the groups of today: an export does not say when two reports were found to be
    duplicates.

    Args:
        history: All reports.
        rows: The queries, ascending.
        rankers: The ranker of each query.
        label: Of the progress bar.

    Returns:
        A row for each of up to ``NUM_COMPARED`` candidates of each query: ``query``, ``candidate`` (rows), ``place`` (1
        is best), ``right`` (both are of one group), ``rank`` (place of the query's first right candidate, 0 if none is
        right), and ``CONFIDENCE_FEATURES``.
    """
    best = _BestGroups(dict(zip(rows.tolist(), rankers, strict=True)))
    blocks = [np.empty((0, len(COLUMNS))), *history.replay_with(best, rows.tolist(), label)]
    table = pd.DataFrame(np.concatenate(blocks), columns=list(COLUMNS))
    return table.astype({"query": np.int64, "candidate": np.int64, "place": np.int64, "right": bool, "rank": np.int64})


@dataclass(frozen=True)
class _BestGroups:
    """Ranks the candidates of a report.

    Attributes:
        rankers: The ranker of each report by its row.
    """

    rankers: Mapping[int, ReportRanker]

    def __call__(self, one: Replayed) -> np.ndarray:
        """The ``COLUMNS`` of the best candidates, ``(C, F)``."""
        scores = self.rankers[one.row].scores(one.features)
        order = np.argsort(-scores, kind="stable")
        # A member of the right group counts as right: a triager links the report to the whole group.
        right = one.right[order]
        rank = int(right.argmax()) + 1 if right.any() else 0
        order = order[:NUM_COMPARED]
        places = np.arange(1, len(order) + 1)
        columns = [np.full(len(order), one.row), one.best[order], places, right[:NUM_COMPARED]]
        features = confidence_features(one.features[order], scores[order])
        return np.column_stack([*columns, np.full(len(order), rank), features])
