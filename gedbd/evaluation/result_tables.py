"""The tables and figures of a run: methods on pairs, methods on queries, example pairs."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gedbd.evaluation import figures
from gedbd.evaluation.display_names import ALWAYS_DUPLICATE, FROZEN, TEXT, TEXT_GRAPH, display_name
from gedbd.evaluation.pairwise import best_threshold, pairwise_metrics
from gedbd.evaluation.significance import f1_interval, mean_interval
from gedbd.retrieval.ranking_metrics import Ranking, per_query, ranking_metrics

# The column of ``predictions`` that holds each method's scores.
WITH_GRAPH = {TEXT_GRAPH: "score", TEXT: "score_text", FROZEN: "score_frozen"}
WITHOUT_GRAPH = {TEXT: "score", FROZEN: "score_frozen"}


def compare_methods(
    predictions: pd.DataFrame, part: str, methods: Mapping[str, str], threshold: float | None = None
) -> pd.DataFrame:
    """The first method and the methods it is compared with, on the same pairs.

    Args:
        predictions: Pairs of the parts ``val`` and ``part`` with ``label``, ``part``, ``group`` and columns of scores.
        part: The part to report.
        methods: The column of each method's scores, by method id.
        threshold: The first method's threshold, if it has one. The others get the best one on the validation pairs.

    Returns:
        One row a method: its id, the threshold, the metrics of ``pairwise_metrics``, and the interval of F1.
    """
    chosen = predictions[predictions["part"] == part]
    val = predictions[predictions["part"] == "val"]
    labels = chosen["label"].to_numpy()
    group = chosen["group"].to_numpy()
    rows = []
    for place, (name, column) in enumerate(methods.items()):
        own = threshold if place == 0 else None
        if own is None:
            own = best_threshold(val[column].to_numpy(), val["label"].to_numpy())
        rows.append(_pair_row(name, chosen[column].to_numpy(), labels, own, group))
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
    """Several methods on the same queries.

    Args:
        rankings: By method id.
        group: ``(N,)`` group of every report.

    Returns:
        One row a method: ``queries``, ``reachable`` (share of queries with a relevant candidate, an upper bound of
        RR@k), the metrics of ``ranking_metrics``, and the intervals of RR@10 and MRR.
    """
    rows = []
    for name, ranking in rankings.items():
        table = ranking.queries
        row = {"method": name, "queries": len(table), "reachable": float(table["reachable"].mean())}
        row |= ranking_metrics(table)
        values = per_query(table)
        for metric in (name for name in ("rr@10", "mrr") if name in values):
            ends = mean_interval(values[metric].to_numpy(), group[table["query"]])
            row |= dict(zip((f"{metric}_low", f"{metric}_high"), ends, strict=True))
        rows.append(row)
    return pd.DataFrame(rows)


def example_pairs(predictions: pd.DataFrame, part: str, count: int = 3) -> pd.DataFrame:
    """Pairs to look at, with the columns of the paper's Table 3: ids, titles, similarity, prediction.

    For each class these are the pairs nearest to its median score, and those with the worst scores.
    """
    chosen = predictions[predictions["part"] == part]
    frames = []
    for label, worst in ((1, "nsmallest"), (0, "nlargest")):
        mine = chosen[chosen["label"] == label]
        typical = (mine["score"] - mine["score"].median()).abs().nsmallest(count).index
        frames.append(mine.loc[typical].assign(example="typical"))
        frames.append(getattr(mine.drop(typical), worst)(count, "score").assign(example="hardest"))
    columns = ["label", "example", "id_1", "id_2", "score", "predicted", "title_1", "title_2"]
    return pd.concat(frames)[columns].reset_index(drop=True)


def draw_figures(
    predictions: pd.DataFrame, part: str, methods: Mapping[str, str], threshold: float
) -> dict[str, Figure]:
    """The figures of one part's pairs, by name."""
    chosen = predictions[predictions["part"] == part]
    scores = chosen["score"].to_numpy()
    labels = chosen["label"].to_numpy()
    curves = {display_name(name): (chosen[column].to_numpy(), labels) for name, column in methods.items()}
    return {
        "confusion_matrix": figures.confusion_matrix(scores, labels, threshold),
        "similarity_histogram": figures.similarity_histogram(scores, labels, threshold),
        "precision_recall": figures.precision_recall(curves),
    }


def right_and_wrong(right: pd.DataFrame, wrong: pd.DataFrame, name: str, by: str) -> pd.DataFrame:
    """Two tables of examples as one, the highest first.

    Args:
        right: The right ones.
        wrong: The wrong ones.
        name: Name of the first column, which says ``right`` or ``wrong``.
        by: The column that they are sorted by.
    """
    marked = [right.assign(**{name: "right"}), wrong.assign(**{name: "wrong"})]
    # Without empty tables, whose columns have no types.
    both = pd.concat([table for table in marked if len(table)] or marked[:1])
    both = both.sort_values(by, ascending=False, kind="stable").reset_index(drop=True)
    both.insert(0, name, both.pop(name))
    return both
