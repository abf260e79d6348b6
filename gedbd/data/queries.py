"""What is ranked: the reports that have an earlier duplicate, each with the reports that may be it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from gedbd.data.corpus import Corpus

LONGEST_WINDOW = 36_500


@dataclass(frozen=True)
class Queries:
    """What is to be ranked.

    Attributes:
        rows: ``(Q,)`` rows of the queries. Candidates are the rows before: those filed earlier, or in the same second
            under a lower id.
        start: ``(Q,)`` the first candidate filed within the window; 0 without a window.
        group: ``(N,)`` group of every report.
    """

    rows: np.ndarray
    start: np.ndarray
    group: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def candidates(self, place: int) -> np.ndarray:
        """Rows that the query at a place is ranked against: those of every group with a report in the window."""
        group = self.group[: self.rows[place]]
        if self.start[place] == 0:
            return np.arange(len(group))
        is_open = np.zeros(len(self.group), dtype=bool)
        is_open[group[self.start[place] :]] = True
        return np.flatnonzero(is_open[group])


def find_queries(corpus: Corpus, wanted: np.ndarray, window_days: float | None = None) -> Queries:
    """The queries among some reports.

    Args:
        corpus: The reports.
        wanted: ``(N,)`` bool, where to look for queries: the reports of one part.
        window_days: If given, only groups with a report filed within so many days before the query are candidates.

    Raises:
        ValueError: If a window is asked for and there are no dates, or it shuts every query's group out.
    """
    filed = corpus.reports["created_at"]
    rows = np.flatnonzero(wanted & (corpus.group < np.arange(len(corpus))))  # a group is named after its oldest row
    start = np.zeros(len(rows), dtype=np.int64)
    if window_days is not None:
        if filed.isna().any():
            raise ValueError(f"ranking.window_days={window_days} needs filing dates, and {corpus.name} has none")
        if not 0 < window_days <= LONGEST_WINDOW:
            raise ValueError(
                f"ranking.window_days={window_days} must be above 0 and at most {LONGEST_WINDOW}, or null for no window"
            )
        start = filed.searchsorted(filed[rows] - pd.Timedelta(days=window_days), side="left")
    queries = Queries(rows, np.asarray(start), corpus.group)
    if window_days is not None and len(queries) and not _reachable(queries).any():
        raise ValueError(
            f"ranking.window_days={window_days} shuts out the groups of all {len(queries)} queries of {corpus.name}:"
            " widen it"
        )
    return queries


def _reachable(queries: Queries) -> np.ndarray:
    group = queries.group
    return np.array([group[row] in group[start:row] for row, start in zip(queries.rows, queries.start, strict=True)])
