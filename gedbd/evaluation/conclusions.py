"""Says in one line whether a model was better than predicting without it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from gedbd.evaluation.display_names import ALWAYS_DUPLICATE, FROZEN, display_name
from gedbd.evaluation.significance import Comparison, compare_f1, compare_means
from gedbd.retrieval.ranking_metrics import Ranking, per_query

METRIC = "rr@10"


def verdict_on_pairs(predictions: pd.DataFrame, part: str, columns: Mapping[str, str], results: pd.DataFrame) -> str:
    """F1 of the first method against "always duplicate" and, if it was scored, the frozen encoder.

    Args:
        predictions: Scored pairs with ``part``, ``label``, ``group`` and columns of scores.
        part: The part to report.
        columns: The column of each method's scores, by method id; the first method is the run's own.
        results: The table of ``compare_methods``: F1 and threshold of each method.

    Returns:
        One line. A difference counts as shown if its 95% interval (paired bootstrap over duplicate groups) excludes 0.
    """
    pairs = predictions[predictions["part"] == part]
    table = results.set_index("method")
    own = next(iter(columns))
    labels = pairs["label"].to_numpy()
    group = pairs["group"].to_numpy()

    def predicted(method: str) -> np.ndarray:
        if method == ALWAYS_DUPLICATE:
            return np.ones(len(pairs), dtype=bool)
        scores = pairs[columns[method]].to_numpy()
        # compared in the type of the scores, as when the threshold was chosen
        return np.asarray(scores >= np.asarray(table["threshold"][method], dtype=scores.dtype))

    mine = table.loc[own]
    line = f"{part} F1 {_with_interval(mine, 'f1')}"
    others = [ALWAYS_DUPLICATE, FROZEN] if FROZEN in columns and own != FROZEN else [ALWAYS_DUPLICATE]
    for other in others:
        line += _against(other, compare_f1(predicted(own), predicted(other), labels, group))
    return line


def verdict_on_queries(part: str, rankings: Mapping[str, Ranking], group: np.ndarray, ranking: pd.DataFrame) -> str:
    """RR@10 of the first method against the frozen encoder, in one line; empty if that was not measured.

    Args:
        part: The part to report.
        rankings: By method id; the first method is the run's own.
        group: ``(N,)`` group of every report.
        ranking: The table of ``compare_rankings``.
    """
    own = next(iter(rankings))
    values = {name: per_query(rankings[name].queries) for name in (own, FROZEN) if name in rankings}
    if len(values) < 2 or METRIC not in values[own]:
        return ""
    mine = ranking.set_index("method").loc[own]
    cluster = group[rankings[own].queries["query"]]
    compared = compare_means(values[own][METRIC].to_numpy(), values[FROZEN][METRIC].to_numpy(), cluster)
    return f"{part} {METRIC.upper()} {_with_interval(mine, METRIC)}" + _against(FROZEN, compared)


def _against(other: str, compared: Comparison) -> str:
    difference = f"{compared.difference:+.3f} [{compared.low:+.3f}, {compared.high:+.3f}]"
    return f"; {display_name(other)} {compared.second:.3f}: {conclude(compared)}, {difference}"


def conclude(compared: Comparison) -> str:
    """``better`` or ``worse`` if the interval of the difference is above or below 0, else ``no difference shown``."""
    if compared.low > 0:
        return "better"
    return "worse" if compared.high < 0 else "no difference shown"


def _with_interval(row: Any, metric: str) -> str:
    return f"{row[metric]:.3f} [{row[f'{metric}_low']:.3f}, {row[f'{metric}_high']:.3f}]"
