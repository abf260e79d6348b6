"""The results of a run: tables of methods on pairs and on queries, example pairs, figures, and a summary."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gedbd.evaluation import figures
from gedbd.evaluation.display_names import ALWAYS_DUPLICATE, FROZEN, TEXT, TEXT_GRAPH, display_name
from gedbd.evaluation.pairwise import best_threshold, pairwise_metrics
from gedbd.evaluation.significance import Comparison, compare_f1, compare_means, f1_interval, interval_columns
from gedbd.retrieval.ranking_tasks import Ranking, per_query, ranking_metrics

# The column of ``predictions`` with each method's scores.
WITH_GRAPH = {TEXT_GRAPH: "score", TEXT: "score_text", FROZEN: "score_frozen"}
WITHOUT_GRAPH = {TEXT: "score", FROZEN: "score_frozen"}
VERDICT_METRIC = "rr@10"


def compare_methods(
    predictions: pd.DataFrame, part: str, methods: Mapping[str, str], threshold: float | None = None
) -> pd.DataFrame:
    """Compares methods on the same pairs.

    Args:
        predictions: Pairs of the splits ``val`` and ``part`` with ``label``, ``part``, ``group`` and columns of scores.
        part: The reported split.
        methods: The column of each method's scores, by method id.
        threshold: The first method's threshold; the others, and the first if None, get the best one on validation.

    Returns:
        One row per method: its id, the threshold, the metrics of ``pairwise_metrics``, and the interval of F1.
    """
    pairs = predictions[predictions["part"] == part]
    val = predictions[predictions["part"] == "val"]
    labels = pairs["label"].to_numpy()
    group = pairs["group"].to_numpy()
    rows: list[dict[str, object]] = []
    for name, column in methods.items():
        if rows or threshold is None:
            threshold = best_threshold(val[column].to_numpy(), val["label"].to_numpy())
        rows.append(_pair_row(name, pairs[column].to_numpy(), labels, threshold, group))
    rows.append(_pair_row(ALWAYS_DUPLICATE, np.ones(len(labels)), labels, 0.0, group))
    return pd.DataFrame(rows)


def _pair_row(
    name: str, scores: np.ndarray, labels: np.ndarray, threshold: float, group: np.ndarray
) -> dict[str, object]:
    low, high = f1_interval(scores >= np.asarray(threshold, dtype=scores.dtype), labels, group)
    return {
        "method": name,
        "threshold": threshold,
        **pairwise_metrics(scores, labels, threshold),
        "f1_low": low,
        "f1_high": high,
    }


def compare_rankings(rankings: Mapping[str, Ranking], group: np.ndarray) -> pd.DataFrame:
    """Compares methods on the same queries.

    Args:
        rankings: Rankings by method id.
        group: ``(N,)`` group of each report.

    Returns:
        One row per method: ``queries``, ``reachable`` (share of queries with a relevant candidate, an upper bound of
        RR@k), the metrics of ``ranking_metrics``, and the intervals of RR@10 and MRR.
    """
    rows = []
    for name, ranking in rankings.items():
        table = ranking.queries
        row = {"method": name, "queries": len(table), "reachable": float(table["reachable"].mean())}
        row |= ranking_metrics(table)
        values = per_query(table)
        measured = [metric for metric in ("rr@10", "mrr") if metric in values]
        rows.append(row | interval_columns(values, group[table["query"]], measured))
    return pd.DataFrame(rows)


def example_pairs(predictions: pd.DataFrame, part: str, count: int = 3) -> pd.DataFrame:
    """Example pairs with the columns of the paper's Table 3: ids, similarity, prediction, and titles if there are any.

    For each class, the pairs nearest to its median score, and those with the worst scores.
    """
    split = predictions[predictions["part"] == part]
    frames = []
    for label, worst in ((1, "nsmallest"), (0, "nlargest")):
        pairs = split[split["label"] == label]
        typical = (pairs["score"] - pairs["score"].median()).abs().nsmallest(count).index
        frames.append(pairs.loc[typical].assign(example="typical"))
        frames.append(getattr(pairs.drop(typical), worst)(count, "score").assign(example="hardest"))
    columns = ["label", "example", "id_1", "id_2", "score", "predicted", "title_1", "title_2"]
    examples = pd.concat(frames).reset_index(drop=True)
    return examples[[name for name in columns if name in examples]]


def draw_figures(
    predictions: pd.DataFrame, part: str, methods: Mapping[str, str], threshold: float
) -> dict[str, Figure]:
    """The figures of a split's pairs, by name."""
    pairs = predictions[predictions["part"] == part]
    scores = pairs["score"].to_numpy()
    labels = pairs["label"].to_numpy()
    curves = {display_name(name): (pairs[column].to_numpy(), labels) for name, column in methods.items()}
    return {
        "confusion_matrix": figures.confusion_matrix(scores, labels, threshold),
        "similarity_histogram": figures.similarity_histogram(scores, labels, threshold),
        "precision_recall": figures.precision_recall(curves),
    }


def right_and_wrong(right: pd.DataFrame, wrong: pd.DataFrame, name: str, by: str) -> pd.DataFrame:
    """Joins two tables, with ``right`` or ``wrong`` in a first column ``name``, and sorts by ``by``, descending."""
    tables = [right.assign(**{name: "right"}), wrong.assign(**{name: "wrong"})]
    # Skips empty tables, whose columns have no types.
    joined = pd.concat([table for table in tables if len(table)] or tables[:1])
    joined = joined.sort_values(by, ascending=False, kind="stable").reset_index(drop=True)
    joined.insert(0, name, joined.pop(name))
    return joined


def verdict_on_pairs(predictions: pd.DataFrame, part: str, columns: Mapping[str, str], results: pd.DataFrame) -> str:
    """F1 of the first method against "always duplicate" and the frozen encoder, if it was scored, in one line.

    A difference is significant if its 95% interval (paired bootstrap over duplicate groups) excludes 0. The first
    method is that of the run, ``results`` the table of ``compare_methods``.
    """
    pairs = predictions[predictions["part"] == part]
    table = results.set_index("method")
    first = next(iter(columns))
    labels = pairs["label"].to_numpy()
    group = pairs["group"].to_numpy()

    def predicted(method: str) -> np.ndarray:
        if method == ALWAYS_DUPLICATE:
            return np.ones(len(pairs), dtype=bool)
        scores = pairs[columns[method]].to_numpy()
        # in the dtype of the scores, as when the threshold was chosen
        return np.asarray(scores >= np.asarray(table["threshold"][method], dtype=scores.dtype))

    line = f"{part} F1 {_with_interval(table.loc[first], 'f1')}"
    references = [ALWAYS_DUPLICATE, FROZEN] if FROZEN in columns and first != FROZEN else [ALWAYS_DUPLICATE]
    for reference in references:
        line += _against(reference, compare_f1(predicted(first), predicted(reference), labels, group))
    return line


def verdict_on_queries(part: str, rankings: Mapping[str, Ranking], group: np.ndarray, ranking: pd.DataFrame) -> str:
    """RR@10 of the first method against the frozen encoder, in one line; empty if that was not measured.

    The first method is that of the run, ``ranking`` the table of ``compare_rankings``.
    """
    first = next(iter(rankings))
    values = {name: per_query(rankings[name].queries) for name in (first, FROZEN) if name in rankings}
    if len(values) < 2 or VERDICT_METRIC not in values[first]:
        return ""
    cluster = group[rankings[first].queries["query"]]
    comparison = compare_means(
        values[first][VERDICT_METRIC].to_numpy(), values[FROZEN][VERDICT_METRIC].to_numpy(), cluster
    )
    row = ranking.set_index("method").loc[first]
    return f"{part} {VERDICT_METRIC.upper()} {_with_interval(row, VERDICT_METRIC)}" + _against(FROZEN, comparison)


def _against(reference: str, comparison: Comparison) -> str:
    difference = f"{comparison.difference:+.3f} [{comparison.low:+.3f}, {comparison.high:+.3f}]"
    verdict = "better" if comparison.low > 0 else "worse" if comparison.high < 0 else "not significant"
    return f"; {display_name(reference)} {comparison.second:.3f}: {verdict}, {difference}"


def _with_interval(row: Any, metric: str) -> str:
    return f"{row[metric]:.3f} [{row[f'{metric}_low']:.3f}, {row[f'{metric}_high']:.3f}]"
