"""What is ranked: the reports that have an earlier duplicate, each with the reports that may be it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus

LONGEST_WINDOW = 36_500
TOP_K = (1, 5, 10, 20, 100)
EARLIER, TEST_POOL = "earlier", "test_pool"
PROTOCOLS = (EARLIER, TEST_POOL)


@dataclass(frozen=True)
class Queries:
    """What is to be ranked.

    Attributes:
        rows: ``(Q,)`` rows of the queries. Candidates are the rows before: those filed earlier, or in the same second
            under a lower id.
        start: ``(Q,)`` the first candidate filed within the window; 0 without a window.
        group: ``(N,)`` group of every report.
        pool: If given, the rows that are candidates instead, whenever they were filed; ranks then count reports.
        top_k: Ranks K at which metrics are asked for.
    """

    rows: np.ndarray
    start: np.ndarray
    group: np.ndarray
    pool: np.ndarray | None = None
    top_k: tuple[int, ...] = TOP_K

    def __len__(self) -> int:
        return len(self.rows)

    def candidates(self, place: int) -> np.ndarray:
        """Rows that the query at a place is ranked against: those of every group with a report in the window."""
        if self.pool is not None:
            return np.asarray(self.pool[self.pool != self.rows[place]])
        group = self.group[: self.rows[place]]
        if self.start[place] == 0:
            return np.arange(len(group))
        is_open = np.zeros(len(self.group), dtype=bool)
        is_open[group[self.start[place] :]] = True
        return np.flatnonzero(is_open[group])

    def relevant(self, place: int) -> np.ndarray:
        """Rows of the query's group that could be candidates, in the window or not."""
        row = self.rows[place]
        others = np.arange(row) if self.pool is None else self.pool[self.pool != row]
        return np.asarray(others[self.group[others] == self.group[row]])

    @property
    def needed(self) -> np.ndarray:
        """``(R,)`` rows whose vectors ranking reads: the pool, or every row up to the last query."""
        if self.pool is not None:
            return self.pool
        return np.arange(self.rows.max(initial=-1) + 1)


def find_queries(
    corpus: Corpus, wanted: np.ndarray, window_days: float | None = None, top_k: tuple[int, ...] = TOP_K
) -> Queries:
    """The queries among some reports.

    Args:
        corpus: The reports.
        wanted: ``(N,)`` bool, where to look for queries: the reports of one part.
        window_days: If given, only groups with a report filed within so many days before the query are candidates.
        top_k: Ranks at which metrics are asked for.

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
    queries = Queries(rows, np.asarray(start), corpus.group, top_k=top_k)
    if window_days is not None and len(queries) and not _reachable(queries).any():
        raise ValueError(
            f"ranking.window_days={window_days} shuts out the groups of all {len(queries)} queries of {corpus.name}:"
            " widen it"
        )
    return queries


def find_pool(corpus: Corpus, wanted: np.ndarray, top_k: tuple[int, ...] = TOP_K) -> Queries:
    """Some reports as queries and candidates of each other: those with a duplicate among them are the queries.

    Args:
        corpus: The reports.
        wanted: ``(N,)`` bool, the pool: the reports of one part.
        top_k: Ranks at which metrics are asked for.
    """
    pool = np.flatnonzero(wanted)
    sizes = np.bincount(corpus.group[pool], minlength=len(corpus))
    rows = pool[sizes[corpus.group[pool]] > 1]
    return Queries(rows, np.zeros(len(rows), dtype=np.int64), corpus.group, pool, top_k)


def _reachable(queries: Queries) -> np.ndarray:
    group = queries.group
    return np.array([group[row] in group[start:row] for row, start in zip(queries.rows, queries.start, strict=True)])
