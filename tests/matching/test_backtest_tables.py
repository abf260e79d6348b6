"""Tables of a backtest, worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from gedbd.evaluation.significance import ratio_intervals
from gedbd.matching.backtest import (
    GRID,
    MOST_ROWS,
    WANTED,
    Suggestions,
    at_thresholds,
    calibration,
    magnets,
    promises,
    reliability,
    suggestions,
    tables_of,
    wrong_ones,
)
from gedbd.matching.confidence import SIGNALS, Confidence
from gedbd.matching.learn import Matching
from gedbd.matching.page import sections, summary

GROUP = np.array([0, 1, 2, 0, 1, 5, 2, 7, 0])
ROWS = [  # query, candidate, right, probability
    (3, 0, True, 0.9),
    (4, 0, False, 0.8),  # a duplicate of 1
    (5, 0, False, 0.8),
    (6, 2, True, 0.4),
    (7, 3, False, 0.3),
    (8, 3, True, 0.1),
]
CONFIDENCE = Confidence(np.eye(1, len(SIGNALS))[0], 0.0, np.array([0.0, 1.0]), np.array([0.0, 1.0]))


def found(rows, group=GROUP):
    best = pd.DataFrame(rows, columns=["query", "candidate", "right", "probability"]).astype({"right": bool})
    return Suggestions(best, int((group[best["query"]] < best["query"]).sum()), group)


def matching(threshold):
    return Matching({}, CONFIDENCE, threshold, 0.7)


def test_suggestions_are_the_best_matches_of_a_part():
    replayed = pd.DataFrame(0.0, index=range(4), columns=list(SIGNALS))
    replayed["score"] = [0.25, 0.1, 0.75, 0.5]
    replayed = replayed.assign(
        query=[4, 4, 8, 3], candidate=[0, 1, 3, 0], place=[1, 2, 1, 1], right=[False, True, True, True]
    ).assign(part=["test", "test", "test", "val"])
    mine = suggestions(replayed, matching(None), GROUP, "test")
    assert mine.best.values.tolist() == [[4, 0, False, 0.25], [8, 3, True, 0.75]]
    assert mine.duplicates == 2
    assert suggestions(replayed, matching(None), GROUP, "train").best.empty


def test_thresholds_by_hand():
    table = at_thresholds(found(ROWS), [0.05, 0.4, 0.8, 0.85, 0.95]).set_index("threshold")
    assert table["suggestions"].tolist() == [6, 4, 3, 1, 0]
    assert table["right"].tolist() == [3, 2, 1, 1, 0]
    assert table["precision"].tolist()[:4] == pytest.approx([3 / 6, 2 / 4, 1 / 3, 1])
    assert np.isnan(table["precision"][0.95])
    assert table["coverage"].tolist() == pytest.approx([3 / 4, 2 / 4, 1 / 4, 1 / 4, 0])
    assert table["bothered"].tolist() == pytest.approx([1, 4 / 6, 3 / 6, 1 / 6, 0])
    assert table.loc[0.85, ["precision_low", "precision_high"]].tolist() == pytest.approx([0.025, 1])
    assert np.isnan(table.loc[0.95, ["precision_low", "precision_high"]]).all()
    flagged, cluster = np.ones((6, 1), dtype=bool), np.array([0, 1, 5, 2, 7, 0])
    right = np.array([[True], [False], [False], [True], [False], [True]])
    low, high = ratio_intervals(right, flagged, cluster)
    assert table.loc[0.05, ["precision_low", "precision_high"]].tolist() == [low[0], high[0]]
    duplicate = np.array([True, True, False, True, False, True])[:, None]
    low, high = ratio_intervals(right, duplicate, cluster)
    assert table.loc[0.05, ["coverage_low", "coverage_high"]].tolist() == [low[0], high[0]]


def test_no_report_and_no_duplicate():
    nothing = at_thresholds(found([]), [0.5]).iloc[0]
    assert nothing["suggestions"] == nothing["bothered"] == 0
    assert np.isnan(nothing["coverage"])
    single = at_thresholds(found([(5, 0, False, 0.6)]), [0.5]).iloc[0]
    assert (single["suggestions"], single["precision"], single["bothered"]) == (1, 0, 1)
    assert np.isnan(single["coverage"])


def many(shares, start=100):
    """Suggestions at some probabilities, so many right and wrong, every report its own group but for the right ones."""
    rows, group = [], list(range(start))
    for probability, right, wrong in shares:
        for number in range(right + wrong):
            row = len(group)
            candidate = number % start
            group.append(candidate if number < right else row)
            rows.append((row, candidate, number < right, probability))
    return found(rows, np.array(group))


def test_promises_are_made_on_validation_and_kept_on_test():
    val, test = many([(0.9, 18, 2), (0.5, 12, 8), (0.2, 1, 40)]), many([(0.9, 17, 3), (0.5, 5, 27)])
    table = promises(val, test).set_index("wanted")
    # 18 of 20, 30 of 40, 31 of 81
    assert table["threshold"].tolist() == [0.5, 0.5, 0.5, 0.9, 0.9]
    assert table["validation precision"].tolist() == pytest.approx([0.75, 0.75, 0.75, 0.9, 0.9])
    assert table["validation suggestions"].tolist() == [40, 40, 40, 20, 20]
    assert table["suggestions"].tolist() == [52, 52, 52, 20, 20]
    assert table["precision"].tolist() == pytest.approx([22 / 52] * 3 + [0.85] * 2)
    assert table["kept"].tolist() == ["yes", "no", "no", "yes", "yes"]
    assert str(table["suggestions"].dtype) == "Int64"


def test_promises_that_nobody_makes_or_can_judge():
    table = promises(many([(0.9, 1, 40)]), many([(0.9, 5, 5)]))
    assert table["wanted"].tolist() == list(WANTED)
    assert table["threshold"].isna().all()
    assert list(table.columns) == ["wanted", "threshold"]
    val = many([(0.9, 20, 0)])
    assert promises(val, many([(0.1, 5, 5)]))["kept"].tolist() == [""] * 5
    one_group = found([(3, 0, False, 0.95), (8, 3, False, 0.95)])  # one group says next to nothing
    assert promises(val, one_group)["kept"].tolist() == ["yes"] * 5
    some = promises(many([(0.9, 11, 9)]), many([(0.9, 5, 5)]))
    assert some["threshold"].notna().tolist() == [True, False, False, False, False]
    assert some["suggestions"].isna().tolist() == [False, True, True, True, True]


def test_reliability_by_hand():
    table = reliability(found([*ROWS, (7, 1, True, 1.0)]))
    assert table["from"].tolist() == [0.1, 0.3, 0.4, 0.8, 0.9]
    assert table["to"].tolist() == pytest.approx([0.2, 0.4, 0.5, 0.9, 1.0])
    assert table["reports"].tolist() == [1, 1, 1, 2, 2]
    assert table["said"].tolist() == pytest.approx([0.1, 0.3, 0.4, 0.8, 0.95])
    assert table["right"].tolist() == [1, 0, 1, 0, 1]
    error = np.average((table["said"] - table["right"]).abs(), weights=table["reports"])
    assert calibration(found([*ROWS, (7, 1, True, 1.0)])) == pytest.approx(error)


def test_magnets_by_hand(make_corpus):
    corpus = make_corpus(GROUP)
    table = magnets(found([*ROWS, (8, 1, False, 0.6), (5, 4, False, 0.7), (6, 1, False, 0.2)]), corpus)
    # group 0 is first five times, right twice; group 1 three times, never, but less surely; group 2 once, and right
    assert table["issue_id"].tolist() == ["1000", "1001"]
    assert table[["first", "right"]].values.tolist() == [[5, 2], [3, 0]]
    assert table["highest"].tolist() == [0.8, 0.7]
    assert magnets(found(ROWS[:2]), corpus).empty


def test_the_worst_magnet_comes_first(make_corpus):
    rows = [(8, 0, False, 0.2)] * 2 + [(8, 1, False, 0.3)] * 4 + [(8, 2, False, 0.9)] * 2
    assert magnets(found(rows), make_corpus(GROUP))["issue_id"].tolist() == ["1001", "1002", "1000"]


def test_wrong_ones_by_hand(make_corpus):
    corpus = make_corpus(GROUP)
    corpus.reports["title"] = [f"title {row}" for row in range(9)]
    table = wrong_ones(found(ROWS), corpus, None)
    assert table["probability"].tolist() == [0.8, 0.8, 0.3]
    assert table["report"].tolist() == ["1004", "1005", "1007"]
    assert table["suggested"].tolist() == ["1000", "1000", "1003"]
    assert table["title of report"].tolist() == ["title 4", "title 5", "title 7"]
    assert table["title of suggested"].tolist() == ["title 0", "title 0", "title 3"]
    assert len(wrong_ones(found(ROWS), corpus, 0.8)) == 2
    assert wrong_ones(found(ROWS), corpus, 0.81).empty
    assert len(wrong_ones(found(ROWS[1:2] * 99), corpus, None)) == MOST_ROWS


@pytest.mark.parametrize("threshold", [None, 0.123456789, 0.5])
def test_all_tables_and_a_page(make_corpus, threshold):
    corpus, test = make_corpus(GROUP), found(ROWS)
    tables = tables_of(test, test, corpus, matching(threshold))
    assert len(tables["thresholds"]) == len(GRID) + (threshold == 0.123456789)
    assert threshold is None or threshold in tables["thresholds"]["threshold"].tolist()
    page = sections(tables, matching(threshold), 0.25)
    assert [len(section.tables) for section in page] == [1, 1, 1, 1, 1]
    assert "error on test is 0.250" in page[2].text
    assert set(page[1].tables[0]["threshold"]) == set(np.round(np.arange(1, 10) / 10, 1)) | {threshold} - {None}


def row_at(test, threshold):
    return at_thresholds(test, [threshold]).iloc[0]


def test_the_summary_says_what_was_found():
    test, val = found(ROWS), found(ROWS[:4])
    start = (
        "Only 3 duplicates to choose by: take no number at its word."
        " 6 reports were replayed in the order in which they came, 4 of them duplicates of an earlier one;"
        " the best match was right for 3 of these."
    )
    assert summary(val, test, None, matching(None)) == (
        f"{start} At no threshold were 70% of the suggestions right on the validation part:"
        " gedbd advises against suggesting anything unasked. Searching by hand is another matter."
    )
    at = row_at(test, 0.4)
    said = summary(val, test, at, matching(0.4))
    assert said.startswith(
        f"{start} To be right in 70% of its suggestions, gedbd recommends the threshold 0.400, chosen"
    )
    assert (
        "chosen on the 4 reports before. It then makes 4 suggestions (66.7% of the reports), 2 of them right: 50% ["
        in said
    )
    assert said.endswith("They cover 50% of the duplicates.")
    assert "2 of them" not in summary(val, test, row_at(test, 0.95), matching(0.95))
    assert summary(val, test, row_at(test, 0.95), matching(0.95)).endswith("On test there was no suggestion at all.")
    alone = summary(val, test, row_at(test, 0.85), matching(0.85))
    assert "1 of them right: 100% [3%, 100%]. They cover 25%" in alone
