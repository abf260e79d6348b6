"""Methods that are compared: best parts, and the order of equal scores."""

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import GRANULARITIES
from gedbd.corpora.relevance import Links
from gedbd.localization.training.compared_methods import (
    BestPart,
    EarlierBugs,
    MethodOptions,
    encoded_unit,
    make_methods,
)
from gedbd.localization.training.localization_output import beside_published
from gedbd.localization.training.localization_results import MeasuredMethod, known_table
from gedbd.retrieval.ranking_metrics import Ranking
from gedbd.retrieval.scorers.bm25 import Bm25
from gedbd.retrieval.scorers.scorer_contract import PrecomputedScores, ScorerInputs


def test_hunks_are_ranked_by_files_and_these_by_commits():
    # Commit 0 has the files 0 and 1, commit 1 the file 2; the hunks belong to the files 0, 1, 1, 2.
    hunks = PrecomputedScores(np.array([[1.0, 4, 2, 3]]))
    nested = BestPart(
        BestPart(hunks, pd.DataFrame({"file": [0, 1, 1, 2]}), "file"), pd.DataFrame({"commit": [0, 0, 1]}), "commit"
    )
    none = pd.DataFrame({"query": [], "document": []}, dtype=np.int64)
    nested.fit(ScorerInputs(pd.DataFrame(index=range(2)), pd.DataFrame(index=range(1)), none))
    assert nested.scores(np.array([0])).tolist() == [[4, 3]]


def test_commits_are_ranked_by_each_kind_of_part_and_files_by_hunks(change_corpus):
    options = MethodOptions("first", parts=["first"])
    methods = {
        granularity: set(make_methods({"first": Bm25}, options, change_corpus, granularity))
        for granularity in GRANULARITIES
    }
    assert methods["commit"] == {"first", "first_best_file", "first_best_hunk"}
    assert methods["file"] == {"first", "first_best_hunk"}
    assert methods["hunk"] == {"first"}
    assert [encoded_unit(name) for name in ("first", "first_best_file", "first_best_hunk")] == list(GRANULARITIES)


def measured(method, granularity, mrr):
    values = {"p@1": 0.1, "p@3": 0.2, "p@5": 0.3, "r_cap@1": 0.4, "r_cap@3": 0.5, "r_cap@5": 0.6}
    return {"granularity": granularity, "method": method, "mrr": mrr, "map": 0.7, **values}


def test_published_rows_stand_beside_commits_ranked_by_the_same_unit():
    rows = [measured("bm25", "commit", 0.8), measured("bm25_best_hunk", "commit", 0.9), measured("bm25", "hunk", 0.3)]
    table = beside_published(pd.DataFrame(rows), "zxing")
    here = table[table["source"] == "here"]
    assert here["ranked"].tolist() == ["commits", "commits, by their best hunk"]
    assert here["mrr"].tolist() == [0.8, 0.9]
    assert here[["p@1", "p@3", "p@5"]].to_numpy().tolist() == [[0.4, 0.5, 0.6]] * 2
    published = table[table["source"] != "here"].groupby("source").size()
    assert published.to_dict() == {"Table 2": 15, "Table 4": 4}
    remarks = table[table["remark"] != ""].set_index(["ranked", "method"])["remark"].to_dict()
    assert remarks == {
        ("commits", "unixcoder"): "cannot be: P@1 is above MRR",
        ("commits, by their best file", "fbl_bert"): "not all legible in our copy",
        ("commits, by their best hunk", "fbl_bert"): "not all legible in our copy",
    }


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
