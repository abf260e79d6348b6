"""Ranks changes by several methods, and measures how high the inducing ones stand."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console

from gedbd.corpora.changes import Granularity
from gedbd.corpora.relevance import Links
from gedbd.io.console import print_line, track
from gedbd.localization.training.localization_protocol import Level
from gedbd.retrieval.ranking_metrics import Ranking, per_query, rank
from gedbd.retrieval.ranking_tasks import RankingTask
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs
from gedbd.retrieval.scorers.simple_scorers import Recency

EARLIER_BUGS = "earlier_bugs"
PRECISION_AT = (1, 3, 5)
MAX_RANK = 100  # ranks that curves show
# The scorer of a granularity, not fitted yet, by a seed.
ScorerMaker = Callable[[Level, int], Scorer]


class RankingMethod(NamedTuple):
    """A way to rank changes.

    Attributes:
        make: Makes its scorer.
        is_random: Whether its result depends on the seed.
    """

    make: ScorerMaker
    is_random: bool


class MeasuredMethod(NamedTuple):
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


def rank_level(
    level: Level, methods: Mapping[str, RankingMethod], seeds: Sequence[int], console: Console
) -> list[MeasuredMethod]:
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
        measured.append(MeasuredMethod(name, level.granularity, by_seed, made[0][1]))
    return measured


def measure(level: Level, scorer: Scorer, console: Console, name: str) -> tuple[pd.DataFrame, Ranking]:
    """Fits a scorer and ranks the queries of a level: the metrics of each query, and the ranking."""
    scorer.fit(level.inputs)
    for warning in scorer.warnings_:
        print_line(console, f"{name}, {level.granularity}s: {warning}")
    ranking = rank(level.task, NewestFirst(scorer))
    return query_metrics(level.task, ranking), ranking


def query_metrics(task: RankingTask, ranking: Ranking) -> pd.DataFrame:
    """MRR, MAP, RR@k, P@k and R_cap@k of every query.

    RR@k is 1 if an inducing change is among the first k, which papers on localization call hit@k or top@k. P@k is the
    share of the first k that are inducing. R_cap@k is the number of inducing changes among the first k, divided by
    the smaller one of k and the number of all inducing candidates; the code of SemanticCodeBERT's authors calls it P@k.

    MAP is the mean of the average precisions. The talk on SemanticCodeBERT prints the mean of 1 / AvgP, which would
    exceed 1: we take it for a misprint. Its AvgP divides by the number of relevant changes; in the authors' code
    (results/accuracy.py) those made after the report are among them, here they are not.
    """
    values = per_query(ranking.queries)
    kept = [name for name in values if not str(name).startswith("map@")]
    counts = {f"p@{k}": precision_at(task, ranking, k) for k in PRECISION_AT}
    capped = {f"r_cap@{k}": capped_recall_at(task, ranking, k) for k in PRECISION_AT}
    return values[kept].assign(**counts, **capped)


def capped_recall_at(task: RankingTask, ranking: Ranking, k: int) -> np.ndarray:
    """Relevant candidates among the first k over the most that could be there, ``(Q,)``: with 2 relevant ones, 2."""
    most = [max(1, min(k, len(task.relevant(index)))) for index in range(len(task.queries))]
    return np.asarray(precision_at(task, ranking, k) * k / np.array(most))


def precision_at(task: RankingTask, ranking: Ranking, k: int) -> np.ndarray:
    """The share of the first k candidates that are relevant, ``(Q,)``; fewer candidates than k count as misses."""
    best = ranking.top[ranking.top["place"] <= k]
    found = best["candidate"].to_numpy()
    query = best["query"].to_numpy()
    hits = [np.isin(found[query == row], task.relevant(index)).sum() for index, row in enumerate(task.queries)]
    return np.array(hits) / k


class Age(Recency):
    """log(1 + days between change and report): the oldest change first, which is often the import of a project."""

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 or above."""
        return -super().scores(rows)


class EarlierBugs(Scorer):
    """How many earlier bugs a change is known to have induced when the report is made; reads no content.

    Args:
        links: Inducing changes of reports; a link is known from ``made_at`` on, one without a date never.
        inputs: The reports and changes that the links are of.
    """

    def __init__(self, links: Links, inputs: ScorerInputs) -> None:
        known = links.table[links.table["made_at"].notna()]
        self.made_at = known["made_at"].to_numpy(dtype="datetime64[ns]")
        self.documents = known["document"].to_numpy(dtype=np.int64)
        self.queries = known["query"].to_numpy(dtype=np.int64)
        self.created_at = inputs.queries["created_at"].to_numpy(dtype="datetime64[ns]")
        self.num_documents = len(inputs.documents)

    def fit(self, inputs: ScorerInputs) -> None:
        """Does nothing."""

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` counts."""
        return np.stack([self._counts(int(row)) for row in rows])

    def _counts(self, row: int) -> np.ndarray:
        is_known = (self.made_at < self.created_at[row]) & (self.queries != row)
        return np.bincount(self.documents[is_known], minlength=self.num_documents).astype(np.float32)


class NewestFirst(Scorer):
    """The places of documents by a fitted scorer: of equal scores, the newer document comes first.

    Many reports name no file and have no stack trace, so that a scorer of these gives all changes the same score. With
    the oldest first, such a scorer would be as good as the age of a change, which finds the import of a project.

    Args:
        scorer: A fitted scorer.
    """

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer

    def fit(self, inputs: ScorerInputs) -> None:
        """Does nothing."""

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` places from 0, the highest for the highest score: scores 5 5 1 give 1 2 0."""
        scores = np.asarray(self.scorer.scores(rows), dtype=np.float32)
        order = np.argsort(scores, axis=1, kind="stable")
        places = np.empty_like(scores)
        np.put_along_axis(places, order, np.arange(scores.shape[1], dtype=np.float32)[None], axis=1)
        # NaN is sorted to the end: it would be the best score.
        return np.where(np.isnan(scores), np.nan, places)
