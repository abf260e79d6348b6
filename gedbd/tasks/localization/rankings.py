"""Ranks changes by several methods, and measures how high the inducing ones stand."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console

from gedbd.corpora.changes import Granularity
from gedbd.io.printing import print_line
from gedbd.io.progress import track
from gedbd.retrieval.ranking import Ranking, per_query, rank
from gedbd.retrieval.ranking_tasks import RankingTask
from gedbd.retrieval.scorers.scorer import Scorer
from gedbd.tasks.localization.order import NewestFirst
from gedbd.tasks.localization.protocol import Level

PRECISION_AT = (1, 3, 5)
MAX_RANK = 100  # ranks that curves show

# The scorer of a granularity, not fitted yet, by a seed.
ScorerMaker = Callable[[Level, int], Scorer]


class Method(NamedTuple):
    """A way to rank changes.

    Attributes:
        make: Makes its scorer.
        is_random: Whether its result depends on the seed.
    """

    make: ScorerMaker
    is_random: bool


class Measured(NamedTuple):
    """What a method has reached at a granularity.

    Attributes:
        method: Its id.
        granularity: What it ranks.
        by_seed: For each seed one row a query: ``mrr``, ``map``, ``rr@k``, ``p@k``.
        ranking: The ranking of the first seed.
    """

    method: str
    granularity: Granularity
    by_seed: tuple[pd.DataFrame, ...]
    ranking: Ranking

    @property
    def values(self) -> pd.DataFrame:
        """Means over seeds, one row a query."""
        total = np.sum([values.to_numpy() for values in self.by_seed], axis=0)
        return pd.DataFrame(total / len(self.by_seed), columns=self.by_seed[0].columns)


def rank_level(level: Level, methods: Mapping[str, Method], seeds: Sequence[int], console: Console) -> list[Measured]:
    """Fits all methods of a granularity and ranks by them.

    Args:
        level: The granularity.
        methods: By id.
        seeds: Of methods that depend on one.
        console: Where warnings of the scorers go.
    """
    measured = []
    label = f"rank {level.granularity}s"
    for name, method in track(methods.items(), label, transient=True, console=console):
        made = [
            measure(level, method.make(level, seed), console, name)
            for seed in (seeds if method.is_random else seeds[:1])
        ]
        by_seed = tuple(values for values, _ in made)
        measured.append(Measured(name, level.granularity, by_seed, made[0][1]))
    return measured


def measure(level: Level, scorer: Scorer, console: Console, name: str) -> tuple[pd.DataFrame, Ranking]:
    """Fits a scorer and ranks the queries of a level: the metrics of each query, and the ranking."""
    scorer.fit(level.inputs)
    for warning in scorer.warnings_:
        print_line(console, f"{name}, {level.granularity}s: {warning}")
    ranking = rank(level.task, NewestFirst(scorer))
    return query_metrics(level.task, ranking), ranking


def query_metrics(task: RankingTask, ranking: Ranking) -> pd.DataFrame:
    """MRR, MAP, RR@k and P@k of every query.

    RR@k is 1 if an inducing change is among the first k, which papers on localization call hit@k or top@k. P@k is the
    share of the first k that are inducing.
    """
    values = per_query(ranking.queries)
    kept = [name for name in values if not str(name).startswith("map@")]
    counts = {f"p@{k}": precision_at(task, ranking, k) for k in PRECISION_AT}
    return values[kept].assign(**counts)


def precision_at(task: RankingTask, ranking: Ranking, k: int) -> np.ndarray:
    """The share of the first k candidates that are relevant, ``(Q,)``; fewer candidates than k count as misses."""
    best = ranking.top[ranking.top["place"] <= k]
    found = best["candidate"].to_numpy()
    query = best["query"].to_numpy()
    hits = [np.isin(found[query == row], task.relevant(index)).sum() for index, row in enumerate(task.queries)]
    return np.array(hits) / k
