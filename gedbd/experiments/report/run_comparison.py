"""Compares two runs on the same pairs and queries, or two sets of runs with the same seeds or test years."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import NamedTuple

import pandas as pd

from gedbd.configuration.command_words import path_value
from gedbd.evaluation.display_names import ALWAYS_DUPLICATE, format_p_value
from gedbd.evaluation.significance import Comparison, compare_f1, compare_means, mann_whitney
from gedbd.experiments.run_folder import Run
from gedbd.io.console import stage
from gedbd.retrieval.ranking_tasks import metric_prefix, per_query

TESTS = (
    "95%: paired bootstrap over duplicate groups; p: Wilcoxon's signed-rank test over queries, two-sided, so there is"
    " none for F1; p Mann-Whitney: U test, which treats the two rankings as independent samples, as some papers do"
)
P_VALUES = {"p_value": "p", "p_mann_whitney": "p Mann-Whitney"}  # headings in the terminal


class Key(NamedTuple):
    """What runs are matched by: their seed and the year they test, 0 without ``split=year``."""

    seed: int
    year: int


@stage("compare")
def compare_runs(
    first: list[Run], second: list[Run], method: str | None = None, against_method: str | None = None
) -> pd.DataFrame:
    """The differences of F1 and of the ranking metrics, with intervals and p values.

    Runs are matched by their seed and, with ``split=year``, by the year they test. F1 is the mean over the runs; the
    value of a query is its mean over the seeds. So the interval is over test reports, while ``by_seed`` shows the
    variation between seeds and ``by_year`` that between years.

    Returns:
        One row per metric: ``metric``, the fields of ``Comparison``, ``by_seed`` (the difference of each seed), with
        several years ``by_year``, and with rankings ``p_mann_whitney``, see ``mann_whitney``. Both p values are missing
        for F1.

    Raises:
        ValueError: If seeds, years, pairs or queries differ, or a method is unknown.
    """
    matched = _match(first, second)
    pairs: dict[Key, pd.DataFrame] = {}
    for key, (a, b) in matched.items():
        names = (str(a.folder), str(b.folder))
        joined = join_results(names, _predictions(a, method), _predictions(b, against_method))
        pairs[key] = joined.assign(run=len(pairs))

    def compare_pairs(table: pd.DataFrame) -> Comparison:
        return compare_f1(*(table[name].to_numpy() for name in ("value_a", "value_b", "label", "group", "run")))

    rows = [_row("f1", pairs, compare_pairs)]
    for protocol in first[0].protocols:
        if any(run.queries_of(protocol) is None for run in (*first, *second)):
            continue
        ranks = {}
        for key, (a, b) in matched.items():
            names = (str(a.folder), str(b.folder))
            ranks[key] = join_results(names, _ranks(a, method, protocol), _ranks(b, against_method, protocol))
        rows += compare_queries(protocol, ranks)
    return pd.DataFrame(rows)


def compare_queries(protocol: str, tables: Mapping[Key, pd.DataFrame]) -> list[dict[str, object]]:
    """The differences of the ranking metrics: for each metric a row of ``compare_runs``.

    Args:
        protocol: How the queries were ranked.
        tables: For each pair of runs, the ``per_query`` tables with ``id`` and ``group``, joined by ``join_results``.
    """
    # the joined columns are rr@10_a, rr@10_b and so on
    columns = next(iter(tables.values()))
    rows = []
    for name in [name.removesuffix("_a") for name in map(str, columns) if name.endswith("_a")]:

        def compare(table: pd.DataFrame, metric: str = name) -> Comparison:
            means = _over_seeds(table, metric)
            return compare_means(*(means[column].to_numpy() for column in (f"{metric}_a", f"{metric}_b", "group")))

        row = _row(metric_prefix(protocol) + name, tables, compare)
        means = _over_seeds(pd.concat(tables.values()), name)
        p_value = mann_whitney(means[f"{name}_a"].to_numpy(), means[f"{name}_b"].to_numpy())
        rows.append(row | {"p_mann_whitney": p_value})
    return rows


def describe_matches(runs: list[Run]) -> str:
    """How many seeds, and years if any, the runs of one side have: ``3 seeds, 2012 to 2015``."""
    years = sorted({run.year for run in runs if run.year is not None})
    seeds = len({int(run.config.seed) for run in runs})
    return f"{seeds} seed{'' if seeds == 1 else 's'}" + (f", {years[0]} to {years[-1]}" if years else "")


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """The table of ``compare_runs`` for the terminal: without empty columns, and no p value where there is no test."""
    chosen = table if (table["by_seed"] != "").any() else table.drop(columns="by_seed")
    names = {name: heading for name, heading in P_VALUES.items() if name in chosen}
    texts = {name: chosen[name].map(format_p_value) for name in names}
    return chosen.assign(**texts).rename(columns=names)


def _match(first: list[Run], second: list[Run]) -> dict[Key, tuple[Run, Run]]:
    """Runs with the same seed and year, in the order of their seeds and years."""
    first_of = _by_key(first, "run")
    second_of = _by_key(second, "against")
    if first_of.keys() != second_of.keys():
        what = "seeds" if {key.seed for key in first_of} != {key.seed for key in second_of} else "years"
        index = Key._fields.index(what.removesuffix("s"))
        values = [sorted({key[index] for key in runs_of}) for runs_of in (first_of, second_of)]
        shared = sorted(first_of.keys() & second_of.keys())
        sides = {"run": first_of, "against": second_of}
        folders = {option: [path_value(runs[key].folder) for key in shared] for option, runs in sides.items()}
        lists = [f"{option}=[{','.join(paths)}]" for option, paths in folders.items()]
        if len(shared) == 1:
            lists = [f"{option}={paths[0]}" for option, paths in folders.items()]
        cure = (
            f"to compare the shared ones alone, give {' '.join(lists)}"
            if shared
            else f"train both with the same {what}"
        )
        raise ValueError(f"the runs have different {what}: {values[0]} and {values[1]}: {cure}")
    return {key: (first_of[key], second_of[key]) for key in sorted(first_of)}


def _by_key(runs: list[Run], option: str) -> dict[Key, Run]:
    by_key: dict[Key, Run] = {}
    for run in runs:
        other = by_key.setdefault(Key(int(run.config.seed), run.year or 0), run)
        if other is not run:
            raise ValueError(
                f"{other.folder} and {run.folder} have the same seed, {run.config.seed}: give the runs of one setting,"
                f" one a seed, as {option}=[FOLDER,FOLDER]"
            )
    return by_key


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
    rows: pd.DataFrame = scored.iloc[[0]] if method is None else scored[scored["method"] == method]
    if not len(rows):
        raise ValueError(f"{run.folder} has no method {method!r}: choose one of {', '.join(scored['method'])}")
    return rows.iloc[0]


def join_results(names: tuple[str, str], a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Two results on the same pairs or queries side by side; names of values end in ``_a`` and ``_b``.

    Raises:
        ValueError: If their pairs or queries differ; the message calls the results ``names``.
    """
    keys = [name for name in ("id_1", "id_2", "id", "label", "group") if name in a]
    both = a.merge(b, on=keys, suffixes=("_a", "_b"))
    if not len(both) == len(a) == len(b):
        raise ValueError(
            f"{names[0]} and {names[1]} were tested on different pairs or queries ({len(both)} of {len(a)} and"
            f" {len(b)} are shared): compare runs with the same corpus, split, seed and pairs"
        )
    return pd.DataFrame(both)


def _row(
    metric: str, tables: Mapping[Key, pd.DataFrame], compare: Callable[[pd.DataFrame], Comparison]
) -> dict[str, object]:
    overall = asdict(compare(pd.concat(tables.values(), ignore_index=True)))
    ends = {"difference_low": overall.pop("low"), "difference_high": overall.pop("high")}
    row = {"metric": metric, **overall, **ends, "by_seed": ""}
    for column, index in (("by_seed", 0), ("by_year", 1)):
        shared: dict[int, list[pd.DataFrame]] = {}
        for key, table in tables.items():
            shared.setdefault(key[index], []).append(table)
        if len(shared) > 1:
            single = [compare(pd.concat(key_tables, ignore_index=True)).difference for key_tables in shared.values()]
            row[column] = " ".join(f"{value:+.3f}" for value in single)
    return row


def _over_seeds(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Means of both runs' metric over the seeds, one row per query."""
    return table.groupby(["id", "group"])[[f"{metric}_a", f"{metric}_b"]].mean().reset_index()
