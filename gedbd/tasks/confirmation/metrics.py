"""Spearman's rho and RMSE of predicted times, with intervals, and comparisons of methods."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import mannwhitneyu, rankdata

from gedbd.evaluation.significance import metric_interval
from gedbd.tasks.confirmation.methods import AnchorData, Method, Prediction, Rows
from gedbd.tasks.confirmation.models import Regressor

MEDIAN = "median"
REPEATS = 5  # permutations of each feature
INTERVAL = 0.8  # coverage of the interval of a predicted time


def spearman(predicted: np.ndarray, true: np.ndarray) -> float:
    """Spearman's rho: Pearson's correlation of the ranks, ties sharing their mean rank; NaN for a constant."""
    first = rankdata(predicted) - (len(predicted) + 1) / 2
    second = rankdata(true) - (len(true) + 1) / 2
    scale = np.sqrt((first**2).sum() * (second**2).sum())
    return float((first * second).sum() / scale) if scale > 0 else float("nan")


def rmse(predicted: np.ndarray, true: np.ndarray) -> float:
    """Root of the mean squared error."""
    return float(np.sqrt(np.mean((predicted - true) ** 2)))


def compare_methods(
    predictions: Mapping[str, Prediction], methods: Mapping[str, Method], data: AnchorData
) -> pd.DataFrame:
    """All methods on the same test anchors, the one with the best validation rho first.

    Returns:
        One row a method: ``method``, ``features``, ``spearman`` and ``rmse`` with the ends of their 95% intervals,
        ``rmse_difference`` (RMSE less that of the median) with its interval, ``val_spearman`` and ``val_rmse``.
        Intervals are bootstrapped over duplicate groups.
    """
    true = data.y[data.test]
    group = data.anchors["group"].to_numpy()[data.test]
    median = predictions[MEDIAN].test
    rows = []
    for name, predicted in predictions.items():
        row: dict[str, Any] = {"method": name, "features": " + ".join(methods[name].features) or "none"}
        row |= _with_ends("spearman", spearman, (predicted.test, true), group)
        row |= _with_ends("rmse", rmse, (predicted.test, true), group)
        row |= _with_ends("rmse_difference", _rmse_difference, (predicted.test, median, true), group)
        row["val_spearman"] = spearman(predicted.val, data.y[data.val])
        row["val_rmse"] = rmse(predicted.val, data.y[data.val])
        rows.append(row)
    return pd.DataFrame(rows).sort_values("val_spearman", ascending=False, kind="stable", ignore_index=True)


def compare_network(predictions: Mapping[str, Prediction], data: AnchorData) -> pd.DataFrame:
    """The methods with the tag network against those without it, ``text_network_NAME`` against ``text_NAME``.

    The paper calls its Mann-Whitney U test a test of the two rankings. The ranks of two complete rankings are the same
    numbers, so that their test always gives p = 1. It is done on the predicted times instead: p tells whether one
    method tends to predict longer times, not whether it ranks better. That is what the interval of the difference in
    rho tells, a paired bootstrap over duplicate groups.
    """
    true = data.y[data.test]
    group = data.anchors["group"].to_numpy()[data.test]
    rows = []
    for name in predictions:
        with_network = name.replace("text_", "text_network_", 1)
        if name == with_network or name.startswith("text_network_") or with_network not in predictions:
            continue
        first = predictions[with_network].test
        second = predictions[name].test
        row: dict[str, Any] = {"method": with_network, "against": name}
        row |= _with_ends("spearman_difference", _spearman_difference, (first, second, true), group)
        rows.append(row | {"mann_whitney_p": float(mannwhitneyu(first, second).pvalue)})
    return pd.DataFrame(rows)


def permutation_importance(model: Regressor, val: Rows, names: list[str]) -> pd.DataFrame:
    """How much rho on validation falls when a feature's values are shuffled, the mean of ``REPEATS`` times.

    Returns:
        ``feature`` and ``importance``, the largest first.
    """
    rng = np.random.default_rng(0)
    full = spearman(model.predict(val.x), val.y)
    rows = []
    for place, name in enumerate(names):
        shuffled = val.x.copy()
        falls = []
        for _ in range(REPEATS):
            shuffled[:, place] = rng.permutation(val.x[:, place])
            falls.append(full - spearman(model.predict(shuffled), val.y))
        rows.append({"feature": name, "importance": float(np.mean(falls))})
    return pd.DataFrame(rows).sort_values("importance", ascending=False, kind="stable", ignore_index=True)


def interval_of(residuals: np.ndarray) -> tuple[float, float]:
    """What to add to a prediction for the ends of its interval: quantiles of true less predicted on validation."""
    low, high = np.quantile(residuals, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2])
    return float(low), float(high)


def _with_ends(name: str, metric: Any, columns: tuple[np.ndarray, ...], group: np.ndarray) -> dict[str, float]:
    low, high = metric_interval(metric, columns, group)
    return {name: metric(*columns), f"{name}_low": low, f"{name}_high": high}


def _rmse_difference(first: np.ndarray, second: np.ndarray, true: np.ndarray) -> float:
    return rmse(first, true) - rmse(second, true)


def _spearman_difference(first: np.ndarray, second: np.ndarray, true: np.ndarray) -> float:
    return spearman(first, true) - spearman(second, true)
