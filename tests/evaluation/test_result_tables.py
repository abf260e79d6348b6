"""Tables, figures and closing lines of a run, worked out by hand."""

import numpy as np
import pandas as pd
import pytest
from small_reports import PrecomputedScores

from gedbd.evaluation.display_names import ALWAYS_DUPLICATE, FROZEN, TEXT, TEXT_GRAPH
from gedbd.evaluation.pairwise import METRICS
from gedbd.evaluation.result_tables import (
    WITH_GRAPH,
    compare_methods,
    compare_rankings,
    example_pairs,
    verdict_on_pairs,
)
from gedbd.retrieval.ranking_tasks import EarlierReports, rank


def table(part: str, score: list[float], text: list[float], frozen: list[float], label: list[int]) -> pd.DataFrame:
    count = len(label)
    pairs = pd.DataFrame({"score": score, "score_text": text, "score_frozen": frozen, "label": label, "part": part})
    for number in (1, 2):
        pairs[f"id_{number}"] = [f"{part}-{number}-{row}" for row in range(count)]
        pairs[f"title_{number}"] = [f"title {row}" for row in range(count)]
    pairs["group"] = [f"{part}-{row}" for row in range(count)]
    return pairs.assign(kind="positive", predicted=(pairs["score"] >= 0.5).astype(int))


@pytest.fixture
def predictions() -> pd.DataFrame:
    val = table("val", [0.9, 0.1, 0.2, 0.3], [0.8, 0.4, 0.3, 0.2], [0.9, 0.85, 0.8, 0.7], [1, 1, 0, 0])
    test = table("test", [0.6, 0.4, 0.6, 0.1], [0.5, 0.36, 0.34, 0.1], [0.95, 0.6, 0.82, 0.5], [1, 1, 0, 0])
    return pd.concat([val, test], ignore_index=True)


def test_baselines_get_their_threshold_on_validation_pairs(predictions):
    methods = compare_methods(predictions, "test", WITH_GRAPH, 0.5).set_index("method")
    assert list(methods.index) == [TEXT_GRAPH, TEXT, FROZEN, ALWAYS_DUPLICATE]
    assert list(methods.columns) == ["threshold", *METRICS, "f1_low", "f1_high"]
    # on val, text alone parts the classes from 0.35 on, the frozen encoder from 0.85 on
    assert methods["threshold"].tolist() == [0.5, 0.35, 0.85, 0.0]
    assert methods.loc[TEXT_GRAPH, ["precision", "recall"]].tolist() == pytest.approx([1 / 2, 1 / 2])
    assert methods.loc[TEXT, ["precision", "recall"]].tolist() == pytest.approx([1, 1])
    assert methods.loc[FROZEN, ["precision", "recall"]].tolist() == pytest.approx([1, 1 / 2])
    assert methods.loc[ALWAYS_DUPLICATE, ["precision", "recall", "f1"]].tolist() == pytest.approx([1 / 2, 1, 2 / 3])
    assert ((methods["f1_low"] <= methods["f1"]) & (methods["f1"] <= methods["f1_high"])).all()


def test_examples_are_those_nearest_the_median_and_the_most_wrong():
    duplicates = [0.9, 0.5, 0.7, 0.1, 0.3, 0.8, 0.75]
    others = [0.2, 0.6, 0.0, 0.4, 0.95, 0.1, 0.3]
    scores = duplicates + others
    pairs = table("test", scores, scores, scores, [1] * 7 + [0] * 7)
    noise = table("val", [0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [1, 0])
    examples = example_pairs(pd.concat([noise, pairs], ignore_index=True), "test", count=2)
    chosen = {key: mine["score"].tolist() for key, mine in examples.groupby(["label", "example"])}
    assert chosen == {
        (1, "typical"): [0.7, 0.75],  # the median of duplicates is 0.7
        (1, "hardest"): [0.1, 0.3],
        (0, "typical"): [0.3, 0.2],  # the median of others is 0.3
        (0, "hardest"): [0.95, 0.6],
    }
    assert examples["id_1"].str.startswith("test-1-").all()
    assert examples.loc[0, ["id_2", "title_2"]].tolist() == ["test-2-2", "title 2"]
    few = example_pairs(table("test", *[[0.9, 0.2, 0.4]] * 3, [1, 0, 0]), "test")  # each is shown once
    assert sorted(few["score"]) == [0.2, 0.4, 0.9]
    assert set(few["example"]) == {"typical"}


def test_rankings_stand_side_by_side():
    group = np.array([0, 1, 0, 1, 4])
    queries = EarlierReports(np.array([2, 3]), np.zeros(2, dtype=int), group)
    right = np.where(group[:, None] == group, 1.0, 0.0)
    table = compare_rankings(
        {"right": rank(queries, PrecomputedScores(right)), "wrong": rank(queries, PrecomputedScores(-right))}, group
    )
    assert table["method"].tolist() == ["right", "wrong"]
    assert table["queries"].tolist() == [2, 2]
    assert table["reachable"].tolist() == [1, 1]
    assert table["rr@1"].tolist() == [1, 0]
    assert table["rr@5"].tolist() == [1, 1]
    assert table["mrr"].tolist() == [1, 0.5]
    assert table.loc[0, ["mrr_low", "mrr_high"]].tolist() == [1, 1]


COLUMNS = {"text": "score", "frozen": "score_frozen"}


def pairs(right: int, frozen_right: int) -> pd.DataFrame:
    """Ten groups of one duplicate and one other pair; so many of the duplicate ones are found, and no other pair."""
    found = [
        np.r_[np.arange(10) < count, np.zeros(10, dtype=bool)].astype(np.float32) for count in (right, frozen_right)
    ]
    labels = np.r_[np.ones(10), np.zeros(10)].astype(int)
    test = pd.DataFrame({"score": found[0], "score_frozen": found[1], "label": labels, "part": "test"})
    val = test.assign(score=labels.astype(np.float32), score_frozen=labels.astype(np.float32), part="val")
    return pd.concat([val, test.assign(group=np.r_[np.arange(10), np.arange(10)])], ignore_index=True)


def verdict(right: int, frozen_right: int, columns: dict[str, str] = COLUMNS) -> list[str]:
    table = pairs(right, frozen_right)
    return verdict_on_pairs(table, "test", columns, compare_methods(table, "test", columns)).split("; ")


def test_differences_that_are_shown_and_that_are_not():
    own, always, frozen = verdict(right=10, frozen_right=2)
    assert own == "test F1 1.000 [1.000, 1.000]"
    assert always == "always duplicate 0.667: better, +0.333 [+0.333, +0.333]"  # precision 1/2, recall 1
    assert frozen.startswith("frozen encoder 0.333: better, +0.667 [")  # precision 1, recall 2/10
    assert verdict(right=2, frozen_right=10)[2].startswith("frozen encoder 1.000: worse, -0.667 [")
    equal = "frozen encoder 0.889: not significant, +0.000 [+0.000, +0.000]"
    assert verdict(right=8, frozen_right=8)[2] == equal
    assert len(verdict(10, 10, {"bm25": "score"})) == 2  # a baseline is compared with always duplicate alone
