import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest
from omegaconf import OmegaConf
from scipy.stats import mannwhitneyu

from gedbd.experiments.report.run_comparison import compare_runs, describe_matches, readable
from gedbd.experiments.run_folder import SCHEMA, Run
from gedbd.retrieval.ranking_tasks import TOP_K, metric_names

TEXT_GRAPH, TEXT = "text_graph", "text"
NAMES = {TEXT_GRAPH: "score", TEXT: "score_text"}
LABELS = [1, 1, 1, 0, 0, 0]


def scored(
    scores: Sequence[float], labels: Sequence[int] = LABELS, text: Sequence[float] | None = None
) -> pd.DataFrame:
    """Test pairs of three groups in turn, and validation pairs that are not to be looked at."""
    count = len(labels)
    pairs = pd.DataFrame({"label": labels, "score": scores, "score_text": scores if text is None else text})
    pairs["id_1"] = [f"A-{row}" for row in range(count)]
    pairs["id_2"] = [f"B-{row}" for row in range(count)]
    pairs["group"] = [f"G-{row % 3}" for row in range(count)]
    val = pairs.iloc[:2].assign(label=[0, 1])
    return pd.concat([pairs.assign(part="test"), val.assign(part="val")], ignore_index=True)


def ranks(method: str = TEXT_GRAPH, **rank_of: int) -> pd.DataFrame:
    """Queries by id with their rank; each is a group of its own."""
    table = pd.DataFrame({"id": list(rank_of), "rank": list(rank_of.values())})
    precision = [0.5 / rank if rank else 0.0 for rank in rank_of.values()]
    at_k = {f"average_precision@{k}": precision for k in TOP_K}
    named = {"protocol": "earlier", "method": method, "part": "test", "group": "G-" + table["id"]}
    return table.assign(**named, average_precision=precision, **at_k)


def leave(
    folder: Path,
    predictions: pd.DataFrame,
    queries: pd.DataFrame | None = None,
    thresholds: Sequence[float] = (0.5, 0.5),
    **config: object,
) -> Run:
    """A run folder; thresholds are those of text + graph and of text alone."""
    folder.mkdir(parents=True)
    config = {"seed": 0, "dataset": {"name": "demo"}, "encoder": {"name": "minilm"}} | config
    OmegaConf.save(OmegaConf.create(config), folder / "config.yaml")
    (folder / "versions.json").write_text(json.dumps({"schema": SCHEMA}))
    predictions.to_parquet(folder / "predictions.parquet", index=False)
    results = pd.DataFrame({"method": [TEXT_GRAPH, TEXT], "threshold": thresholds})
    results.to_csv(folder / "results.csv", index=False)
    (folder / "leak.json").write_text("{}")
    if queries is not None:
        queries.to_parquet(folder / "queries.parquet", index=False)
        ranking = pd.DataFrame({"method": queries["method"].unique(), "queries": len(queries)})
        ranking.to_csv(folder / "ranking.csv", index=False)
    return Run(folder)


@pytest.fixture
def pair_of_runs(tmp_path) -> tuple[Run, Run]:
    first = leave(tmp_path / "a", scored([0.9, 0.8, 0.2, 0.7, 0.1, 0.1]), ranks(q1=1, q2=2, q3=0, q4=5))
    second = leave(tmp_path / "b", scored([0.9, 0.1, 0.2, 0.1, 0.1, 0.1]), ranks(q1=2, q2=2, q3=0, q4=1))
    return first, second


def test_one_run_against_another_worked_out_by_hand(pair_of_runs):
    table = compare_runs([pair_of_runs[0]], [pair_of_runs[1]])
    columns = "metric first second difference p_value difference_low difference_high by_seed p_mann_whitney"
    assert list(table) == columns.split()
    assert table["metric"].tolist() == ["f1", *metric_names()]
    table = table.set_index("metric")
    values = table[["first", "second", "difference"]]
    # the first calls 3 pairs duplicate, 2 of them rightly; the second calls 1, rightly; there are 3
    assert values.loc["f1"].tolist() == pytest.approx([2 / 3, 1 / 2, 1 / 6])
    assert values.loc["rr@1"].tolist() == pytest.approx([1 / 4, 1 / 4, 0])
    assert values.loc["rr@5"].tolist() == pytest.approx([3 / 4, 3 / 4, 0])
    assert values.loc["mrr"].tolist() == pytest.approx([1.7 / 4, 2 / 4, -0.3 / 4])
    assert values.loc["map"].tolist() == pytest.approx([0.85 / 4, 1 / 4, -0.15 / 4])
    assert table.loc["rr@5", ["difference_low", "difference_high", "p_value"]].tolist() == [0, 0, 1]
    assert (table["difference_low"] <= table["difference"]).all()
    assert (table["difference"] <= table["difference_high"]).all()
    assert table["by_seed"].tolist() == [""] * len(table)
    # Mann and Whitney's test of the reciprocal ranks 1, .5, 0, .2 and .5, .5, 0, 1.
    expected = mannwhitneyu([1, 0.5, 0, 0.2], [0.5, 0.5, 0, 1], method="asymptotic").pvalue
    assert table.loc["mrr", "p_mann_whitney"] == pytest.approx(expected)
    assert table.loc["rr@20", "p_mann_whitney"] == 1  # the same share of hits


def test_several_seeds_worked_out_by_hand(pair_of_runs, tmp_path):
    labels = [1, 0, 1, 0]
    first, second = pair_of_runs
    other_first = leave(tmp_path / "c", scored([0.9, 0.1, 0.9, 0.1], labels), ranks(q1=2, q5=1), seed=1)
    other_second = leave(
        tmp_path / "d", scored([0.4, 0.4, 0.2, 0.1], labels), ranks(q1=4, q5=0), thresholds=(0.3, 0.5), seed=1
    )
    table = compare_runs([other_first, first], [second, other_second]).set_index("metric")
    values = table[["first", "second", "difference"]]
    # F1 gets its mean over the seeds: (2/3 + 1) / 2 against (1/2 + 1/2) / 2
    assert values.loc["f1"].tolist() == pytest.approx([5 / 6, 1 / 2, 1 / 3])
    # queries get their mean over the seeds: q1 (1 + 1/2) / 2 against (1/2 + 1/4) / 2; the others occur once
    expected = (0.75 + 0.5 + 0 + 0.2 + 1) / 5, (0.375 + 0.5 + 0 + 1 + 0) / 5
    assert values.loc["mrr"].tolist() == pytest.approx([*expected, expected[0] - expected[1]])
    assert table.loc["f1", "by_seed"] == "+0.167 +0.500"
    assert table.loc["mrr", "by_seed"] == "-0.075 +0.625"


def test_methods_have_their_own_column_threshold_and_ranks(tmp_path):
    predictions = scored([0.9, 0.8, 0.2, 0.7, 0.1, 0.1], text=[0.3, 0.25, 0.2, 0.1, 0.1, 0.1])
    queries = pd.concat([ranks(q1=1, q2=2), ranks(TEXT, q1=4, q2=1)], ignore_index=True)
    run = leave(tmp_path / "run", predictions, queries, thresholds=(0.5, 0.2))
    table = compare_runs([run], [run], against_method=TEXT).set_index("metric")
    assert table.loc["f1", ["first", "second"]].tolist() == pytest.approx([2 / 3, 1])
    assert table.loc["mrr", ["first", "second"]].tolist() == pytest.approx([0.75, 0.625])
    swapped = compare_runs([run], [run], TEXT, TEXT_GRAPH).set_index("metric")
    assert swapped["difference"].tolist() == pytest.approx((-table["difference"]).tolist())


def test_runs_that_cannot_be_matched_are_refused(pair_of_runs, tmp_path):
    first, second = pair_of_runs
    third = leave(tmp_path / "c", second.predictions, seed=1)
    several = f"{first.folder} and {second.folder} have the same seed, 0: give the runs of one setting, one a seed, as "
    shared = f"to compare the shared ones alone, give run={first.folder} against={second.folder}$"
    for one, two, message in (
        ([first], [third], r"the runs have different seeds: \[0\] and \[1\]: train both with the same seeds$"),
        ([third, first], [second], rf"the runs have different seeds: \[0, 1\] and \[0\]: {shared}"),
        ([first, second], [second], rf"{several}run=\[FOLDER,FOLDER\]$"),
        ([first], [first, second], rf"{several}against=\[FOLDER,FOLDER\]$"),
    ):
        with pytest.raises(ValueError, match=message):
            compare_runs(one, two)


def test_runs_on_other_pairs_or_queries_are_refused(pair_of_runs, tmp_path):
    first, second = pair_of_runs

    def refused(name: str, counts: str, predictions: pd.DataFrame, queries: pd.DataFrame | None = None) -> None:
        other = leave(tmp_path / name, predictions, queries)
        message = rf"{first.folder} and {other.folder} were tested on different pairs or queries \({counts} are shared"
        with pytest.raises(ValueError, match=message):
            compare_runs([first], [other])

    pairs, queries = second.predictions, second.queries
    refused("id", "5 of 6 and 6", pairs.replace({"id_2": {"B-3": "B-7"}}))
    refused("label", "5 of 6 and 6", pairs.assign(label=pairs["label"].where(pairs["id_1"] != "A-5", 1)))
    refused("fewer", "5 of 6 and 5", pairs.drop(index=2))
    refused("query", "3 of 4 and 4", pairs, queries.replace({"id": {"q3": "q9"}}))
    refused("more", "4 of 4 and 5", pairs, ranks(q1=2, q2=2, q3=0, q4=1, q5=1))


def test_an_unknown_method_is_refused_with_those_that_there_are(pair_of_runs):
    first, second = pair_of_runs
    for methods, message in (
        (("bm25", None), rf"{first.folder} has no method 'bm25': choose one of text_graph, text"),
        ((None, "bm25"), rf"{second.folder} has no method 'bm25': choose one of text_graph"),
        ((None, TEXT), rf"{second.folder} has no method 'text': choose one of text_graph"),  # pairs, but no ranking
    ):
        with pytest.raises(ValueError, match=message):
            compare_runs([first], [second], *methods)


def year(number: int) -> dict[str, object]:
    """The section split of a run that tests one year."""
    return {"_target_": "gedbd.sampling.splits.YearSplit", "year": number, "val_days": 92}


def test_walk_forward_runs_are_matched_by_year_and_their_queries_pooled(tmp_path):
    pairs = scored([0.9, 0.8, 0.2, 0.7, 0.1, 0.1])
    sides = []
    for side, later in (("a", 2), ("b", 4)):
        early = leave(tmp_path / side / "x", pairs, ranks(q1=1, q2=2), split=year(2013))
        late = leave(tmp_path / side / "y", pairs, ranks(q3=later, q4=later, q5=0), split=year(2014))
        sides.append([late, early])
    table = compare_runs(*sides).set_index("metric")
    assert table.loc["mrr", ["first", "second"]].tolist() == pytest.approx([2.5 / 5, 2 / 5])
    assert table.loc["mrr", "by_year"] == "+0.000 +0.167"  # (1/2 + 1/2 - 1/4 - 1/4) / 3
    assert table["by_seed"].tolist() == [""] * len(table)
    assert describe_matches(sides[0]) == "1 seed, 2013 to 2014"
    shown = readable(table.reset_index())
    assert "by_seed" not in shown
    assert shown["p Mann-Whitney"][0] == ""
    with pytest.raises(ValueError, match=r"the runs have different years: \[2013, 2014\] and \[2014\]"):
        compare_runs(sides[0], sides[1][:1])
