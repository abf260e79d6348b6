"""Confidence intervals and significance tests of rankings, shares and metrics over pairs.

As queries and pairs of a duplicate group are not independent, groups are resampled (a cluster bootstrap).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

RESAMPLES = 2000
BATCH = 100  # resamples at a time
CONFIDENCE = 0.95
MIN_BOOTSTRAP_CLUSTERS = 30


@dataclass(frozen=True)
class Comparison:
    """A metric of two runs on the same queries or pairs."""

    first: float  # value of the first run
    second: float  # value of the second run
    difference: float  # first minus second
    low: float  # lower end of the difference's bootstrap interval; ``high`` is the upper end
    high: float
    p_value: float | None  # P value of Wilcoxon's signed-rank test over queries, 1 if all values are equal; None for F1

    def columns(self, name: str) -> dict[str, float]:
        """The difference and its interval as ``<name>``, ``<name>_low`` and ``<name>_high``."""
        return {name: self.difference, f"{name}_low": self.low, f"{name}_high": self.high}


def mean_interval(values: np.ndarray, cluster: np.ndarray) -> tuple[float, float]:
    """Percentile interval of a mean, ``(Q,), (Q,) -> (low, high)``."""
    total = _sums(values, cluster)
    size = _sums(np.ones(len(values)), cluster)
    return _interval((total, size), lambda t, n, axis=-1: t.sum(axis=axis) / n.sum(axis=axis))


def interval_columns(values: pd.DataFrame, cluster: np.ndarray, names: Iterable[str]) -> dict[str, float]:
    """Intervals of the means of columns, such as ``mrr_low`` and ``mrr_high``, over rows of queries."""
    columns = {}
    for name in names:
        columns[f"{name}_low"], columns[f"{name}_high"] = mean_interval(values[name].to_numpy(), cluster)
    return columns


def f1_interval(
    predicted: np.ndarray, labels: np.ndarray, cluster: np.ndarray, run: np.ndarray | None = None
) -> tuple[float, float]:
    """Percentile interval of F1, ``(P,) bool, (P,), (P,) -> (low, high)``; with ``run``, of its mean over the runs.

    Groups are resampled in all runs at once: the interval is over test reports, not over runs.
    """
    return _interval(_pair_counts(predicted, labels, cluster, run), lambda *counts, axis=-1: _mean_f1(counts))


def ratio_intervals(
    numerator: np.ndarray, denominator: np.ndarray, cluster: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Intervals of T ratios of sums over the same units, ``(Q, T), (Q, T), (Q,) -> (T,), (T,)``.

    The percentile interval of the cluster bootstrap if at least ``MIN_BOOTSTRAP_CLUSTERS`` groups have a hit and as
    many have a miss. With fewer of either, that interval is too short: for 39 hits among 40 units in groups of one it
    begins at .925 instead of .868, and for a ratio of 1 it is a point. Then the interval is the exact one of a share
    among ``effective_size`` units (see ``lower_bound``), both ends at a level of ``(1 + CONFIDENCE) / 2``. NaN without
    units.

    Args:
        numerator: Number of hits of each unit, between 0 and its denominator.
        denominator: Weight of each unit in a ratio, 0 if it does not count.
        cluster: Group of each unit.
    """
    low = np.full(numerator.shape[1], np.nan)
    high = np.full(numerator.shape[1], np.nan)
    for column, (hit_counts, weights) in enumerate(zip(numerator.T, denominator.T, strict=True)):
        counted = weights != 0
        if not counted.any():
            continue
        hits = _sums(hit_counts[counted].astype(float), cluster[counted])
        units = _sums(weights[counted].astype(float), cluster[counted])
        share = float(hits.sum() / units.sum())
        if min((hits > 0).sum(), (hits < units).sum()) < MIN_BOOTSTRAP_CLUSTERS:
            size = effective_size(units)
            level = (1 + CONFIDENCE) / 2
            low[column] = lower_bound(share, size, level)
            high[column] = 1 - lower_bound(1 - share, size, level)
        else:
            low[column], high[column] = _interval(
                (hits, units), lambda a, b, axis=-1: a.sum(axis=axis) / b.sum(axis=axis)
            )
    return low, high


def share_columns(name: str, hits: np.ndarray, counted: np.ndarray, cluster: np.ndarray) -> pd.DataFrame:
    """Shares of hits with their intervals, such as of queries with a hit among the first k, for T values of k.

    Args:
        name: Name of the share.
        hits: ``(Q, T)`` bool.
        counted: ``(Q, T)`` bool, the units of each share.
        cluster: ``(Q,)`` group of each unit.

    Returns:
        T rows: ``<name>``, ``<name>_low``, ``<name>_high``; NaN without units.
    """
    units = np.where(counted.any(axis=0), counted.sum(axis=0), np.nan)
    low, high = ratio_intervals(hits, counted, cluster)
    return pd.DataFrame({name: hits.sum(axis=0) / units, f"{name}_low": low, f"{name}_high": high})


def effective_size(sizes: np.ndarray) -> float:
    """Effective number of independent units in clusters of sizes m: (sum of m)^2 / sum of m^2, ``(G,) -> float``.

    This is Kish's (1965) effective sample size under the strongest dependence, where the units of a cluster are all
    right or all wrong: clusters of one unit count 1 each, and a single cluster of any size counts 1.
    """
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def lower_bound(share: float, size: float | np.ndarray, confidence: float) -> float | np.ndarray:
    """One-sided exact lower bound of a share (Clopper and Pearson, 1934).

    With ``x = share * size`` it is the ``1 - confidence`` quantile of Beta(x, size - x + 1), and 0 if x is 0. Sizes
    need not be whole numbers: Korn and Graubard (1998, Survey Methodology 24) use the effective size of a clustered
    sample.

    Args:
        share: Observed share, 0 to 1.
        size: Number of independent units, or effective number of dependent ones.
        confidence: Probability that the bound is below the true share.
    """
    from scipy.special import betaincinv

    if share == 0:
        return np.zeros_like(size, dtype=float) if isinstance(size, np.ndarray) else 0.0
    bound = betaincinv(share * size, size - share * size + 1, 1 - confidence)
    return bound if isinstance(size, np.ndarray) else float(bound)


def compare_means(first: np.ndarray, second: np.ndarray, cluster: np.ndarray) -> Comparison:
    """Paired comparison of two means over the same queries, each ``(Q,)``."""
    low, high = mean_interval(first - second, cluster)
    difference = float(first.mean() - second.mean())
    return Comparison(float(first.mean()), float(second.mean()), difference, low, high, signed_rank(first, second))


def compare_f1(
    first: np.ndarray, second: np.ndarray, labels: np.ndarray, cluster: np.ndarray, run: np.ndarray | None = None
) -> Comparison:
    """Paired comparison of F1 of two predictions of the same pairs, ``(P,)`` bool; with ``run``, of means over runs.

    There is no p value, as F1 is not a mean over pairs, and a test over correct predictions would test accuracy.
    """
    both = [_pair_counts(predicted, labels, cluster, run) for predicted in (first, second)]
    size = len(both[0])
    low, high = _interval(
        (*both[0], *both[1]), lambda *counts, axis=-1: _mean_f1(counts[:size]) - _mean_f1(counts[size:])
    )
    first_f1, second_f1 = (float(_mean_f1(counts)) for counts in both)
    return Comparison(first_f1, second_f1, first_f1 - second_f1, low, high, p_value=None)


def metric_interval(metric: Callable[[np.ndarray], np.ndarray], cluster: np.ndarray) -> tuple[float, float]:
    """Percentile interval of any metric of rows, such as a rank correlation.

    Args:
        metric: ``(R, Q) -> (R,)``: value in each of R samples from the counts of the rows; NaN values are ignored.
        cluster: ``(Q,)`` group of each row.

    Returns:
        The interval's ends; NaN with a single group, or if the metric is NaN in all samples.
    """
    _, number = np.unique(cluster, return_inverse=True)
    groups = int(number.max()) + 1
    if groups < 2:
        return float("nan"), float("nan")
    rng = np.random.default_rng(0)
    values = []
    for _ in range(RESAMPLES // BATCH):
        counts = rng.multinomial(groups, np.full(groups, 1 / groups), size=BATCH)
        values.append(metric(counts[:, number].astype(float)))
    samples = np.concatenate(values)
    if np.isnan(samples).all():
        return float("nan"), float("nan")
    low, high = np.nanquantile(samples, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def signed_rank(first: np.ndarray, second: np.ndarray) -> float:
    """Two-sided p value of Wilcoxon's signed-rank test on paired values; 1 if all are equal."""
    from scipy.stats import wilcoxon

    if np.array_equal(first, second):
        return 1.0  # scipy's result is NaN
    return float(wilcoxon(first, second, zero_method="pratt", method="asymptotic").pvalue)


def mann_whitney(first: np.ndarray, second: np.ndarray) -> float:
    """Two-sided p value of the Mann-Whitney U test, ``(Q,), (R,) -> float``; 1 if all values are equal.

    It treats the two samples as independent, as some papers do with rankings of the same queries. The paired test
    (``signed_rank``) detects smaller differences.
    """
    from scipy.stats import mannwhitneyu

    if np.ptp(np.concatenate([first, second])) == 0:
        return 1.0  # scipy's result is NaN
    return float(mannwhitneyu(first, second, method="asymptotic").pvalue)


def _pair_counts(
    predicted: np.ndarray, labels: np.ndarray, cluster: np.ndarray, run: np.ndarray | None
) -> tuple[np.ndarray, ...]:
    """Numbers of true positives, predicted positives and positives in each cluster, run by run."""
    positive = labels == 1
    runs = [np.ones(len(labels), dtype=bool)] if run is None else [run == number for number in np.unique(run)]
    counted = [of_run & values for of_run in runs for values in (predicted & positive, predicted, positive)]
    return tuple(_sums(values.astype(float), cluster) for values in counted)


def _mean_f1(counts: Sequence[np.ndarray]) -> np.ndarray:
    """Mean over the runs of F1, computed from the counts of ``_pair_counts``."""
    values = []
    for start in range(0, len(counts), 3):
        hits, predicted, positive = (count.sum(axis=-1) for count in counts[start : start + 3])
        denominator = predicted + positive
        values.append(np.asarray(2 * hits / np.where(denominator > 0, denominator, 1)))  # 0 without any positive
    return np.asarray(np.mean(values, axis=0))


def _sums(values: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    """Sum of the values of each cluster, in the order of the clusters' names."""
    _, number = np.unique(cluster, return_inverse=True)
    return np.bincount(number, weights=values)


def _interval(samples: tuple[np.ndarray, ...], statistic: object) -> tuple[float, float]:
    from scipy.stats import bootstrap

    if len(samples[0]) < 2:  # one cluster gives the same sample each time
        return float("nan"), float("nan")
    result = bootstrap(
        samples,
        statistic,
        paired=True,
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=BATCH,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)
