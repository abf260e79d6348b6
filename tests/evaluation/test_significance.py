import numpy as np
import pytest
from scipy.stats import binomtest, wilcoxon
from sklearn.metrics import f1_score

from gedbd.evaluation.significance import (
    compare_f1,
    compare_means,
    f1_interval,
    lower_bound,
    mean_interval,
    metric_interval,
    ratio_intervals,
    signed_rank,
)


def resampled(generator: np.random.Generator, cluster: np.ndarray, statistic, times: int = 1500) -> tuple[float, float]:
    """The interval of a statistic of row numbers when whole clusters are drawn, in a plain loop."""
    members = [np.flatnonzero(cluster == number) for number in np.unique(cluster)]
    values = []
    for _ in range(times):
        chosen = generator.integers(len(members), size=len(members))
        values.append(statistic(np.concatenate([members[number] for number in chosen])))
    low, high = np.quantile(values, [0.025, 0.975])
    return low, high


def verdicts(generator: np.random.Generator, clusters: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clusters of four pairs, half of them duplicates, that are predicted right always or with probability 0.4.

    Of all pairs 0.35 are hits, 0.5 are called duplicate and 0.5 are: F1 is 0.7.
    """
    cluster = np.repeat(np.arange(clusters), 4)
    labels = generator.integers(2, size=len(cluster))
    chance = generator.choice([1.0, 0.4], size=clusters)[cluster]
    return (labels == 1) == (generator.random(len(cluster)) < chance), labels, cluster


def test_intervals_worked_out_by_hand():
    # two clusters are drawn twice: both the first (1/4), both the second (1/4), or one of each
    assert mean_interval(np.array([0.0, 1.0]), np.array([7, 3])) == (0, 1)
    assert mean_interval(np.array([2.0, 2.0, 2.0]), np.array([0, 0, 1])) == (2, 2)
    everything_right = np.array([True, False, True])
    assert f1_interval(everything_right, np.array([1, 0, 1]), np.array([0, 1, 2]))[1] == 1
    assert f1_interval(~everything_right, np.array([1, 0, 1]), np.array([0, 1, 2])) == (0, 0)
    assert f1_interval(everything_right & False, np.zeros(3), np.arange(3)) == (0, 0)
    # a hundred clusters: 50 of three 1s, 50 of a single 0; the mean is near 3/4, not 1/2
    cluster = np.concatenate([np.repeat(np.arange(50), 3), np.arange(50, 100)])
    low, high = mean_interval(np.r_[np.ones(150), np.zeros(50)], cluster)
    assert 0.6 < low < 0.75 < high < 0.85


def test_intervals_are_those_of_a_plain_loop():
    generator = np.random.default_rng(0)
    cluster = generator.integers(0, 40, size=120)
    values = generator.normal(size=40)[cluster] + generator.normal(size=120)
    plain = resampled(generator, cluster, lambda rows: values[rows].mean())
    assert mean_interval(values, cluster) == pytest.approx(plain, abs=0.04)
    predicted, labels, cluster = verdicts(generator, 40)
    hits, both = predicted & (labels == 1), predicted + labels
    plain = resampled(generator, cluster, lambda rows: 2 * hits[rows].sum() / both[rows].sum())
    assert f1_interval(predicted, labels, cluster) == pytest.approx(plain, abs=0.03)


def test_a_single_cluster_has_no_interval():
    one = np.zeros(5, dtype=int)
    labels, first, second = np.array([1, 1, 0, 0, 1]), np.array([1, 0, 0, 1, 1]) == 1, np.array([1, 1, 0, 1, 1]) == 1
    assert np.isnan(mean_interval(np.arange(5.0), one)).all()
    assert np.isnan(f1_interval(first, labels, one)).all()
    for result in (compare_means(first * 1.0, second * 1.0, one), compare_f1(first, second, labels, one)):
        assert np.isnan([result.low, result.high]).all()
        assert np.isfinite(result.difference)


def test_means_are_compared_query_by_query():
    first, second = np.array([1.0, 0.5, 1.0, 0.0, 1.0]), np.array([0.5, 0.5, 0.0, 0.0, 1.0])
    result = compare_means(first, second, np.arange(5))
    assert (result.first, result.second, result.difference) == pytest.approx((0.7, 0.4, 0.3))
    assert (result.low, result.high) == mean_interval(first - second, np.arange(5))
    swapped = compare_means(second, first, np.arange(5))
    assert (swapped.difference, swapped.low, swapped.high) == pytest.approx((-0.3, -result.high, -result.low))
    assert swapped.p_value == pytest.approx(result.p_value)


@pytest.mark.parametrize("seed", range(2))
def test_p_values_are_those_of_scipy(seed):
    generator = np.random.default_rng(seed)
    first = generator.normal(size=60)
    second = first + generator.normal(0.15, 0.5, size=60)
    for p_value in (signed_rank(first, second), compare_means(first, second, np.arange(60) // 2).p_value):
        assert p_value == pytest.approx(wilcoxon(first, second, method="exact").pvalue, rel=0.05, abs=1e-3)
    first, second = generator.integers(0, 4, size=(2, 60)) / 4  # with zeros and ties
    expected = wilcoxon(first - second, zero_method="pratt", correction=False, method="asymptotic").pvalue
    assert signed_rank(first, second) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(2))
def test_differences_of_f1_are_those_of_scikit_learn(seed):
    generator = np.random.default_rng(seed)
    first, labels, cluster = verdicts(generator, 30)
    second = generator.random(120) < 0.4
    result = compare_f1(first, second, labels, cluster)
    expected = f1_score(labels, first), f1_score(labels, second)
    assert (result.first, result.second) == pytest.approx(expected)
    assert result.difference == pytest.approx(expected[0] - expected[1])
    assert result.low < result.difference < result.high
    assert result.p_value is None


def test_f1_of_several_runs_is_its_mean_over_them():
    generator = np.random.default_rng(0)
    first, labels, cluster = verdicts(generator, 30)
    second, run = generator.random(120) < 0.4, generator.integers(0, 3, size=120)
    result = compare_f1(first, second, labels, cluster, run)
    for value, predicted in ((result.first, first), (result.second, second)):
        single = [f1_score(labels[run == one], predicted[run == one]) for one in range(3)]
        assert value == pytest.approx(np.mean(single))
    assert result.low < result.difference < result.high
    ends = f1_interval(first, labels, cluster, run)
    assert ends[0] < result.first < ends[1]
    # The same pairs in two runs: as often resampled, so nothing changes.
    twice = [np.tile(values, 2) for values in (first, labels, cluster)]
    assert f1_interval(*twice, np.repeat([0, 1], 120)) == f1_interval(first, labels, cluster)


def test_intervals_of_ratios_are_those_of_a_plain_loop():
    generator = np.random.default_rng(0)
    cluster = generator.integers(0, 120, size=500)
    chance = generator.random(120)[cluster]
    below = generator.random((500, 3)) < [1.0, 0.6, 0.3]
    above = below & (generator.random((500, 3)) < chance[:, None])
    low, high = ratio_intervals(above, below, cluster)
    for place in range(3):
        rows = np.flatnonzero(below[:, place])  # only groups that have a unit of this ratio are drawn
        plain = resampled(
            generator, cluster[rows], lambda some, place=place, rows=rows: above[rows[some], place].mean()
        )
        assert (low[place], high[place]) == pytest.approx(plain, abs=0.04)


def test_intervals_of_ratios_by_hand():
    above, below = np.array([[1, 0, 0], [0, 0, 0]]), np.array([[1, 0, 1], [1, 0, 0]])
    low, high = ratio_intervals(above, below, np.array([4, 9]))
    assert (low[0], high[0]) == pytest.approx((0.0126, 0.9874), abs=1e-4)  # Clopper and Pearson's for 1 of 2
    assert np.isnan([low[1], high[1]]).all()  # no unit
    assert (low[2], high[2]) == pytest.approx((0, 0.975))  # one group, and it is wrong
    mixed = np.array([[True], [False], [True]])
    low, high = ratio_intervals(mixed, np.ones_like(mixed), np.zeros(3))
    assert 0 < low[0] < 0.05 < 0.95 < high[0] < 1  # one group has an interval however mixed it is
    right = np.ones((3, 1), dtype=bool)
    assert ratio_intervals(right, right, np.arange(3))[0][0] == pytest.approx(0.025 ** (1 / 3))
    assert ratio_intervals(~right, right, np.arange(3))[1][0] == pytest.approx(1 - 0.025 ** (1 / 3))


@pytest.mark.parametrize(("hits", "count"), [(0, 5), (3, 4), (5, 6), (17, 29), (28, 29), (39, 40), (172, 200)])
def test_few_groups_have_the_exact_interval(hits, count):
    above = (np.arange(count) < hits)[:, None]
    low, high = ratio_intervals(above, np.ones_like(above), np.arange(count))
    exact = binomtest(hits, count).proportion_ci(0.95)
    assert (low[0], high[0]) == pytest.approx((exact.low, exact.high))
    assert lower_bound(hits / count, count, 0.9) == pytest.approx(
        binomtest(hits, count, alternative="greater").proportion_ci(0.9).low
    )


def test_the_interval_of_any_metric_is_that_of_a_mean_for_a_mean():
    rng = np.random.default_rng(0)
    values = rng.normal(size=120)
    cluster = np.arange(120) // 2
    found = metric_interval(lambda weight: (weight * values).sum(axis=1) / weight.sum(axis=1), cluster)
    assert found == pytest.approx(mean_interval(values, cluster), abs=0.01)
    assert np.isnan(metric_interval(lambda weight: weight.sum(axis=1), np.zeros(5))).all()
    assert np.isnan(metric_interval(lambda weight: np.full(len(weight), np.nan), np.arange(5))).all()
