"""Tables of what methods reach, and their differences from BM25."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from gedbd.evaluation.significance import compare_means, mean_interval
from gedbd.tasks.localization.rankings import Measured

METRICS = ("mrr", "map", "p@1", "p@3", "p@5", "rr@1", "rr@3", "rr@5", "rr@10", "rr@20", "rr@100")
COMPARED = ("mrr", "rr@10")


def ranking_table(measured: Sequence[Measured], baseline: str) -> pd.DataFrame:
    """One row a granularity and method.

    Args:
        measured: What methods have reached.
        baseline: The method that the others are compared with.

    Returns:
        ``granularity``, ``method``, ``queries``, ``METRICS`` (means over seeds and queries) and, for ``COMPARED``, the
        ends of the 95% interval, bootstrapped over queries; the difference from the baseline on the same queries with
        its interval (a paired bootstrap) and, for MRR, Wilcoxon's p; ``seeds``, and the lowest and highest MRR of a
        seed.
    """
    baselines = {one.granularity: one for one in measured if one.method == baseline}
    return pd.DataFrame([_row(one, baselines.get(one.granularity)) for one in measured])


def _row(one: Measured, baseline: Measured | None) -> dict[str, object]:
    values = one.values
    cluster = np.arange(len(values))  # each report is a cluster of its own
    row: dict[str, object] = {"granularity": one.granularity, "method": one.method, "queries": len(values)}
    row |= {name: float(values[name].mean()) for name in METRICS}
    for name in COMPARED:
        row[f"{name}_low"], row[f"{name}_high"] = mean_interval(values[name].to_numpy(), cluster)
    if baseline is not None and baseline.method != one.method:
        for name in COMPARED:
            first, second = (each[name].to_numpy() for each in (values, baseline.values))
            compared = compare_means(first, second, cluster)
            ends = {f"{name}_difference_low": compared.low, f"{name}_difference_high": compared.high}
            row |= {f"{name}_difference": compared.difference, **ends}
            if name == "mrr":
                row["mrr_p_value"] = compared.p_value
    by_seed = [float(seed["mrr"].mean()) for seed in one.by_seed]
    return row | {"seeds": len(by_seed), "mrr_seeds_min": min(by_seed), "mrr_seeds_max": max(by_seed)}


def results_table(table: pd.DataFrame) -> pd.DataFrame:
    """One row a method: the metrics of the first granularity, and MRR and RR@10 of the others, such as ``file_mrr``.

    Args:
        table: See ``ranking_table``.
    """
    names = list(dict.fromkeys(table["granularity"]))
    ends = [f"{name}_{end}" for name in COMPARED for end in ("low", "high")]
    first = table[table["granularity"] == names[0]].set_index("method")[["queries", *METRICS, *ends]]
    parts = [first]
    for name in names[1:]:
        other = table[table["granularity"] == name].set_index("method")[list(COMPARED)]
        parts.append(other.add_prefix(f"{name}_"))
    methods = list(dict.fromkeys(table["method"]))
    wide: pd.DataFrame = pd.concat(parts, axis=1).reindex(methods)
    return wide.rename_axis("method").reset_index()


def known_table(measured: Sequence[Measured], counts: np.ndarray, baseline: str) -> pd.DataFrame:
    """What methods reach on reports whose inducing change is known from an earlier bug, and on all others.

    A ranker can remember the changes that induced many bugs, such as the import of a project; on the other reports
    that is no help.

    Args:
        measured: What methods have reached at one granularity.
        counts: ``(Q,)`` the most earlier bugs that an inducing change of each query is known to have induced.
        baseline: The method that the others are compared with.

    Returns:
        ``inducing_change`` (``known`` or ``new``), ``queries``, ``method``, and ``mrr`` and ``rr@10`` with the ends of
        their intervals and the difference from the baseline on the same queries.
    """
    reference = next(one for one in measured if one.method == baseline)
    rows = []
    for name, chosen in (("known", counts > 0), ("new", counts == 0)):
        cluster = np.arange(int(chosen.sum()))
        for one in measured if len(cluster) else []:
            row: dict[str, object] = {"inducing_change": name, "queries": len(cluster), "method": one.method}
            for metric in COMPARED:
                values = one.values[metric].to_numpy()[chosen]
                row[metric] = float(values.mean())
                row[f"{metric}_low"], row[f"{metric}_high"] = mean_interval(values, cluster)
                if one.method != baseline:
                    compared = compare_means(values, reference.values[metric].to_numpy()[chosen], cluster)
                    ends = {f"{metric}_difference_low": compared.low, f"{metric}_difference_high": compared.high}
                    row |= {f"{metric}_difference": compared.difference, **ends}
            rows.append(row)
    return pd.DataFrame(rows)
