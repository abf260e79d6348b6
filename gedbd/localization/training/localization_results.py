"""The metrics of the compared methods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console

from gedbd.corpora.corpus import ChangeCorpus, Granularity
from gedbd.evaluation.significance import compare_means, interval_columns
from gedbd.io.console import print_line, track
from gedbd.localization.training.compared_methods import EarlierBugs, NewestFirst, RankingMethod
from gedbd.localization.training.localization_data import Level
from gedbd.retrieval.ranking_tasks import Ranking, RankingTask, per_query, rank
from gedbd.retrieval.scorers.scorer_contract import Scorer

PRECISION_AT = (1, 3, 5)
CAPPED = ("r_cap@1", "r_cap@3", "r_cap@5")
METRICS = ("mrr", "map", "p@1", "p@3", "p@5", *CAPPED, "rr@1", "rr@3", "rr@5", "rr@10", "rr@20", "rr@100")
COMPARED = ("mrr", "rr@10")


class MeasuredMethod(NamedTuple):
    """The metrics of a method at a granularity."""

    method: str
    granularity: Granularity  # of the ranked changes
    by_seed: tuple[pd.DataFrame, ...]  # for each seed a table with a row per query: ``mrr``, ``map``, ``rr@k``, ``p@k``
    ranking: Ranking  # the ranking of the first seed

    @property
    def values(self) -> pd.DataFrame:
        """Means over seeds, one row per query."""
        total = np.sum([values.to_numpy() for values in self.by_seed], axis=0)
        return pd.DataFrame(total / len(self.by_seed), columns=self.by_seed[0].columns)


def rank_level(
    level: Level, methods: Mapping[str, RankingMethod], seeds: Sequence[int], console: Console
) -> list[MeasuredMethod]:
    """Fits and measures all methods of a granularity, random ones with each seed."""
    measured = []
    for name, method in track(methods.items(), f"rank {level.granularity}s"):
        rankings = [
            measure(level, method.make(level, seed), console, name)
            for seed in (seeds if method.is_random else seeds[:1])
        ]
        by_seed = tuple(values for values, _ in rankings)
        measured.append(MeasuredMethod(name, level.granularity, by_seed, rankings[0][1]))
    return measured


def measure(level: Level, scorer: Scorer, console: Console, name: str) -> tuple[pd.DataFrame, Ranking]:
    """Fits a scorer and ranks the queries of a level; returns the metrics of each query, and the ranking."""
    scorer.fit(level.inputs)
    for warning in scorer.warnings_:
        print_line(console, f"{name}, {level.granularity}s: {warning}")
    ranking = rank(level.task, NewestFirst(scorer))
    return query_metrics(level.task, ranking), ranking


def query_metrics(task: RankingTask, ranking: Ranking) -> pd.DataFrame:
    """MRR, MAP, RR@k, P@k and R_cap@k of each query.

    RR@k is 1 if an inducing change is among the first k (hit@k or top@k in papers on localization). P@k is the number
    of inducing changes among the first k, divided by k; R_cap@k divides it by k or, if that is smaller, by the number
    of inducing candidates: the code of SemanticCodeBERT's authors calls it P@k.

    MAP is the mean of the average precisions. The talk on SemanticCodeBERT prints the mean of 1 / AvgP, which would
    exceed 1: we assume a misprint. Unlike in the authors' code (results/accuracy.py), changes made after the report are
    not counted as relevant.
    """
    values = per_query(ranking.queries)
    values = values[[name for name in values if not str(name).startswith("map@")]]
    relevant = [task.relevant(index) for index in range(len(task))]
    best = ranking.top[ranking.top["place"] <= max(PRECISION_AT)]
    by_query = [best.loc[best["query"] == row, "candidate"].to_numpy() for row in task.queries]
    capped = {}
    for k in PRECISION_AT:
        hits = np.array([np.isin(top[:k], rows).sum() for top, rows in zip(by_query, relevant, strict=True)])
        values[f"p@{k}"] = hits / k
        capped[f"r_cap@{k}"] = hits / np.array([max(1, min(k, len(rows))) for rows in relevant])
    return values.assign(**capped)


@dataclass(frozen=True)
class LocalizationResult:
    """The result of a run."""

    corpus: ChangeCorpus  # reports and changes
    levels: tuple[Level, ...]  # the ranked granularities; the first one is that of ``results_table``
    measured: tuple[MeasuredMethod, ...]  # the measured methods, those of the first level first
    baseline: str  # the method that the others are compared with
    first: tuple[str, ...]  # ids of the trained methods, first in tables
    epochs: pd.DataFrame  # one row per epoch of HMCBL's training; empty without training

    @cached_property
    def ranking(self) -> pd.DataFrame:
        """One row per granularity and method, the trained methods first, see ``ranking_table``."""
        table = ranking_table(self.measured, self.baseline)
        granularity = table["granularity"].map({level.granularity: number for number, level in enumerate(self.levels)})
        is_other = ~table["method"].isin(self.first)
        return table.iloc[np.lexsort((is_other, granularity))].reset_index(drop=True)

    @cached_property
    def known(self) -> pd.DataFrame:
        """Results of the first granularity by whether the inducing change is known, see ``known_table``."""
        level = self.levels[0]
        scorer = EarlierBugs(self.corpus.inducing[level.granularity], level.inputs)
        best = []
        for index, query in enumerate(level.task.queries):
            counts = scorer.scores(np.array([query]))[0]
            best.append(counts[level.task.relevant(index)].max())
        measured = [method for method in self.measured if method.granularity == level.granularity]
        return known_table(measured, np.array(best), self.baseline)

    @property
    def summary(self) -> str:
        """The size of the data, and whether the trained methods are better than the baseline, in words."""
        level = self.levels[0]
        table = self.ranking
        rows = {row["method"]: row for row in table[table["granularity"] == level.granularity].to_dict("records")}
        candidates = f"{len(level.inputs.documents):,} {level.granularity}s"
        sentences = [
            f"{self.corpus.name}: {len(level.training):,} training reports, {len(level.task):,} test reports;"
            f" each report ranks the earlier ones of {candidates}.",
            f"MRR of {self.baseline}: {rows[self.baseline]['mrr']:.3f}.",
        ]
        sentences += [_against(name, rows[name], self.baseline) for name in self.first if name in rows]
        return " ".join(sentences)


def _against(method: str, row: Mapping[Any, Any], baseline: str) -> str:
    """A sentence with a method's MRR and its difference from the baseline."""
    low = row["mrr_difference_low"]
    high = row["mrr_difference_high"]
    if low > 0:
        verdict = f"better than {baseline}"
    elif high < 0:
        verdict = f"worse than {baseline}"
    else:
        verdict = f"not significantly different from {baseline}"
    return f"{method}: {row['mrr']:.3f}, {verdict} (difference {row['mrr_difference']:+.3f} [{low:+.3f}, {high:+.3f}])."


def ranking_table(measured: Sequence[MeasuredMethod], baseline: str) -> pd.DataFrame:
    """One row per granularity and method.

    Columns are ``granularity``, ``method``, ``queries``, ``METRICS`` (means over seeds and queries) and, for
    ``COMPARED``, the ends of the 95% interval, bootstrapped over queries; the difference from the baseline on the same
    queries with its interval (a paired bootstrap) and, for MRR, Wilcoxon's p; ``seeds``, and the lowest and highest MRR
    of a seed.
    """
    baselines = {method.granularity: method for method in measured if method.method == baseline}
    return pd.DataFrame([_row(method, baselines.get(method.granularity)) for method in measured])


def _row(measured: MeasuredMethod, baseline: MeasuredMethod | None) -> dict[str, object]:
    values = measured.values
    cluster = np.arange(len(values))  # each report is a cluster
    row: dict[str, object] = {"granularity": measured.granularity, "method": measured.method, "queries": len(values)}
    row |= {name: float(values[name].mean()) for name in METRICS} | interval_columns(values, cluster, COMPARED)
    if baseline is not None and baseline.method != measured.method:
        for name in COMPARED:
            compared = compare_means(values[name].to_numpy(), baseline.values[name].to_numpy(), cluster)
            row |= compared.columns(f"{name}_difference")
            if name == "mrr":
                row["mrr_p_value"] = compared.p_value
    by_seed = [float(seed["mrr"].mean()) for seed in measured.by_seed]
    return row | {"seeds": len(by_seed), "mrr_seeds_min": min(by_seed), "mrr_seeds_max": max(by_seed)}


def results_table(table: pd.DataFrame) -> pd.DataFrame:
    """One row per method: metrics of the first granularity, and MRR and RR@10 of the others, such as ``file_mrr``."""
    names = list(dict.fromkeys(table["granularity"]))
    ends = [f"{name}_{end}" for name in COMPARED for end in ("low", "high")]
    first = table[table["granularity"] == names[0]].set_index("method")[["queries", *METRICS, *ends]]
    parts = [first]
    for name in names[1:]:
        other = table[table["granularity"] == name].set_index("method")[list(COMPARED)]
        parts.append(other.add_prefix(f"{name}_"))
    methods = list(dict.fromkeys(table["method"]))
    wide: pd.DataFrame = pd.concat(parts, axis=1).reindex(methods)
    return wide.rename_axis("method").reset_index()


def known_table(measured: Sequence[MeasuredMethod], counts: np.ndarray, baseline: str) -> pd.DataFrame:
    """Metrics on reports whose inducing change is known from an earlier bug, and on all other reports.

    A ranker can memorise changes that introduced many bugs, such as the import of a project, but only for the former.
    ``counts (Q,)`` is the maximum number of known earlier bugs over the inducing changes of each query. Columns are
    ``inducing_change`` (``known`` or ``new``), ``queries``, ``method``, and ``mrr`` and ``rr@10`` with the ends of
    their intervals and the difference from the baseline on the same queries.
    """
    reference = next(method for method in measured if method.method == baseline).values
    rows = []
    for name, mask in (("known", counts > 0), ("new", counts == 0)):
        cluster = np.arange(int(mask.sum()))
        for method in measured if len(cluster) else []:
            row: dict[str, object] = {"inducing_change": name, "queries": len(cluster), "method": method.method}
            values = method.values[mask]
            for metric in COMPARED:
                row |= {metric: float(values[metric].mean()), **interval_columns(values, cluster, [metric])}
                if method.method != baseline:
                    first, second = values[metric].to_numpy(), reference.loc[mask, metric].to_numpy()
                    row |= compare_means(first, second, cluster).columns(f"{metric}_difference")
            rows.append(row)
    return pd.DataFrame(rows)
