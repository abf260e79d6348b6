"""Spearman's rho and RMSE of predicted times, with intervals, and comparisons of methods."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import mannwhitneyu

from gedbd.evaluation.significance import metric_interval
from gedbd.tasks.confirmation.methods import AnchorData, Method, Prediction, Rows
from gedbd.tasks.confirmation.models import Regressor

MEDIAN = "median"
REPEATS = 5  # permutations of each feature
Metric = Callable[[np.ndarray], np.ndarray]
INTERVAL = 0.8  # coverage of the interval of a predicted time


def spearman(predicted: np.ndarray, true: np.ndarray) -> float:
    """Spearman's rho: Pearson's correlation of the ranks, ties sharing their mean rank; NaN for a constant."""
    return float(weighted_spearman(predicted, true, np.ones((1, len(true))))[0])


def rmse(predicted: np.ndarray, true: np.ndarray) -> float:
    """Root of the mean squared error."""
    return float(weighted_rmse(predicted, true, np.ones((1, len(true))))[0])


def weighted_spearman(predicted: np.ndarray, true: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Spearman's rho in R samples, ``(A,), (A,), (R, A) -> (R,)``; a weight is how often a row is in the sample."""
    total = weight.sum(axis=1, keepdims=True)
    # The mean of the ranks 1 to n is (n + 1) / 2.
    first = _ranks(predicted, weight) - (total + 1) / 2
    second = _ranks(true, weight) - (total + 1) / 2
    scale = np.sqrt((weight * first**2).sum(axis=1) * (weight * second**2).sum(axis=1))
    covariance = (weight * first * second).sum(axis=1)
    return np.where(scale > 0, covariance / np.where(scale > 0, scale, 1), np.nan)


def weighted_rmse(predicted: np.ndarray, true: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """RMSE in R samples, see ``weighted_spearman``."""
    return np.asarray(np.sqrt((weight * (predicted - true) ** 2).sum(axis=1) / weight.sum(axis=1)))


def _ranks(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Mean ranks of the rows in R samples, ``(A,), (R, A) -> (R, A)``."""
    distinct, place = np.unique(values, return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(len(distinct)))
    count = np.add.reduceat(weight[:, order], starts, axis=1)
    # A value that occurs 3 times after 4 lower ones has the ranks 5, 6 and 7: on average 4 + (3 + 1) / 2.
    mean_rank = np.cumsum(count, axis=1) - count + (count + 1) / 2
    return np.asarray(mean_rank[:, place])


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
        rho = partial(weighted_spearman, predicted.test, true)
        error = partial(weighted_rmse, predicted.test, true)
        row |= _with_ends("spearman", rho, group)
        row |= _with_ends("rmse", error, group)
        row |= _with_ends("rmse_difference", _difference(error, partial(weighted_rmse, median, true)), group)
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
        difference = _difference(partial(weighted_spearman, first, true), partial(weighted_spearman, second, true))
        row |= _with_ends("spearman_difference", difference, group)
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


def _with_ends(name: str, metric: Metric, group: np.ndarray) -> dict[str, float]:
    """A metric of all anchors and the ends of its interval."""
    low, high = metric_interval(metric, group)
    return {name: float(metric(np.ones((1, len(group))))[0]), f"{name}_low": low, f"{name}_high": high}


def _difference(first: Metric, second: Metric) -> Metric:
    return lambda weight: first(weight) - second(weight)
