"""Ranks the candidates of queries, and measures the ranks of the relevant ones.

The protocol ``earlier`` is that of "Duplicate Bug Report Detection: How Far Are We?" (TOSEM 2023): queries are reports
whose group has an earlier report; candidates are all earlier reports of any split; ranks count groups; a query whose
group is outside the window is a miss.

The protocol ``test_pool`` is that of "SBERT with Contrastive Learning + VLM Augmentation": the reports of the test
split are queries and candidates of each other, and ranks count reports. Its metrics are higher, because the split has
fewer wrong candidates, and all other members of a group are hits, including later ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gedbd.retrieval.ranking_tasks import EARLIER, TOP_K, RankingTask, metric_prefix
from gedbd.retrieval.scorers.scorer_contract import BLOCK, Scorer

PRECISION_AT = "average_precision@"
MAX_DEPTH = 100


@dataclass(frozen=True)
class Ranking:
    """The result of ranking."""

    # one row a query: ``query`` (row), ``reachable`` (a relevant document is among the candidates), ``rank`` (distinct
    # units, such as groups, up to and including the first relevant one; 0 if there is none), ``average_precision`` over
    # single documents, ``found`` (row of the first relevant document, -1 if none), and for each K
    # ``average_precision@K``: of the first K documents, over the K or fewer that could be found there
    queries: pd.DataFrame
    # the best ``MAX_DEPTH`` units of each query: ``query``, ``place`` (1 is best), ``candidate`` (row of the unit's
    # best document), ``score``
    top: pd.DataFrame


def rank(task: RankingTask, scorer: Scorer) -> Ranking:
    """Ranks the units of every query by their best document; of equal scores the document of the lower row comes first.

    Raises:
        ValueError: If a score is not a number.
    """
    rows: list[tuple[float, ...]] = []
    top = [pd.DataFrame(np.empty((0, 4), dtype=np.int64), columns=["query", "place", "candidate", "score"])]
    for start in range(0, len(task), BLOCK):
        queries = task.queries[start : start + BLOCK]
        # In single precision, so that a scorer's precision does not break ties.
        block = np.asarray(scorer.scores(queries), dtype=np.float32)
        for index, scores in enumerate(block, start=start):
            candidates = task.candidates(index)
            if np.isnan(scores[candidates]).any():
                raise ValueError(f"the scores of the query in row {task.queries[index]} are not all numbers")
            order = candidates[np.argsort(-scores[candidates], kind="stable")]
            rows.append(_query_result(task, index, order))
            # Each unit once, by its best document: units [7, 7, 4, 7] are first at [0, 2].
            first = np.sort(np.unique(task.unit(order), return_index=True)[1])
            best = order[first][:MAX_DEPTH]
            places = np.arange(1, len(best) + 1)
            query = task.queries[index]
            top.append(pd.DataFrame({"query": query, "place": places, "candidate": best, "score": scores[best]}))
    columns = ["query", "reachable", "rank", "average_precision", "found"]
    columns += [f"{PRECISION_AT}{k}" for k in task.top_k]
    return Ranking(pd.DataFrame(rows, columns=columns), pd.concat(top[1:] or top, ignore_index=True))


def ranking_metrics(queries: pd.DataFrame) -> dict[str, float]:
    """Means over queries: RR@k, MRR, MAP and MAP@k.

    RR@k is the *recall rate* of the duplicate-detection papers: the share of queries with a relevant unit among the
    first k, which information retrieval calls success@k (its RR is the reciprocal rank). A rank of 0 is a miss.
    """
    return {str(name): float(values.mean()) for name, values in per_query(queries).items()}


def rank_all(tasks: Mapping[str, RankingTask], scorers: Mapping[str, Scorer]) -> dict[str, dict[str, Ranking]]:
    """Rankings by protocol and scorer."""
    rankings = {}
    for protocol, task in tasks.items():
        rankings[protocol] = {name: rank(task, scorer) for name, scorer in scorers.items()}
    return rankings


def protocol_metrics(rankings: Mapping[str, Mapping[str, Ranking]], name: str) -> dict[str, float]:
    """The metrics of one scorer by all protocols, named as in ``metric_names``."""
    metrics = {}
    for protocol, by_name in rankings.items():
        for metric, value in ranking_metrics(by_name[name].queries).items():
            metrics[metric_prefix(protocol) + metric] = value
    return metrics


def per_query(queries: pd.DataFrame) -> pd.DataFrame:
    """All metrics of each query, by name; ``ranking_metrics`` are their means."""
    position = queries["rank"].to_numpy(dtype=float)
    position[position == 0] = np.inf  # a miss: no RR@k counts it, and its reciprocal rank is 0
    top_k = [int(name.removeprefix(PRECISION_AT)) for name in map(str, queries) if name.startswith(PRECISION_AT)]
    values = {f"rr@{k}": (position <= k).astype(float) for k in top_k}
    values |= {"mrr": 1 / position, "map": queries["average_precision"].to_numpy()}
    return pd.DataFrame(values | {f"map@{k}": queries[f"{PRECISION_AT}{k}"].to_numpy() for k in top_k})


def metric_names(top_k: Sequence[int] = TOP_K, protocols: Sequence[str] = (EARLIER,)) -> tuple[str, ...]:
    """Names of the metrics that ``protocol_metrics`` returns, each with the prefix of its protocol."""
    names = (*(f"rr@{k}" for k in top_k), "mrr", "map", *(f"map@{k}" for k in top_k))
    return tuple(metric_prefix(protocol) + name for protocol in protocols for name in names)


def _query_result(task: RankingTask, index: int, order: np.ndarray) -> tuple[float, ...]:
    """A row of ``Ranking.queries``, from the candidates, best first."""
    query = task.queries[index]
    hits = np.flatnonzero(np.isin(order, task.relevant(index)))
    if not len(hits):
        return query, False, 0, 0.0, -1, *(0.0 for _ in task.top_k)
    # Units 7 7 4 9 with a first hit at index 3: units 7 and 4 come before, so that the rank is 3.
    position = len(np.unique(task.unit(order[: hits[0]]))) + 1
    precision = np.arange(1, len(hits) + 1) / (hits + 1)
    precision_at = [float(precision[hits < k].sum() / min(k, len(hits))) for k in task.top_k]
    return query, True, position, float(precision.mean()), int(order[hits[0]]), *precision_at
