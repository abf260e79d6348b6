"""Unmarked pairs with the same title, and the precision without them, worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from gedbd.evaluation.significance import ratio_intervals
from gedbd.triage.backtesting.backtest_measures import at_thresholds, targets_table
from gedbd.triage.backtesting.backtest_page import readable
from gedbd.triage.backtesting.suggestions import (
    Suggestions,
    keep_suggestions,
    read_suggestions,
    same_title_table,
    shares,
    to_judge,
    unmarked_same_titles,
    with_same_titles,
)

GROUP = np.array([0, 1, 2, 0, 4, 5, 6, 7])
TITLES = ["Crash", "Template", "", "crash ", " TEMPLATE", "Template  x", "", "Template x"]
ROWS = [  # query, candidate, right, probability
    (3, 0, True, 0.9),  # the same title, but marked
    (4, 1, False, 0.8),  # the same title
    (5, 1, False, 0.7),
    (6, 2, False, 0.6),  # empty titles
    (7, 5, False, 0.5),  # the same title but for white space
]


@pytest.fixture
def corpus(make_corpus):
    made = make_corpus(GROUP)
    made.reports["title"] = TITLES
    made.reports["url"] = [f"https://b.org/{row}" for row in range(8)]
    return made


@pytest.fixture
def found():
    best = pd.DataFrame(ROWS, columns=["query", "candidate", "right", "probability"])
    best["rank"] = best["right"].astype(int)
    return Suggestions.of(best, GROUP)


def test_case_and_white_space_do_not_count_and_an_empty_title_is_no_title(found, corpus):
    assert unmarked_same_titles(found, corpus).tolist() == [False, True, False, False, True]
    table = same_title_table(found, corpus)
    assert table["report"].tolist() == ["1004", "1007"]
    assert table["suggested"].tolist() == ["1001", "1005"]
    assert table["probability"].tolist() == [0.8, 0.5]


def test_the_precision_without_them_leaves_all_other_numbers_as_they_are(found, corpus):
    targets = at_thresholds(found, [0.75, 0.5, np.nan])
    table = with_same_titles(targets, found, corpus)
    pd.testing.assert_frame_equal(table[targets.columns], targets)
    assert table["same_title"].tolist() == [1, 2, 0]
    # from 0.75: right, same title; from 0.5: one right of five, two of which do not count
    assert table["precision"].tolist()[:2] == [1 / 2, 1 / 5]
    assert table["precision_without_same_title"].tolist()[:2] == [1 / 1, 1 / 3]
    assert np.isnan(table["precision_without_same_title"][2])
    kept = np.array([[True], [False], [False]])
    low, high = ratio_intervals(kept, np.ones((3, 1), dtype=bool), np.array([0, 5, 6]))
    ends = table.loc[1, ["precision_without_same_title_low", "precision_without_same_title_high"]]
    assert ends.tolist() == [low[0], high[0]]


def test_the_table_to_read_has_both_precisions(found, corpus):
    targets = targets_table(found, found, (0.5,), 0.9).assign(threshold=0.75)
    measured = with_same_titles(targets.assign(**at_thresholds(found, [0.75]).loc[0]), found, corpus)
    row = readable(measured.astype({"suggestions": int, "right": int})).iloc[0]
    assert row["right on test"].startswith("50% [")
    assert row["right on test"].endswith("] of 2")
    assert row["same title, not marked"] == "1"
    assert row["right without those"].endswith("] of 1")


def test_shares_of_nothing_are_not_numbers():
    table = shares("share", np.zeros((2, 1), dtype=bool), np.zeros((2, 1), dtype=bool), np.arange(2))
    assert list(table.columns) == ["share", "share_low", "share_high"]
    assert table.isna().all(axis=None)


def test_each_pair_is_listed_once_for_a_verdict():
    def pairs(*rows):
        return pd.DataFrame(rows, columns=["report", "suggested"])

    tables = {
        "wrong": pairs(("1", "0"), ("2", "0")),
        "same_title": pairs(("2", "0"), ("3", "0"), ("4", "0")),
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
