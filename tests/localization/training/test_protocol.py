"""Which reports train and test, their candidates, and metrics on rankings made by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from small_history import links
from small_reports import PrecomputedScores

from gedbd.corpora.corpus import GRANULARITIES
from gedbd.corpora.relevance import Links
from gedbd.experiments.published import read_published
from gedbd.localization.training.compared_methods import (
    BestPart,
    EarlierBugs,
    MethodOptions,
    NewestFirst,
    encoded_unit,
    make_methods,
)
from gedbd.localization.training.localization_data import MIN_REPORTS, find_halves, make_level
from gedbd.localization.training.localization_output import beside_published
from gedbd.localization.training.localization_results import (
    MeasuredMethod,
    known_table,
    query_metrics,
    ranking_table,
    results_table,
)
from gedbd.retrieval.ranking_tasks import EarlierDocuments, Ranking, per_query, rank
from gedbd.retrieval.scorers.bm25 import Bm25
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs


def with_links(corpus, **inducing):
    return replace(corpus, inducing={**corpus.inducing, **inducing})


def test_the_first_half_by_date_trains_and_candidates_are_before_the_report(change_corpus):
    halves = find_halves(change_corpus)
    created_at = change_corpus.reports.reports["created_at"]
    assert created_at.iloc[halves.train].max() < created_at.iloc[halves.test].min()
    assert (len(halves.train), len(halves.test)) == (15, 15)
    for granularity in ("commit", "file", "hunk"):
        level = make_level(change_corpus, halves, granularity)
        for index, report in enumerate(level.task.queries):
            candidates = level.inputs.documents.iloc[level.task.candidates(index)]
            assert (candidates["created_at"] < created_at.iloc[report]).all()
            assert len(level.task.relevant(index))
        assert set(level.inputs.train["query"]) <= set(halves.train)


def test_a_report_whose_inducing_commits_are_all_later_is_left_out_and_counted(change_corpus):
    table = change_corpus.inducing["commit"].table
    last = len(change_corpus.commits) - 1
    later = table.assign(document=table["document"].where(table["query"] != 3, last))
    moved = with_links(change_corpus, commit=replace(change_corpus.inducing["commit"], table=later))
    halves = find_halves(moved)
    assert 3 not in [*halves.train, *halves.test]
    # 29 reports: the test half has one more.
    assert (len(halves.train), len(halves.test)) == (14, 15)
    assert "reports with later inducing commits only, left out: 1" in halves.warnings


def test_links_to_changes_after_their_report_are_not_learned_from(change_corpus):
    links = change_corpus.inducing["commit"]
    later = pd.DataFrame({"query": links.table["query"], "document": len(change_corpus.commits) - 1})
    both = pd.concat([links.table, later.assign(source="table", made_at=pd.NaT)], ignore_index=True)
    moved = with_links(change_corpus, commit=replace(links, table=both))
    levels = [make_level(corpus, find_halves(corpus), "commit") for corpus in (change_corpus, moved)]
    first, second = (level.inputs.train[["query", "document"]].to_numpy().tolist() for level in levels)
    assert first == second


def test_labels_that_became_known_in_the_second_half_are_counted(change_corpus):
    table = change_corpus.inducing["commit"].table
    late = table.assign(made_at=table["made_at"].where(table["query"] != 2, table["made_at"].max()))
    found = find_halves(with_links(change_corpus, commit=replace(change_corpus.inducing["commit"], table=late)))
    assert found.warnings[-1].endswith("became known during the second half: 1 of 15")


@pytest.mark.parametrize("damage", ["reports", "links", "few", "dates"])
def test_a_corpus_that_cannot_be_used_is_refused_in_one_line(change_corpus, damage):
    reports = change_corpus.reports
    few = links([(row, row) for row in range(3)], len(reports), len(change_corpus.commits))
    undated = replace(reports.documents, table=reports.reports.assign(created_at=pd.NaT))
    damaged, message = {
        "reports": (replace(change_corpus, reports=None), "a history without reports"),
        "links": (replace(change_corpus, inducing={}), "no report has an inducing commit"),
        "few": (with_links(change_corpus, commit=few), f"before them: 3; at least {MIN_REPORTS} are needed"),
        "dates": (replace(change_corpus, reports=replace(reports, documents=undated)), "reports without a date"),
    }[damage]
    with pytest.raises(ValueError, match=message) as refused:
        find_halves(damaged)
    assert "\n" not in str(refused.value)


def test_a_granularity_without_links_is_refused(change_corpus):
    halves = find_halves(change_corpus)
    without = replace(change_corpus, inducing={"commit": change_corpus.inducing["commit"]})
    with pytest.raises(ValueError, match=r"no inducing files: leave file out of task\.granularities"):
        make_level(without, halves, "file")
    late = links([(int(halves.test[0]), 0)], len(change_corpus.reports), len(change_corpus.hunks))
    with pytest.raises(ValueError, match="no report of the first half has an inducing hunk before it"):
        make_level(with_links(change_corpus, hunk=late), halves, "hunk")


@pytest.fixture
def ranked():
    """Two reports and five changes; the first ranks 2, 0, 1, 3 with 0 and 3 relevant, the second 1, 0 with 0."""
    scores = np.array([[3.0, 2, 4, 1, 9], [1, 2, 9, 9, 9]])
    task = EarlierDocuments(
        np.array([0, 1]), np.array([4, 2]), links([(0, 0), (0, 3), (1, 0), (1, 4)], 2, 5), (1, 3, 10)
    )
    return task, rank(task, PrecomputedScores(scores))


def test_metrics_of_a_ranking_made_by_hand(ranked):
    task, ranking = ranked
    values = query_metrics(task, ranking)
    assert values["mrr"].tolist() == [1 / 2, 1 / 2]
    assert values["map"].tolist() == [pytest.approx((1 / 2 + 2 / 4) / 2), 1 / 2]
    assert values["rr@1"].tolist() == [0, 0]
    assert values["rr@3"].tolist() == [1, 1]
    assert values["p@1"].tolist() == [0, 0]
    # Of the first three, one is relevant; the second report has two candidates only, and the third place is a miss.
    assert values["p@3"].tolist() == [1 / 3, 1 / 3]
    assert values["p@5"].tolist() == [2 / 5, 1 / 5]
    # Both have two linked changes; the second report's change 4 is later than the report, so one is left to find.
    assert values["r_cap@1"].tolist() == [0, 0]
    assert values["r_cap@3"].tolist() == [1 / 2, 1]
    assert values["r_cap@5"].tolist() == [1, 1]


def test_means_over_seeds_and_differences_from_the_baseline():
    def measured(method, *by_seed):
        frames = []
        for ranks in by_seed:
            table = pd.DataFrame(
                {"query": range(len(ranks)), "rank": ranks, "average_precision": 0.5, "reachable": True}
            )
            table = table.assign(**{f"average_precision@{k}": 0.0 for k in (1, 3, 5, 10, 20, 100)})
            frames.append(per_query(table).assign(**{f"{name}@{k}": 0.0 for name in ("p", "r_cap") for k in (1, 3, 5)}))
        return MeasuredMethod(method, "commit", tuple(frames), None)

    table = ranking_table([measured("learnt", [1, 2], [1, 4]), measured("bm25", [2, 4])], "bm25").set_index("method")
    row = table.loc["learnt"]
    assert row["mrr"] == pytest.approx((1 + (1 / 2 + 1 / 4) / 2) / 2)
    assert (row["mrr_seeds_min"], row["mrr_seeds_max"], row["seeds"]) == (pytest.approx(0.625), pytest.approx(0.75), 2)
    # Differences of 1/2 and 1/8: their mean, and the ends of all resamples of two.
    assert row["mrr_difference"] == pytest.approx(5 / 16)
    assert (row["mrr_difference_low"], row["mrr_difference_high"]) == (pytest.approx(1 / 8), pytest.approx(1 / 2))
    assert np.isnan(table.loc["bm25", "mrr_difference"])
    wide = results_table(table.reset_index())
    assert wide["method"].tolist() == ["learnt", "bm25"]


def test_of_equal_scores_the_newer_change_comes_first_and_missing_ones_stay_missing():
    places = NewestFirst(PrecomputedScores(np.array([[5.0, 5, 1], [np.nan, 0, 2]]))).scores(np.array([0, 1]))
    assert places[0].tolist() == [1, 2, 0]
    assert np.isnan(places[1, 0])
    assert places[1, 1] < places[1, 2]


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


def method_row(method, granularity, mrr):
    values = {"p@1": 0.1, "p@3": 0.2, "p@5": 0.3, "r_cap@1": 0.4, "r_cap@3": 0.5, "r_cap@5": 0.6}
    return {"granularity": granularity, "method": method, "mrr": mrr, "map": 0.7, **values}


def test_published_rows_stand_beside_commits_ranked_by_the_same_unit():
    rows = [
        method_row("bm25", "commit", 0.8),
        method_row("bm25_best_hunk", "commit", 0.9),
        method_row("bm25", "hunk", 0.3),
    ]
    table = beside_published(pd.DataFrame(rows), "zxing")
    here = table[table["source"] == "here"]
    assert here["ranked"].tolist() == ["commits", "commits, by their best hunk"]
    assert here["mrr"].tolist() == [0.8, 0.9]
    assert here[["p@1", "p@3", "p@5"]].to_numpy().tolist() == [[0.4, 0.5, 0.6]] * 2
    published = table[table["source"] != "here"].groupby("source").size()
    assert published.to_dict() == {"Table 2": 15, "Table 4": 4}
    every = read_published("localization", "table2", "table3", "table4")
    assert (every["remark"].str.startswith("impossible") == (every["p@1"] > every["mrr"])).all()
    remarks = table[table["remark"] != ""].set_index(["ranked", "method"])["remark"].to_dict()
    assert remarks == {
        ("commits", "unixcoder"): "impossible: P@1 is above MRR",
        ("commits, by their best file", "fbl_bert"): "partly illegible in our copy",
        ("commits, by their best hunk", "fbl_bert"): "partly illegible in our copy",
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
