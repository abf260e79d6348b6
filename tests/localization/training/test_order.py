"""Orders that read no content, and what methods reach on changes that are known from earlier bugs."""

import numpy as np
import pandas as pd

from gedbd.corpora.relevance import Links
from gedbd.localization.training.compared_methods import EarlierBugs
from gedbd.localization.training.localization_results import MeasuredMethod, known_table
from gedbd.retrieval.ranking_metrics import Ranking
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs


def days(*numbers: float) -> pd.Series:
    return pd.Series(pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(numbers, unit="D"))


def test_earlier_bugs_counts_links_known_before_the_report():
    reports = pd.DataFrame({"created_at": days(10, 20, 30, 40)})
    changes = pd.DataFrame({"created_at": days(1, 2, 3)})
    made_at = [*days(15, 15, 30), pd.NaT, *days(50)]
    table = pd.DataFrame({"query": [0, 0, 1, 1, 3], "document": [0, 1, 0, 2, 1], "made_at": made_at}).assign(source="")
    scorer = EarlierBugs(Links(table, 4, 3), ScorerInputs(changes, reports, table))
    expected = [
        [0, 0, 0],
        [1, 1, 0],  # the fix of report 0, five days before
        [1, 1, 0],  # the fix of report 1 is made at the same moment, and one has no date
        [2, 1, 0],  # its own link does not count
    ]
    assert scorer.scores(np.arange(4)).tolist() == expected


def test_known_table_by_hand():
    values = pd.DataFrame({"mrr": [1.0, 0.5, 0.0], "rr@10": [1.0, 1.0, 0.0]})
    nothing = Ranking(pd.DataFrame(), pd.DataFrame())
    measured = [
        MeasuredMethod("bm25", "commit", (values,), nothing),
        MeasuredMethod("half", "commit", (values / 2,), nothing),
    ]
    table = known_table(measured, np.array([3, 0, 0]), "bm25")
    assert table["inducing_change"].tolist() == ["known", "known", "new", "new"]
    assert table["queries"].tolist() == [1, 1, 2, 2]
    assert table["mrr"].tolist() == [1.0, 0.5, 0.25, 0.125]
    assert table["rr@10"].tolist() == [1.0, 0.5, 0.5, 0.25]
    np.testing.assert_array_equal(table["mrr_difference"], [np.nan, -0.5, np.nan, -0.125])
    assert set(known_table(measured, np.zeros(3), "bm25")["inducing_change"]) == {"new"}
