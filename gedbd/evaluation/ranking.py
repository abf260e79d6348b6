"""Ranking over the whole tracker: what a triager sees when a report comes in.

Protocol of "Duplicate Bug Report Detection: How Far Are We?" (TOSEM 2023): a query is a report whose group has an
earlier report; its candidates are all reports filed before it, whatever their part of the split; candidates count by
group; a query whose group lies outside the window is a miss.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gedbd.data.queries import Queries

TOP_K = (1, 5, 10, 20, 100)
METRICS = (*(f"rr@{k}" for k in TOP_K), "mrr", "map")
DEPTH = 100
BLOCK = 64

Scorer = Callable[[np.ndarray], np.ndarray]
"""Scores of some queries: rows ``(B,) -> (B, N)``, higher is more alike. Scores of later reports are not read."""


@dataclass(frozen=True)
class Ranking:
    """What came out.

    Attributes:
        queries: One row a query: ``query`` (row), ``reachable`` (its group is among the candidates), ``rank`` (distinct
            groups met up to and including its own, 0 if never), ``average_precision`` over the single reports of its
            group, ``found`` (the row of its group that was met first, -1 if none).
        top: The best ``DEPTH`` groups of each query: ``query``, ``place`` (1 is best), ``candidate`` (the row of the
            group that was met first), ``score``.
    """

    queries: pd.DataFrame
    top: pd.DataFrame


def rank(queries: Queries, scorer: Scorer) -> Ranking:
    """Ranks the groups for every query by their best report; of equal scores the older report comes first.

    Raises:
        ValueError: If a score is not a number.
    """
    found, top = [], []
    for first in range(0, len(queries), BLOCK):
        rows = queries.rows[first : first + BLOCK]
        for offset, scores in enumerate(np.asarray(scorer(rows), dtype=np.float32)):
            candidates = queries.candidates(first + offset)
            if np.isnan(scores[candidates]).any():
                raise ValueError(f"the scores of the report in row {rows[offset]} are not all numbers")
            order = candidates[np.argsort(-scores[candidates], kind="stable")]
            found.append(_found(order, queries.group, rows[offset]))
            best = order[_first_of_each(queries.group[order])][:DEPTH]
            places = np.arange(1, len(best) + 1)
            top.append(pd.DataFrame({"query": rows[offset], "place": places, "candidate": best, "score": scores[best]}))
    columns = ["query", "reachable", "rank", "average_precision", "found"]
    empty = pd.DataFrame(np.empty((0, 4), dtype=np.int64), columns=["query", "place", "candidate", "score"])
    return Ranking(pd.DataFrame(found, columns=columns), pd.concat(top, ignore_index=True) if top else empty)


def ranking_metrics(queries: pd.DataFrame) -> dict[str, float]:
    """Means over queries: RR@k (hit rate: share of queries whose group is among the first k), MRR, MAP.

    Args:
        queries: ``Ranking.queries``. A rank of 0 is a miss.
    """
    values = per_query(queries)
    return {name: float(values[name].mean()) for name in METRICS}


def per_query(queries: pd.DataFrame) -> pd.DataFrame:
    """Every metric of every query, by name; ``ranking_metrics`` are their means."""
    position = queries["rank"].to_numpy(dtype=float)
    position[position == 0] = np.inf
    values = {f"rr@{k}": (position <= k).astype(float) for k in TOP_K}
    return pd.DataFrame({**values, "mrr": 1 / position, "map": queries["average_precision"].to_numpy()})


def vector_scorer(vectors: np.ndarray) -> Scorer:
    """Cosines of unit vectors ``(N, D)``."""
    return lambda rows: np.asarray(vectors[rows] @ vectors.T)


def _found(order: np.ndarray, group: np.ndarray, query: int) -> tuple[int, bool, int, float, int]:
    hits = np.flatnonzero(group[order] == group[query])
    if not len(hits):
        return query, False, 0, 0.0, -1
    position = len(np.unique(group[order[: hits[0]]])) + 1
    precision = float((np.arange(1, len(hits) + 1) / (hits + 1)).mean())
    return query, True, position, precision, int(order[hits[0]])


def _first_of_each(values: np.ndarray) -> np.ndarray:
    """Positions at which a value occurs for the first time, in order."""
    return np.sort(np.unique(values, return_index=True)[1])
