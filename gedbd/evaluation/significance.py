"""Is it luck? Intervals and tests for means over queries and for metrics over pairs.

Queries and pairs of one duplicate group are not independent, so resampling draws whole groups (a cluster bootstrap).
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest, bootstrap, wilcoxon

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Comparison:
    """One metric of two runs on the same queries or pairs.

    Attributes:
        first: Value of the first run.
        second: Value of the second run.
        difference: First less second.
        low: Lower end of the difference's bootstrap interval.
        high: Upper end.
        p_value: Of Wilcoxon's signed-rank test on the single queries' or pairs' values; 1 where all are equal.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float


def mean_interval(values: np.ndarray, cluster: np.ndarray) -> tuple[float, float]:
    """Percentile interval of a mean, ``(Q,), (Q,) -> (low, high)``; groups are resampled, with their sizes."""
    total, size = _sums(values, cluster), _sums(np.ones(len(values)), cluster)
    return _interval((total, size), lambda t, n, axis=-1: t.sum(axis=axis) / n.sum(axis=axis))


def f1_interval(predicted: np.ndarray, labels: np.ndarray, cluster: np.ndarray) -> tuple[float, float]:
    """Percentile interval of F1, ``(P,) bool, (P,), (P,) -> (low, high)``."""
    return _interval(
        tuple(_outcomes(predicted, labels, cluster)), lambda hit, said, real, axis=-1: _f1(hit, said, real)
    )


def ratio_intervals(
    numerator: np.ndarray, denominator: np.ndarray, cluster: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Percentile intervals of T ratios of sums over the same units, ``(Q, T), (Q, T), (Q,) -> (T,), (T,)``.

    A ratio of 0 or 1 looks certain to resampling, however few groups there are: its interval is the exact one of a
    binomial share (Clopper and Pearson, 1934) over groups. Without any unit the interval is not a number.
    """
    low, high = np.full((2, numerator.shape[1]), np.nan)
    for place, (above, below) in enumerate(zip(numerator.T, denominator.T, strict=True)):
        counted = below != 0
        parts = [_sums(values[counted].astype(float), cluster[counted]) for values in (above, below)]
        share = parts[0].sum() / parts[1].sum() if len(parts[0]) else np.nan
        if share in (0, 1):
            exact = binomtest(int(share) * len(parts[0]), len(parts[0])).proportion_ci(CONFIDENCE)
            low[place], high[place] = exact.low, exact.high
        elif len(parts[0]) > 1:
            low[place], high[place] = _interval(tuple(parts), lambda a, b, axis=-1: a.sum(axis=axis) / b.sum(axis=axis))
    return low, high


def compare_means(first: np.ndarray, second: np.ndarray, cluster: np.ndarray) -> Comparison:
    """Paired comparison of two means over the same queries, each ``(Q,)``."""
    low, high = mean_interval(first - second, cluster)
    difference = float(first.mean() - second.mean())
    return Comparison(float(first.mean()), float(second.mean()), difference, low, high, signed_rank(first, second))


def compare_f1(first: np.ndarray, second: np.ndarray, labels: np.ndarray, cluster: np.ndarray) -> Comparison:
    """Paired comparison of F1 from two verdicts on the same pairs, ``(P,)`` bool; the test is on right or wrong."""
    counts = (*_outcomes(first, labels, cluster), *_outcomes(second, labels, cluster))
    low, high = _interval(counts, lambda a, b, c, d, e, f, axis=-1: _f1(a, b, c) - _f1(d, e, f))
    values = [float(_f1(*(part[None] for part in counts[start : start + 3]))[0]) for start in (0, 3)]
    right = [(verdict == (labels == 1)).astype(float) for verdict in (first, second)]
    return Comparison(values[0], values[1], values[0] - values[1], low, high, signed_rank(*right))


def signed_rank(first: np.ndarray, second: np.ndarray) -> float:
    """Two-sided p of Wilcoxon's signed-rank test on paired values; 1 where all are equal."""
    if np.array_equal(first, second):
        return 1.0
    return float(wilcoxon(first, second, zero_method="pratt", method="asymptotic").pvalue)


def _outcomes(predicted: np.ndarray, labels: np.ndarray, cluster: np.ndarray) -> list[np.ndarray]:
    """Hits, verdicts "duplicate" and true duplicates of each cluster."""
    real = labels == 1
    return [_sums(values.astype(float), cluster) for values in (predicted & real, predicted, real)]


def _f1(hits: np.ndarray, said: np.ndarray, real: np.ndarray) -> np.ndarray:
    both = said.sum(axis=-1) + real.sum(axis=-1)
    return np.asarray(2 * hits.sum(axis=-1) / np.where(both > 0, both, 1))


def _sums(values: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    _, place = np.unique(cluster, return_inverse=True)
    return np.bincount(place, weights=values)


def _interval(samples: tuple[np.ndarray, ...], statistic: object) -> tuple[float, float]:
    if len(samples[0]) < 2:
        return float("nan"), float("nan")
    result = bootstrap(
        samples,
        statistic,
        paired=True,
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=100,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)
