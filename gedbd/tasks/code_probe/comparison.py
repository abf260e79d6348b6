"""Tables of what was measured: values with intervals, and paired differences."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from gedbd.evaluation.significance import metric_interval
from gedbd.experiments.seeds import seed_interval
from gedbd.tasks.code_probe.measures import Metric
from gedbd.tasks.code_probe.probes import WITH_GRAPH, Measured

# By method and measure, what was measured with each seed.
BySeed = Mapping[tuple[str, str], Sequence[Measured]]


def by_seed(measured: Sequence[Measured]) -> dict[tuple[str, str], list[Measured]]:
    """Groups what was measured, in the order of the seeds, by method and measure."""
    found: dict[tuple[str, str], list[Measured]] = {}
    for one in measured:
        found.setdefault((one.method, one.measure), []).append(one)
    return found


def results_table(found: BySeed) -> pd.DataFrame:
    """One row a method and measure.

    Returns:
        ``method``, ``measure``, ``value`` (mean over seeds), ``value_low`` and ``value_high`` (ends of its 95%
        interval, bootstrapped over methods of the test part), ``seeds`` (their number), ``seeds_low`` and
        ``seeds_high`` (ends of the 95% interval of Student's t over seeds; NaN for one seed).
    """
    rows = []
    for (method, measure), seeds in found.items():
        values = [value_of(one.metric, one.size) for one in seeds]
        rows.append({"method": method, "measure": measure, **_row("value", mean_of(seeds), seeds[0].size, values)})
    return pd.DataFrame(rows)


def differences_table(found: BySeed, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """One row for each measure of each pair of methods: the first one less the second.

    Seeds are paired in their order; where one method has more of them, the others are left out.

    Returns:
        ``method``, ``against``, ``measure``, and ``difference`` with the columns that ``value`` has in
        ``results_table``. A paired bootstrap: both are measured on the same sample of methods of the test part.
    """
    rows = []
    for (method, measure), first in found.items():
        for against in (other for one, other in pairs if one == method):
            second = found.get((against, measure))
            if second is None:
                continue
            count = min(len(first), len(second))
            paired = list(zip(first[:count], second[:count], strict=True))
            values = [value_of(one.metric, one.size) - value_of(other.metric, other.size) for one, other in paired]
            metric = difference(mean_of(first[:count]), mean_of(second[:count]))
            names = {"method": method, "against": against, "measure": measure}
            rows.append(names | _row("difference", metric, first[0].size, values))
    return pd.DataFrame(rows)


def compared_pairs(methods: Sequence[str], against: str, untrained: bool) -> list[tuple[str, str]]:
    """Pairs of methods to compare: each with ``against``, if it was probed, and with an untrained encoder.

    What a method finds with the graphs of the code is compared with the others' reading of the code alone.

    Args:
        methods: Trained methods.
        against: One of them, or a name that none of them has.
        untrained: Whether there is an untrained encoder.
    """
    others = [against] if against in methods else []
    others += ["untrained"] if untrained else []
    named = [name for method in methods for name in (method, f"{method}{WITH_GRAPH}")]
    pairs = [(name, other) for name in named for other in others if name != other]
    # Each reading with the graph also with that of the code alone; that of ``against`` is there already.
    return list(dict.fromkeys([*pairs, *((f"{method}{WITH_GRAPH}", method) for method in methods)]))


def value_of(metric: Metric, size: int) -> float:
    """A metric of all methods."""
    return float(metric(np.ones((1, size)))[0])


def mean_of(seeds: Sequence[Measured]) -> Metric:
    """The mean of a measure over seeds."""
    return lambda weight: np.mean([one.metric(weight) for one in seeds], axis=0)


def difference(first: Metric, second: Metric) -> Metric:
    """The first metric less the second on the same samples."""
    return lambda weight: first(weight) - second(weight)


def _row(name: str, metric: Metric, size: int, values: Sequence[float]) -> dict[str, float]:
    """A value with both intervals."""
    low, high = metric_interval(metric, np.arange(size))
    mean, seed_low, seed_high = seed_interval(np.array(values))
    ends = {f"{name}_low": low, f"{name}_high": high}
    return {name: mean, **ends, "seeds": len(values), "seeds_low": seed_low, "seeds_high": seed_high}
