"""What a run has measured: the comparison of methods and the list for moderators."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.tasks.confirmation.comparison import compare_methods, compare_network
from gedbd.tasks.confirmation.methods import AnchorData, Method, Prediction
from gedbd.tasks.confirmation.metrics import interval_of


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
    corpus: Corpus, data: AnchorData, methods: Mapping[str, Method], predictions: Mapping[str, Prediction]
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
