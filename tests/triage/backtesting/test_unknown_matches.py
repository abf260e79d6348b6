"""Matches that are not marked but may be right, and the precision without them, worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from gedbd.evaluation.significance import ratio_intervals
from gedbd.triage.backtesting.backtest_measures import at_thresholds, probability_table, target_results, targets_table
from gedbd.triage.backtesting.backtest_page import readable
from gedbd.triage.backtesting.suggestions import (
    Suggestions,
    examples,
    keep_suggestions,
    read_suggestions,
    shares,
    to_judge,
    unknown_table,
)
from gedbd.triage.backtesting.unknown_matches import SAME_TITLE, UNNAMED_ORIGINAL, unknown_reasons

GROUP = np.array([0, 1, 2, 0, 4, 5, 6, 7, 8])
TITLES = ["Crash", "Template", "", "crash ", " TEMPLATE", "Template  x", "", "Template x", "Freeze"]
ROWS = [  # query, candidate, right, probability
    (3, 0, True, 0.9),  # the same title, but marked
    (4, 1, False, 0.8),  # the same title
    (5, 1, False, 0.7),
    (6, 2, False, 0.6),  # empty titles
    (7, 5, False, 0.5),  # the same title but for white space
    (8, 0, False, 0.4),  # closed as a duplicate of nothing that is named
]


@pytest.fixture
def corpus(make_corpus):
    made = make_corpus(GROUP)
    made.reports["title"] = TITLES
    made.reports["url"] = [f"https://b.org/{row}" for row in range(9)]
    # 3 is a marked duplicate, 0 the original of one.
    made.reports["resolution"] = ["Duplicate", "", "", "DUPLICATE", "Fixed", "", "", "", "RESOLVED DUPLICATE"]
    return made


@pytest.fixture
def found(corpus):
    best = pd.DataFrame(ROWS, columns=["query", "candidate", "right", "probability"])
    best["rank"] = best["right"].astype(int)
    return Suggestions.of(best.assign(unknown=unknown_reasons(best, corpus)), GROUP)


def test_case_and_white_space_do_not_count_and_an_empty_title_is_no_title(found, corpus):
    assert found.best["unknown"].tolist() == ["", SAME_TITLE, "", "", SAME_TITLE, UNNAMED_ORIGINAL]
    table = unknown_table(found, corpus)
    assert table["report"].tolist() == ["1004", "1007", "1008"]
    assert table["suggested"].tolist() == ["1001", "1005", "1000"]
    assert table["probability"].tolist() == [0.8, 0.5, 0.4]
    assert table["why"].tolist() == [SAME_TITLE, SAME_TITLE, UNNAMED_ORIGINAL]


def test_the_original_of_a_group_is_not_unknown(corpus):
    # Report 0 is closed as a duplicate too; a later report is marked as its duplicate, so its original is known.
    matches = pd.DataFrame({"query": [0], "candidate": [1], "right": [False]})
    assert unknown_reasons(matches, corpus).tolist() == [""]


def test_precision_does_not_count_them(found):
    table = at_thresholds(found, [0.75, 0.5, np.nan])
    # from 0.75: right, same title; from 0.5: one right of five, two of which do not count
    assert table["suggestions"].tolist() == [1, 3, 0]
    assert table["right"].tolist() == [1, 1, 0]
    assert table["unknown"].tolist() == [1, 2, 0]
    assert table["precision"].tolist()[:2] == [1 / 1, 1 / 3]
    assert table["precision_as_marked"].tolist()[:2] == [1 / 2, 1 / 5]
    assert table["suggestion_rate"].tolist() == [2 / 6, 5 / 6, 0]
    assert np.isnan(table.loc[2, ["precision", "precision_as_marked"]]).all()
    kept = np.array([[True], [False], [False]])
    low, high = ratio_intervals(kept, np.ones((3, 1), dtype=bool), np.array([0, 5, 6]))
    assert table.loc[1, ["precision_low", "precision_high"]].tolist() == [low[0], high[0]]


def test_thresholds_are_chosen_without_them(make_corpus):
    group = np.concatenate([np.arange(60), np.arange(40), np.arange(100, 160)])
    best = pd.DataFrame({"query": np.arange(60, 160), "candidate": np.arange(100) % 60, "right": np.arange(100) < 40})
    best = best.assign(rank=1, probability=np.where(np.arange(100) < 60, 0.9, 0.1), unknown="")
    # 40 of 60 are right, or 40 of 40 if the 20 others are unknown.
    other = best.assign(unknown=np.where((best["probability"] > 0.5) & ~best["right"], SAME_TITLE, ""))
    for one, threshold, status in ((best, None, "no threshold"), (other, 0.9, "met")):
        made = Suggestions.of(one, group)
        row = targets_table(made, made, (0.8,), 0.9).iloc[0]
        assert (None if np.isnan(row["threshold"]) else row["threshold"]) == threshold
        assert row["status"] == status
    (target,) = target_results(targets_table(made, made, (0.8,), 0.9), (None, None))
    assert (target.suggestions, target.right, target.unknown) == (40, 40, 20)
    assert target.evidence.endswith("were right; 20 more are not counted, as nobody knows whether they are.")


def test_probabilities_are_measured_with_and_without_them(found):
    best = found.best.assign(right=[False, False, True, False, False, False])
    table = probability_table(Suggestions.of(best, GROUP))
    assert table["counted"].tolist() == ["as marked", "without unknown"]
    assert table["matches"].tolist() == [6, 3]
    assert table["right"].tolist() == [1, 1]
    assert table["average_precision"].tolist() == [1 / 3, 1 / 2]  # the third of all, the second of the known ones
    known = [0.9, 0.3, 0.6]  # distances of .9, .7 and .6 from 0, 1 and 0
    assert table["calibration_error"][1] == pytest.approx(sum(known) / 3)
    nothing = probability_table(Suggestions.of(best.assign(right=False), GROUP))
    assert nothing["average_precision"].isna().all()


def test_the_table_to_read_has_both_precisions(found):
    targets = targets_table(found, found, (0.5,), 0.9).assign(threshold=0.75)
    measured = targets.assign(**at_thresholds(found, [0.75]).loc[0])
    row = readable(measured.astype({"suggestions": int, "right": int, "unknown": int})).iloc[0]
    assert row["right on test"].endswith("] of 1")
    assert row["unknown"] == "1"
    assert row["right as marked"].startswith("50% [")
    assert row["right as marked"].endswith("] of 2")


def test_they_are_no_examples_of_wrong_ones(found, corpus):
    assert examples(found, corpus, None, right=False)["report"].tolist() == ["1005", "1006"]


def test_shares_of_nothing_are_not_numbers():
    table = shares("share", np.zeros((2, 1), dtype=bool), np.zeros((2, 1), dtype=bool), np.arange(2))
    assert list(table.columns) == ["share", "share_low", "share_high"]
    assert table.isna().all(axis=None)


def test_each_pair_is_listed_once_for_a_verdict():
    def pairs(*rows):
        return pd.DataFrame(rows, columns=["report", "suggested"])

    tables = {
        "wrong": pairs(("1", "0"), ("2", "0")),
        "unknown": pairs(("2", "0"), ("3", "0"), ("4", "0")).assign(why=SAME_TITLE),
        "right": pairs(("5", "0")),
    }
    listed = to_judge(tables, 2)
    assert list(listed.columns) == ["verdict", "marked", "report", "suggested"]
    assert listed["report"].tolist() == ["1", "2", "3", "5"]
    assert listed["marked"].tolist() == ["no", "no", "no", "yes"]
    assert set(listed["verdict"]) == {""}


def test_suggestions_are_read_as_they_were_written(tmp_path, found, corpus):
    val = Suggestions.of(found.best.head(2), GROUP)
    keep_suggestions(tmp_path, val, found, corpus)
    read_val, read_test, reports = read_suggestions(tmp_path, "mine")
    pd.testing.assert_frame_equal(read_test.best, found.best)
    pd.testing.assert_frame_equal(read_val.best, val.best)
    assert read_test.group.tolist() == GROUP.tolist()
    assert (read_val.duplicates, read_test.duplicates, reports.name) == (1, 1, "mine")
    assert reports.reports["title"].tolist() == TITLES


def test_damaged_suggestions_are_refused(tmp_path, found, corpus):
    keep_suggestions(tmp_path, found, found, corpus)
    reports = pd.read_parquet(tmp_path / "reports.parquet")
    reports.head(4).to_parquet(tmp_path / "reports.parquet")
    with pytest.raises(ValueError, match=r"suggestions.parquet is damaged: it names rows that reports.parquet"):
        read_suggestions(tmp_path, "mine")
    reports.drop(columns="title").to_parquet(tmp_path / "reports.parquet")
    with pytest.raises(ValueError, match=r"reports.parquet is damaged: it has no column 'title'"):
        read_suggestions(tmp_path, "mine")
