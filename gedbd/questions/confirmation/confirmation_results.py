"""What a run has measured: the comparison of methods and the list for moderators."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.evaluation.significance import mann_whitney, metric_interval
from gedbd.questions.confirmation.regression_methods import (
    AnchorData,
    Prediction,
    RegressionMethod,
    interval_of,
    rmse,
    spearman,
    weighted_rmse,
    weighted_spearman,
)

MEDIAN = "median"
Metric = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class ConfirmationResult:
    """What a run has measured.

    Attributes:
        corpus: The documents.
        data: The anchors.
        predictions: By method id.
        table: See ``compare_methods``; the first method is the best on validation.
        network: See ``compare_network``.
        pending: See ``pending_list``.
    """

    corpus: Corpus
    data: AnchorData
    predictions: Mapping[str, Prediction]
    table: pd.DataFrame
    network: pd.DataFrame
    pending: pd.DataFrame

    @property
    def best(self) -> str:
        """Id of the method with the best rho on validation."""
        return str(self.table["method"][0])

    @property
    def validation(self) -> float:
        """Its rho on validation; 0 if every method predicts a constant."""
        value = float(self.table["val_spearman"][0])
        return 0.0 if np.isnan(value) else value

    @property
    def summary(self) -> str:
        """The best method against the median, in one line."""
        row = self.table.iloc[0]
        known = f"{self.data.train.sum():,} anchors to learn from, {self.data.test.sum():,} to test on"
        rho = f"Spearman's rho {row['spearman']:.3f} [{row['spearman_low']:.3f}, {row['spearman_high']:.3f}]"
        ends = f"[{row['rmse_difference_low']:+.3f}, {row['rmse_difference_high']:+.3f}]"
        error = f"RMSE {row['rmse']:.3f}, {row['rmse_difference']:+.3f} {ends} against the median"
        return f"{self.corpus.name}: {known}. {self.best}, the best on validation: {rho}, {error}."


def measure(
    corpus: Corpus, data: AnchorData, methods: Mapping[str, RegressionMethod], predictions: Mapping[str, Prediction]
) -> ConfirmationResult:
    """Compares the methods on the test anchors."""
    table = compare_methods(predictions, methods, data)
    best = predictions[str(table["method"][0])]
    pending = pending_list(corpus, data, best)
    return ConfirmationResult(corpus, data, predictions, table, compare_network(predictions, data), pending)


def pending_list(corpus: Corpus, data: AnchorData, predicted: Prediction) -> pd.DataFrame:
    """The test anchors as a moderator would work through them, those with the longest predicted time first.

    Returns:
        ``id``, ``title``, ``url``, ``hours`` (predicted), ``from`` and ``to`` (its 80% interval, from the residuals on
        validation), and ``actual_hours``.
    """
    anchors = data.anchors[data.test].reset_index(drop=True)
    below, above = interval_of(data.y[data.val] - predicted.val)
    order = np.argsort(-predicted.test, kind="stable")
    reports = corpus.reports.iloc[anchors["anchor"].to_numpy()[order]]
    hours = predicted.test[order]
    return pd.DataFrame(
        {
            "id": reports["id"].to_numpy(),
            "title": reports["title"].to_numpy(),
            "url": reports["url"].to_numpy(),
            "hours": (10**hours).round(2),
            "from": (10 ** (hours + below)).round(2),
            "to": (10 ** (hours + above)).round(2),
            "actual_hours": anchors["hours"].to_numpy()[order].round(2),
        }
    )


def compare_methods(
    predictions: Mapping[str, Prediction], methods: Mapping[str, RegressionMethod], data: AnchorData
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

    The paper does not say what its Mann-Whitney U test compares. The ranks of two complete rankings are the same
    numbers, so that their test would always give p = 1. It is done on the predicted times: p tells whether one
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
