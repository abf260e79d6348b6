"""The closing lines of a training, on pairs and queries worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from gedbd.evaluation.result_tables import (
    compare_methods,
    compare_rankings,
    conclude,
    verdict_on_pairs,
    verdict_on_queries,
)
from gedbd.evaluation.significance import Comparison
from gedbd.retrieval.ranking_metrics import Ranking

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
    equal = "frozen encoder 0.889: no difference shown, +0.000 [+0.000, +0.000]"
    assert verdict(right=8, frozen_right=8)[2] == equal
    assert len(verdict(10, 10, {"bm25": "score"})) == 2  # a baseline is compared with always duplicate alone


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.01, 0.2, "better"), (-0.2, -0.01, "worse")] + [(low, 0.1, "no difference shown") for low in (-0.1, 0.0)],
)
def test_the_interval_decides(low, high, said):
    assert conclude(Comparison(0.5, 0.4, 0.1, low, high, 0.01)) == said


def ranked(ranks: list[int]) -> Ranking:
    """Queries of one group each with the rank of their group."""
    columns = {"query": range(len(ranks)), "rank": ranks, "reachable": True}
    columns |= {"average_precision": 0.5, "average_precision@10": 0.5}
    return Ranking(pd.DataFrame(columns), pd.DataFrame())


def test_ranking_is_compared_with_the_frozen_encoder_if_that_was_measured():
    rankings = {"text": ranked([1] * 10), "frozen": ranked([1, 1] + [11] * 8)}
    group = np.arange(10)
    line = verdict_on_queries("test", rankings, group, compare_rankings(rankings, group))
    assert line.startswith("test RR@10 1.000 [1.000, 1.000]; frozen encoder 0.200: better, +0.800 [")
    alone = {"bm25": ranked([1] * 10)}
    assert verdict_on_queries("test", alone, group, compare_rankings(alone, group)) == ""
