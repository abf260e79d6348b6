"""Methods: a model and the features that it reads, fitted and compared on the same anchors by Spearman and RMSE."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gedbd.questions.confirmation.regressors import Examples, Regressor

REPEATS = 5  # permutations of each feature
INTERVAL = 0.8  # coverage of the interval of a predicted time
FEATURE_SETS = ("question", "pair", "text", "network")


def spearman(predicted: np.ndarray, true: np.ndarray) -> float:
    """Spearman's rho: Pearson's correlation of the ranks, ties sharing their mean rank; NaN for a constant."""
    return float(weighted_spearman(predicted, true, np.ones((1, len(true))))[0])


def rmse(predicted: np.ndarray, true: np.ndarray) -> float:
    """Root mean squared error."""
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
    distinct, position = np.unique(values, return_inverse=True)
    order = np.argsort(position, kind="stable")
    starts = np.searchsorted(position[order], np.arange(len(distinct)))
    count = np.add.reduceat(weight[:, order], starts, axis=1)
    # A value that occurs 3 times after 4 lower ones has the ranks 5, 6 and 7: on average 4 + (3 + 1) / 2.
    mean_rank = np.cumsum(count, axis=1) - count + (count + 1) / 2
    return np.asarray(mean_rank[:, position])


def permutation_importance(model: Regressor, val: Examples, names: list[str]) -> pd.DataFrame:
    """How much rho on validation falls when a feature's values are shuffled, the mean of ``REPEATS`` times.

    Returns:
        ``feature`` and ``importance``, the largest first.
    """
    rng = np.random.default_rng(0)
    full = spearman(model.predict(val.x), val.y)
    rows = []
    for column, name in enumerate(names):
        shuffled = val.x.copy()
        falls = []
        for _ in range(REPEATS):
            shuffled[:, column] = rng.permutation(val.x[:, column])
            falls.append(full - spearman(model.predict(shuffled), val.y))
        rows.append({"feature": name, "importance": float(np.mean(falls))})
    return pd.DataFrame(rows).sort_values("importance", ascending=False, kind="stable", ignore_index=True)


def interval_of(residuals: np.ndarray) -> tuple[float, float]:
    """Offsets from a prediction to the ends of its interval: quantiles of true less predicted on validation."""
    low, high = np.quantile(residuals, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2])
    return float(low), float(high)


@dataclass(frozen=True)
class AnchorData:
    """Anchors, their splits and features."""

    anchors: pd.DataFrame  # the table of ``find_anchors``
    train: np.ndarray  # ``(A,)`` bool: anchors that training may learn from
    val: np.ndarray  # ``(A,)`` bool: anchors of the validation split
    refit: np.ndarray  # ``(A,)`` bool: anchors of both that were confirmed before the test split begins
    test: np.ndarray  # ``(A,)`` bool: anchors of the test split
    # tables of ``A`` rows by feature set: ``question``, ``pair``; vectors of the anchor, then of its master: ``text``
    # and, if there are tags, ``network``
    features: Mapping[str, pd.DataFrame]

    @property
    def y(self) -> np.ndarray:
        """``(A,)`` log10 of the hours."""
        return self.anchors["target"].to_numpy()

    def x(self, names: tuple[str, ...]) -> np.ndarray:
        """``(A, F)`` inputs of some feature sets.

        ``text`` and ``network`` are joined for each question: [title, body, tag] of the anchor, then of the master.
        """
        tables = [self.features[name].to_numpy() for name in names]
        if not tables:
            return np.zeros((len(self.anchors), 0))
        if set(names) <= {"text", "network"}:
            halves = [np.split(table, 2, axis=1) for table in tables]
            tables = [half[side] for side in (0, 1) for half in halves]
        return np.hstack(tables)


@dataclass
class RegressionMethod:
    """A model and the feature sets that it reads; raises ValueError if a feature set is unknown."""

    model: Regressor  # the model
    features: tuple[str, ...] = ()  # feature sets, see ``AnchorData``; empty for a model that reads none
    # before predicting the test split, fit again on training and validation anchors that were confirmed by then. The
    # paper's models are not refitted: they may stop early by validation
    refit: bool = False

    def __post_init__(self) -> None:
        self.features = tuple(self.features)
        unknown = [name for name in self.features if name not in FEATURE_SETS]
        if unknown:
            raise ValueError(f"task.methods: features={unknown[0]} is unknown: choose {', '.join(FEATURE_SETS)}")

    def predict(self, data: AnchorData) -> "Prediction":
        """Fits the model, and predicts the validation and test anchors."""
        x = data.x(self.features)
        y = data.y
        val = Examples(x[data.val], y[data.val])
        self.model.fit(Examples(x[data.train], y[data.train]), val)
        val_prediction = self.model.predict(val.x)
        importance = None
        if self.features and not set(self.features) & {"text", "network"}:  # their columns have no names
            names = [str(column) for name in self.features for column in data.features[name].columns]
            importance = permutation_importance(self.model, val, names)
        if self.refit:
            self.model.fit(Examples(x[data.refit], y[data.refit]), val)
        return Prediction(val_prediction, self.model.predict(x[data.test]), importance)


@dataclass(frozen=True)
class Prediction:
    """Predicted log10 hours of one method."""

    val: np.ndarray  # ``(V,)`` of the validation anchors
    test: np.ndarray  # ``(T,)`` of the test anchors, after a refit if the method has one
    importance: pd.DataFrame | None = None  # see ``permutation_importance``; None for vectors
