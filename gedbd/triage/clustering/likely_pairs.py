"""Pairs of reports that are probably duplicates: each report as a query for those before it, as a search ranks them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gedbd.retrieval.reports.report_history import Replayed, ReportHistory
from gedbd.triage.triage_model import TriageModel

MAX_CANDIDATES = 10  # of a report


class LikelyPairs(NamedTuple):
    """P pairs of a report and an earlier one.

    Attributes:
        later: ``(P,)`` rows of the later reports.
        earlier: ``(P,)`` rows of the earlier reports; of a group of known duplicates, the most similar one.
        probability: ``(P,)`` that the later report belongs to the group of the earlier one.
    """

    later: np.ndarray
    earlier: np.ndarray
    probability: np.ndarray

    def take(self, chosen: np.ndarray) -> "LikelyPairs":
        """Some of the pairs, by their places or a mask."""
        return LikelyPairs(*(values[chosen] for values in self))


def find_likely_pairs(history: ReportHistory, rows: Sequence[int], model: TriageModel, least: float) -> LikelyPairs:
    """Pairs of reports and their best candidates, the groups of duplicates that are known before them.

    The probability of a pair is calibrated for a report that has just come in. So a report is compared with those
    before it only: reports that came in later, which a search of today finds too, never were its candidates in the
    backtest that the probability was learnt on.

    Args:
        history: All reports in the order of time.
        rows: The reports, ascending.
        model: Ranks candidates.
        least: Pairs of a lower probability are left out.
    """
    found = [np.empty((0, 3)), *history.replay_with(_BestPairs(model, least), rows, "compare reports")]
    table = np.concatenate(found)
    return LikelyPairs(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2])


@dataclass(frozen=True)
class _BestPairs:
    """Gives the pairs of a report as rows: later report, earlier report, probability."""

    model: TriageModel
    least: float

    def __call__(self, one: Replayed) -> np.ndarray:
        best = self.model.best(one.features, MAX_CANDIDATES)
        table = np.column_stack([np.full(len(best.place), one.row), one.best[best.place], best.probability])
        return table[best.probability >= self.least]
