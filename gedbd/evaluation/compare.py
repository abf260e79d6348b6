"""Two runs on the same pairs and queries, or two sets of runs whose seeds agree."""

from collections.abc import Callable
from dataclasses import asdict

import pandas as pd

from gedbd.evaluation.names import ALWAYS_DUPLICATE
from gedbd.evaluation.run_folders import Run
from gedbd.evaluation.significance import Comparison, compare_f1, compare_means
from gedbd.retrieval.ranking import PREFIX, per_query
from gedbd.retrieval.tasks import PROTOCOLS


def compare_runs(
    first: list[Run], second: list[Run], method: str | None = None, against_method: str | None = None
) -> pd.DataFrame:
    """The difference in F1 and in the ranking metrics, with interval and p.

    Runs are matched by their seed. The pairs of all seeds are taken together; a query's value is its mean over the
    seeds. So the interval is for other test reports, while ``by_seed`` shows what another seed would do.

    Args:
        first: Runs of one setting.
        second: Runs of another.
        method: Which method of the first runs, by default their own.
        against_method: Likewise of the second.

    Returns:
        One row a metric: ``metric``, the fields of ``Comparison``, ``by_seed`` (the differences, seed by seed).

    Raises:
        ValueError: If seeds, pairs or queries are not the same, or a method is unknown.
    """
    matched = _match(first, second)
    pairs = [_join(a, b, _verdicts(a, method), _verdicts(b, against_method)) for a, b in matched]
    rows = [_row("f1", pairs, _compare_pairs)]
    for protocol in PROTOCOLS:
        if all(run.queries_of(protocol) is not None for run in (*first, *second)):
            ranks = [_join(a, b, _ranks(a, method, protocol), _ranks(b, against_method, protocol)) for a, b in matched]
            names = [name.removesuffix("_a") for name in map(str, ranks[0]) if name.endswith("_a")]
            rows += [_row(PREFIX[protocol] + name, ranks, _compare_queries(name)) for name in names]
    return pd.DataFrame(rows)


def _match(first: list[Run], second: list[Run]) -> list[tuple[Run, Run]]:
    """Runs with the same seed, in the order of their seeds."""
    by_seed = [{int(run.config.seed): run for run in runs} for runs in (first, second)]
    for runs, seeds in zip((first, second), by_seed, strict=True):
        if len(runs) != len(seeds):
            raise ValueError(f"{runs[0].folder.parent} holds several runs of one seed: name the folder of one setting")
    if by_seed[0].keys() != by_seed[1].keys():
        raise ValueError(f"the runs have other seeds: {sorted(by_seed[0])} and {sorted(by_seed[1])}")
    return [(by_seed[0][seed], by_seed[1][seed]) for seed in sorted(by_seed[0])]


def _verdicts(run: Run, method: str | None) -> pd.DataFrame:
    """Test pairs and whether a method calls them duplicate, at its own threshold."""
    row = _row_of(run.results, method, run)
    table: pd.DataFrame = run.predictions[run.predictions["part"] == run.part]
    scores = table[run.column(row["method"])]
    called = scores >= pd.Series([row["threshold"]]).astype(scores.dtype)[0]
    return pd.DataFrame(table[["issue_id_1", "issue_id_2", "label", "group"]]).assign(value=called)


def _ranks(run: Run, method: str | None, protocol: str) -> pd.DataFrame:
    """Queries and their metrics under a method."""
    queries = run.queries_of(protocol)
    assert run.ranking is not None
    assert queries is not None
    table = queries[queries["method"] == _row_of(run.ranking, method, run)["method"]].reset_index(drop=True)
    return pd.DataFrame(table[["issue_id", "group"]]).join(per_query(table))


def _row_of(table: pd.DataFrame, method: str | None, run: Run) -> pd.Series:
    scored = table[table["method"] != ALWAYS_DUPLICATE]
    found: pd.DataFrame = scored.iloc[[0]] if method is None else scored[scored["method"] == method]
    if not len(found):
        raise ValueError(f"{run.folder} has no method {method!r}: choose one of {', '.join(scored['method'])}")
    return found.iloc[0]


def _join(first: Run, second: Run, a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Both tables side by side; values get the endings ``_a`` and ``_b``."""
    keys = [name for name in ("issue_id_1", "issue_id_2", "issue_id", "label", "group") if name in a]
    both = a.merge(b, on=keys, suffixes=("_a", "_b"))
    if not len(both) == len(a) == len(b):
        raise ValueError(
            f"{first.folder} and {second.folder} were tested on other pairs or queries ({len(both)} of {len(a)} and"
            f" {len(b)} agree): compare runs of one corpus, split, seed and pairs"
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
        means = table.groupby(["issue_id", "group"])[[f"{metric}_a", f"{metric}_b"]].mean().reset_index()
        return compare_means(*(means[name].to_numpy() for name in (f"{metric}_a", f"{metric}_b", "group")))

    return compare
