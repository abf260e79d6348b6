"""Compares two runs on the same pairs and queries, or two sets of runs with the same seeds."""

from collections.abc import Callable
from dataclasses import asdict

import pandas as pd

from gedbd.evaluation.display_names import ALWAYS_DUPLICATE
from gedbd.evaluation.run_folders import Run
from gedbd.evaluation.significance import Comparison, compare_f1, compare_means
from gedbd.retrieval.ranking import PREFIX, per_query
from gedbd.retrieval.ranking_tasks import PROTOCOLS


def compare_runs(
    first: list[Run], second: list[Run], method: str | None = None, against_method: str | None = None
) -> pd.DataFrame:
    """The differences of F1 and of the ranking metrics, with intervals and p values.

    Runs are matched by their seed. The pairs of all seeds are pooled; the value of a query is its mean over the seeds.
    So the interval is over test reports, while ``by_seed`` shows the variation between seeds.

    Args:
        first: Runs of one setting.
        second: Runs of another setting.
        method: Id of a method of the first runs, by default their own.
        against_method: Id of a method of the second runs, by default their own.

    Returns:
        One row a metric: ``metric``, the fields of ``Comparison``, ``by_seed`` (the difference of each seed).

    Raises:
        ValueError: If seeds, pairs or queries differ, or a method is unknown.
    """
    matched = _match(first, second)
    pairs = []
    for a, b in matched:
        pairs.append(_join(a, b, _predictions(a, method), _predictions(b, against_method)))
    rows = [_row("f1", pairs, _compare_pairs)]
    for protocol in PROTOCOLS:
        if any(run.queries_of(protocol) is None for run in (*first, *second)):
            continue
        ranks = []
        for a, b in matched:
            ranks.append(_join(a, b, _ranks(a, method, protocol), _ranks(b, against_method, protocol)))
        # the joined columns are rr@10_a, rr@10_b and so on
        names = [name.removesuffix("_a") for name in map(str, ranks[0]) if name.endswith("_a")]
        rows += [_row(PREFIX[protocol] + name, ranks, _compare_queries(name)) for name in names]
    return pd.DataFrame(rows)


def _match(first: list[Run], second: list[Run]) -> list[tuple[Run, Run]]:
    """Runs with the same seed, in the order of their seeds."""
    first_of = _by_seed(first)
    second_of = _by_seed(second)
    if first_of.keys() != second_of.keys():
        raise ValueError(f"the runs have different seeds: {sorted(first_of)} and {sorted(second_of)}")
    return [(first_of[seed], second_of[seed]) for seed in sorted(first_of)]


def _by_seed(runs: list[Run]) -> dict[int, Run]:
    by_seed = {int(run.config.seed): run for run in runs}
    if len(by_seed) != len(runs):
        raise ValueError(f"{runs[0].folder.parent} has several runs of one seed: give the folder of one setting")
    return by_seed


def _predictions(run: Run, method: str | None) -> pd.DataFrame:
    """Test pairs and whether a method predicts a duplicate, at its own threshold."""
    row = _row_of(run.results, method, run)
    table: pd.DataFrame = run.predictions[run.predictions["part"] == run.part]
    scores = table[run.column(row["method"])]
    # As the run compared them: a threshold in float64 may be above the float32 score it was taken from.
    predicted = scores >= pd.Series([row["threshold"]]).astype(scores.dtype)[0]
    return pd.DataFrame(table[["id_1", "id_2", "label", "group"]]).assign(value=predicted)


def _ranks(run: Run, method: str | None, protocol: str) -> pd.DataFrame:
    """Queries and their metrics under a method."""
    queries = run.queries_of(protocol)
    assert run.ranking is not None
    assert queries is not None
    table = queries[queries["method"] == _row_of(run.ranking, method, run)["method"]].reset_index(drop=True)
    return pd.DataFrame(table[["id", "group"]]).join(per_query(table))


def _row_of(table: pd.DataFrame, method: str | None, run: Run) -> pd.Series:
    scored = table[table["method"] != ALWAYS_DUPLICATE]
    found: pd.DataFrame = scored.iloc[[0]] if method is None else scored[scored["method"] == method]
    if not len(found):
        raise ValueError(f"{run.folder} has no method {method!r}: choose one of {', '.join(scored['method'])}")
    return found.iloc[0]


def _join(first: Run, second: Run, a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Both tables side by side; names of values end in ``_a`` and ``_b``."""
    keys = [name for name in ("id_1", "id_2", "id", "label", "group") if name in a]
    both = a.merge(b, on=keys, suffixes=("_a", "_b"))
    if not len(both) == len(a) == len(b):
        raise ValueError(
            f"{first.folder} and {second.folder} were tested on other pairs or queries ({len(both)} of {len(a)} and"
            f" {len(b)} are the same): compare runs of one corpus, split, seed and pairs"
        )
    return pd.DataFrame(both)


def _row(metric: str, tables: list[pd.DataFrame], compare: Callable[[pd.DataFrame], Comparison]) -> dict[str, object]:
    single = [compare(table).difference for table in tables] if len(tables) > 1 else []
    whole = asdict(compare(pd.concat(tables, ignore_index=True)))
    ends = {"difference_low": whole.pop("low"), "difference_high": whole.pop("high")}
    return {"metric": metric, **whole, **ends, "by_seed": " ".join(f"{value:+.3f}" for value in single)}


def _compare_pairs(table: pd.DataFrame) -> Comparison:
    values = (table[name].to_numpy() for name in ("value_a", "value_b", "label", "group"))
    return compare_f1(*values)


def _compare_queries(metric: str) -> Callable[[pd.DataFrame], Comparison]:
    def compare(table: pd.DataFrame) -> Comparison:
        means = table.groupby(["id", "group"])[[f"{metric}_a", f"{metric}_b"]].mean().reset_index()
        return compare_means(*(means[name].to_numpy() for name in (f"{metric}_a", f"{metric}_b", "group")))

    return compare
