"""Ranking over the whole tracker: what a triager sees when a report comes in.

Protocol of "Duplicate Bug Report Detection: How Far Are We?" (TOSEM 2023): a query is a report whose group has an
earlier report; its candidates are all reports filed before it, whatever their part of the split; candidates count by
group; a query whose group lies outside the window is a miss.

Beside it there is the protocol of "SBERT with Contrastive Learning + VLM Augmentation": the reports of the test part
are queries and candidates of each other, counted one by one. It looks better, because a part of the tracker holds only
a part of the wrong reports, and every other member of a group may be found, the later ones too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gedbd.retrieval.tasks import EARLIER, TEST_POOL, TOP_K, Queries

PREFIX = {EARLIER: "", TEST_POOL: "pool_"}
PRECISION_AT = "average_precision@"
DEPTH = 100
BLOCK = 64

Scorer = Callable[[np.ndarray], np.ndarray]
"""Scores of some queries: rows ``(B,) -> (B, N)``, higher is more alike. Scores of later reports are not read."""


@dataclass(frozen=True)
class Ranking:
    """What came out.

    Attributes:
        queries: One row a query: ``query`` (row), ``reachable`` (its group is among the candidates), ``rank`` (distinct
            groups met up to and including its own, in a pool reports; 0 if never), ``average_precision`` over the
            single reports of its group, ``found`` (the row of its group that was met first, -1 if none), and for each
            K ``average_precision@K``: of the first K reports, over the K or fewer that could be found there.
        top: The best ``DEPTH`` groups of each query, in a pool reports: ``query``, ``place`` (1 is best), ``candidate``
            (the row of the group that was met first), ``score``.
    """

    queries: pd.DataFrame
    top: pd.DataFrame


def rank(queries: Queries, scorer: Scorer) -> Ranking:
    """Ranks the groups for every query by their best report; of equal scores the older report comes first.

    In a pool every report is ranked for itself.

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
            unit = queries.group[order] if queries.pool is None else order
            found.append(_found(order, unit, queries, rows[offset]))
            best = order[_first_of_each(unit)][:DEPTH]
            places = np.arange(1, len(best) + 1)
            top.append(pd.DataFrame({"query": rows[offset], "place": places, "candidate": best, "score": scores[best]}))
    columns = ["query", "reachable", "rank", "average_precision", "found"]
    columns += [f"{PRECISION_AT}{k}" for k in queries.top_k]
    empty = pd.DataFrame(np.empty((0, 4), dtype=np.int64), columns=["query", "place", "candidate", "score"])
    return Ranking(pd.DataFrame(found, columns=columns), pd.concat(top, ignore_index=True) if top else empty)


def ranking_metrics(queries: pd.DataFrame) -> dict[str, float]:
    """Means over queries: RR@k (hit rate: share of queries whose group is among the first k), MRR, MAP, MAP@k.

    Args:
        queries: ``Ranking.queries``. A rank of 0 is a miss.
    """
    return {str(name): float(values.mean()) for name, values in per_query(queries).items()}


def rank_all(queries: Mapping[str, Queries], scorers: Mapping[str, Scorer]) -> dict[str, dict[str, Ranking]]:
    """Rankings by protocol and scorer."""
    return {
        protocol: {name: rank(asked, scorer) for name, scorer in scorers.items()} for protocol, asked in queries.items()
    }


def protocol_metrics(rankings: Mapping[str, Mapping[str, Ranking]], name: str) -> dict[str, float]:
    """One scorer's metrics by all protocols; see ``metric_names``."""
    return {
        PREFIX[protocol] + metric: value
        for protocol, by_name in rankings.items()
        for metric, value in ranking_metrics(by_name[name].queries).items()
    }


def per_query(queries: pd.DataFrame) -> pd.DataFrame:
    """Every metric of every query, by name; ``ranking_metrics`` are their means."""
    position = queries["rank"].to_numpy(dtype=float)
    position[position == 0] = np.inf
    top_k = [int(name.removeprefix(PRECISION_AT)) for name in map(str, queries) if name.startswith(PRECISION_AT)]
    values = {f"rr@{k}": (position <= k).astype(float) for k in top_k}
    values |= {"mrr": 1 / position, "map": queries["average_precision"].to_numpy()}
    return pd.DataFrame(values | {f"map@{k}": queries[f"{PRECISION_AT}{k}"].to_numpy() for k in top_k})


def metric_names(top_k: Sequence[int] = TOP_K, protocols: Sequence[str] = (EARLIER,)) -> tuple[str, ...]:
    """What ``ranking_metrics`` gives; the names of another protocol than the first begin with its prefix."""
    names = (*(f"rr@{k}" for k in top_k), "mrr", "map", *(f"map@{k}" for k in top_k))
    return tuple(PREFIX[protocol] + name for protocol in protocols for name in names)


def vector_scorer(vectors: np.ndarray) -> Scorer:
    """Cosines of unit vectors ``(N, D)``."""
    return lambda rows: np.asarray(vectors[rows] @ vectors.T)


def _found(order: np.ndarray, unit: np.ndarray, queries: Queries, query: int) -> tuple[float, ...]:
    """A row of ``Ranking.queries``, from the candidates in order and what counts as one of them."""
    hits = np.flatnonzero(queries.group[order] == queries.group[query])
    if not len(hits):
        return query, False, 0, 0.0, -1, *(0.0 for _ in queries.top_k)
    position = len(np.unique(unit[: hits[0]])) + 1
    precision = np.arange(1, len(hits) + 1) / (hits + 1)
    at = [float(precision[hits < k].sum() / min(k, len(hits))) for k in queries.top_k]
    return query, True, position, float(precision.mean()), int(order[hits[0]]), *at


def _first_of_each(values: np.ndarray) -> np.ndarray:
    """Positions at which a value occurs for the first time, in order."""
    return np.sort(np.unique(values, return_index=True)[1])
