"""The learnt sum of scores for a report that is not in the corpus, against all that are.

The six scores are those of the baseline ``fusion`` and so are their weights: each is standardised over the candidates
and weighed (see ``gedbd.retrieval.linear_ranker``). What is ranked here is what the evaluation measures.
"""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gedbd.retrieval.feature_store import Columns, Numbers

FEATURES = ("dense", "bm25", "bm25_title", "component", "product", "recency")
FIRST_LOOK = 64
MANY = 10_000
THREADS = min(4, os.cpu_count() or 1)
POOL = ThreadPoolExecutor(THREADS, thread_name_prefix="cosines")


class Candidates(NamedTuple):
    """The best groups for one query, K or fewer, the best first.

    Attributes:
        row: ``(K,)`` the report of each group that scores highest.
        score: ``(K,)`` its learnt sum.
        features: ``(K, F)`` its six scores in the order of ``FEATURES``, not standardised.
    """

    row: np.ndarray
    score: np.ndarray
    features: np.ndarray


def raw_scores(columns: Columns, query: Numbers, count: int, replayed: bool = False) -> np.ndarray:
    """The six scores of the first so many stored reports for one query, ``(F, count)`` float32.

    Args:
        columns: The stored reports.
        query: One report.
        count: How many of them.
        replayed: The others are not there yet: they do not count in word statistics either.
    """
    before = count if replayed else None
    scores = np.empty((len(FEATURES), count), dtype=np.float32)
    _cosines(columns.vectors[:count], query.vectors[0], scores[0])
    np.sqrt(columns.text.scores(query.text[0], before)[:count], out=scores[1])
    np.sqrt(columns.title.scores(query.title[0], before)[:count], out=scores[2])
    scores[3] = columns.component[:count] == (query.component[0] if query.component[0] >= 0 else np.inf)
    scores[4] = columns.product[:count] == (query.product[0] if query.product[0] >= 0 else np.inf)
    scores[5] = _recency(columns.day[:count], query.day[0])
    return scores


def best_groups(
    scores: np.ndarray, weights: Mapping[str, float], group: np.ndarray, allowed: np.ndarray | None, top_k: int
) -> Candidates:
    """Sums six scores and gives the best groups, each with its best report; of equal sums the older report is first.

    Args:
        scores: ``(F, N)``, see ``raw_scores``.
        weights: Weight of each feature by name; one that is missing weighs nothing.
        group: ``(N,)`` group of each report.
        allowed: ``(N,)`` bool, the candidates, if not all. What is left out has no part in standardising either.
        top_k: Groups K to give.
    """
    rows = np.arange(scores.shape[1]) if allowed is None else np.flatnonzero(allowed)
    chosen = scores if allowed is None else scores[:, rows]
    total = np.zeros(len(rows), dtype=np.float32)
    for name, feature in zip(FEATURES, chosen, strict=True):
        deviation = feature.std(dtype=np.float64) if len(rows) else 0.0
        if deviation > 0 and weights.get(name):
            total += np.float32(weights[name] / deviation) * (feature - np.float32(feature.mean(dtype=np.float64)))
    best = rows[_first_of_groups(total, group[rows], top_k)]
    place = np.searchsorted(rows, best)
    return Candidates(best, total[place], chosen[:, place].T)


def _cosines(vectors: np.ndarray, query: np.ndarray, out: np.ndarray) -> None:
    """``(N, D), (D,)`` into ``(N,)``. Threads of our own share it, for those of BLAS would hinder the encoder's."""
    parts = THREADS if len(vectors) >= MANY else 1
    edges = np.linspace(0, len(vectors), parts + 1).astype(np.int64).tolist()
    rest = [POOL.submit(np.matmul, vectors[start:end], query, out=out[start:end]) for start, end in pairwise(edges[1:])]
    np.matmul(vectors[: edges[1]], query, out=out[: edges[1]])
    for part in rest:
        part.result()


def _first_of_groups(total: np.ndarray, group: np.ndarray, top_k: int) -> np.ndarray:
    """Places of the best of each of the best groups, in order; looks at few places first, and at more if need be."""
    look = max(FIRST_LOOK, 4 * top_k)
    while True:
        whole = look >= len(total)
        near = np.arange(len(total)) if whole else np.flatnonzero(total >= np.partition(total, -look)[-look])
        order = near[np.argsort(-total[near], kind="stable")]
        first = np.sort(np.unique(group[order], return_index=True)[1])[:top_k]
        if whole or len(first) == top_k:
            return np.asarray(order[first])
        look *= 8


def _recency(days: np.ndarray, day: float) -> np.ndarray:
    """-log(1 + days between); without dates rows count as days, the query being the next one."""
    if np.isnan(days).any() or np.isnan(day):
        return -np.log1p(np.arange(len(days), 0, -1, dtype=np.float64)).astype(np.float32)
    return -np.log1p(np.abs(days - day)).astype(np.float32)
