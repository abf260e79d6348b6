"""Spearman's rho and RMSE of predicted times, of one sample or of many at once, and the importance of features."""

import numpy as np
import pandas as pd

from gedbd.questions.confirmation.regressors import Examples, Regressor

REPEATS = 5  # permutations of each feature
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


def permutation_importance(model: Regressor, val: Examples, names: list[str]) -> pd.DataFrame:
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
