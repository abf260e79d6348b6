"""Compares methods on the same test anchors, with intervals."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from gedbd.evaluation.significance import mann_whitney, metric_interval
from gedbd.tasks.confirmation.methods import AnchorData, Method, Prediction
from gedbd.tasks.confirmation.metrics import rmse, spearman, weighted_rmse, weighted_spearman

MEDIAN = "median"
Metric = Callable[[np.ndarray], np.ndarray]


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
        rows.append(row | {"mann_whitney_p": mann_whitney(first, second)})
    return pd.DataFrame(rows)


def _with_ends(name: str, metric: Metric, group: np.ndarray) -> dict[str, float]:
    """A metric of all anchors and the ends of its interval."""
    low, high = metric_interval(metric, group)
    return {name: float(metric(np.ones((1, len(group))))[0]), f"{name}_low": low, f"{name}_high": high}


def _difference(first: Metric, second: Metric) -> Metric:
    return lambda weight: first(weight) - second(weight)
