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
        tested = rows_of(seeds)
        values = [value_of(one) for one in seeds]
        row = _row("value", mean_of(seeds, tested), len(tested), values)
        rows.append({"method": method, "measure": measure, **row})
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
            values = [value_of(one) - value_of(other) for one, other in paired]
            tested = rows_of(first[:count])
            metric = difference(mean_of(first[:count], tested), mean_of(second[:count], tested))
            names = {"method": method, "against": against, "measure": measure}
            rows.append(names | _row("difference", metric, len(tested), values))
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


def value_of(one: Measured) -> float:
    """The value of a measure on all methods."""
    return float(one.metric(np.ones((1, len(one.rows))))[0])


def mean_of(seeds: Sequence[Measured], rows: np.ndarray) -> Metric:
    """The mean of a measure over seeds, in samples of the methods in ``rows``, ascending, of the corpus.

    Seeds may have been tested on other methods each: every one counts those of its own that are in the sample.
    """
    places = [np.searchsorted(rows, one.rows) for one in seeds]
    return lambda weight: np.mean(
        [one.metric(weight[:, place]) for one, place in zip(seeds, places, strict=True)], axis=0
    )


def difference(first: Metric, second: Metric) -> Metric:
    """The first metric less the second on the same samples."""
    return lambda weight: first(weight) - second(weight)


def rows_of(seeds: Sequence[Measured]) -> np.ndarray:
    """The methods that any seed was tested on, ascending."""
    return np.unique(np.concatenate([one.rows for one in seeds]))


def _row(name: str, metric: Metric, num_methods: int, values: Sequence[float]) -> dict[str, float]:
    """A value with both intervals."""
    low, high = metric_interval(metric, np.arange(num_methods))
    mean, seed_low, seed_high = seed_interval(np.array(values))
    ends = {f"{name}_low": low, f"{name}_high": high}
    return {name: mean, **ends, "seeds": len(values), "seeds_low": seed_low, "seeds_high": seed_high}
