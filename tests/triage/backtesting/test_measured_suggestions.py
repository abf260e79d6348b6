"""Tables of a backtest and its page, worked out by hand; also of matches that are unknown."""

import numpy as np
import pandas as pd
import pytest
from small_tracker import CONFIDENCE, RANKER

from gedbd.evaluation.result_tables import right_and_wrong
from gedbd.evaluation.significance import ratio_intervals
from gedbd.evaluation.thresholds import TargetResult
from gedbd.triage.backtesting.history_replay import SAME_TITLE, UNNAMED_ORIGINAL, unknown_reasons
from gedbd.triage.backtesting.measured_suggestions import (
    GRID,
    MAX_ROWS,
    TARGETS,
    Backtest,
    Suggestions,
    at_thresholds,
    examples,
    hubs,
    keep_suggestions,
    probability_table,
    read_suggestions,
    reliability,
    search_table,
    tables_of,
    target_results,
    targets_table,
    to_judge,
    unknown_table,
)
from gedbd.triage.backtesting.suggestions_page import (
    fill_targets,
    next_step,
    readable,
    readable_search,
    search_sentence,
    sections,
    summary,
    targets_markdown,
    unknown_sentence,
)
from gedbd.triage.triage_model import TriageModel, calibration_error

GROUP = np.array([0, 1, 2, 0, 1, 5, 2, 7, 0])
ROWS = [  # query, candidate, right, probability
    (3, 0, True, 0.9),
    (4, 0, False, 0.8),  # a duplicate of 1
    (5, 0, False, 0.8),
    (6, 2, True, 0.4),
    (7, 3, False, 0.3),
    (8, 3, True, 0.1),
]


COLUMNS = ("query", "place", "candidate", "right", "rank", "unknown", "probability")
MATCHES = pd.DataFrame(
    [
        (4, 1, 0, False, 2, False, 0.25),
        (4, 2, 1, True, 2, True, 0.125),
        (6, 1, 0, False, 4, False, 0.5),
        (6, 2, 1, False, 4, True, 0.25),
        (6, 3, 3, False, 4, False, 0.125),
        (6, 4, 4, True, 4, False, 0.0625),
        (8, 1, 3, True, 1, False, 0.75),
        (8, 2, 0, False, 1, False, 0.5),
    ],
    columns=list(COLUMNS),
)


def found(rows, group=GROUP):
    best = pd.DataFrame(rows, columns=["query", "candidate", "right", "probability"]).astype({"right": bool})
    best["rank"] = best["right"].astype(int)  # 1 or 0: no other match than the best one is right
    best["unknown"] = ""
    return Suggestions(best, group)


def backtest(val, test, corpus, target):
    """A backtest with one precision target."""
    targets = targets_table(val, test, TARGETS, 0.9)
    tables = {"targets": targets, "lists": targets} | tables_of(test, corpus, target.threshold)
    matching = TriageModel(RANKER, CONFIDENCE, (target,), target.target_precision)
    return Backtest(matching, pd.DataFrame(), val, test, tables)


def test_suggestions_are_the_best_matches_of_a_part(make_corpus):
    mine = Suggestions.of_part(MATCHES, make_corpus(GROUP))
    assert mine.best.values.tolist() == [
        [4, 0, False, 2, "", 0.25],
        [6, 0, False, 4, "", 0.5],
        [8, 3, True, 1, "", 0.75],
    ]
    assert Suggestions.of_part(MATCHES[:0], make_corpus(GROUP)).best.empty


def test_a_list_is_right_if_one_of_its_three_matches_is():
    lists = Suggestions.lists(MATCHES, GROUP)
    # 4: 0.25 + 0.125, the second is right; 6: 0.5 + 0.25 + 0.125 without the fourth, one is unknown; 8: at most 1
    assert lists.best["query"].tolist() == [4, 6, 8]
    assert lists.best["probability"].tolist() == [0.375, 0.875, 1.0]
    assert lists.best["right"].tolist() == [True, False, True]
    assert lists.is_known.tolist() == [True, False, True]


def test_what_a_search_finds_by_hand():
    test = found(ROWS)
    test.best["rank"] = [1, 10, 0, 5, 0, 11]  # (5, 0) and (7, 3) are no duplicates
    table = search_table(test).set_index("first")
    assert table["found"].to_dict() == {1: 1, 5: 2, 10: 3}
    assert table["duplicates"].tolist() == [4] * 3
    assert table["share"].tolist() == [0.25, 0.5, 0.75]
    assert (table["share_low"] < table["share"]).all()
    assert search_sentence(search_table(test)).startswith("The best match was right for 1 (25% [")
    assert readable_search(search_table(test))["matches looked at"].tolist() == ["the first", "first 5", "first 10"]
    nothing = search_table(found([(5, 0, False, 0.6)]))
    assert (nothing["duplicates"].tolist(), nothing["found"].tolist()) == ([0] * 3, [0] * 3)
    assert search_sentence(nothing) == ""
    assert readable_search(nothing).empty


def test_thresholds_by_hand():
    table = at_thresholds(found(ROWS), [0.05, 0.4, 0.8, 0.85, 0.95]).set_index("threshold")
    assert table["suggestions"].tolist() == [6, 4, 3, 1, 0]
    assert table["right"].tolist() == [3, 2, 1, 1, 0]
    assert table["precision"].tolist()[:4] == pytest.approx([3 / 6, 2 / 4, 1 / 3, 1])
    assert np.isnan(table["precision"][0.95])
    assert table["coverage"].tolist() == pytest.approx([3 / 4, 2 / 4, 1 / 4, 1 / 4, 0])
    assert table["suggestion_rate"].tolist() == pytest.approx([1, 4 / 6, 3 / 6, 1 / 6, 0])
    assert table.loc[0.85, ["precision_low", "precision_high"]].tolist() == pytest.approx([0.025, 1])
    assert np.isnan(table.loc[0.95, ["precision_low", "precision_high"]]).all()
    flagged, cluster = np.ones((6, 1), dtype=bool), np.array([0, 1, 5, 2, 7, 0])
    right = np.array([[True], [False], [False], [True], [False], [True]])
    low, high = ratio_intervals(right, flagged, cluster)
    assert table.loc[0.05, ["precision_low", "precision_high"]].tolist() == [low[0], high[0]]
    duplicate = np.array([True, True, False, True, False, True])[:, None]
    low, high = ratio_intervals(right, duplicate, cluster)
    assert table.loc[0.05, ["coverage_low", "coverage_high"]].tolist() == [low[0], high[0]]
    nothing = at_thresholds(found([]), [0.5]).iloc[0]
    assert nothing["suggestions"] == nothing["suggestion_rate"] == 0
    assert np.isnan(nothing["coverage"])


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


def test_targets_by_hand():
    val, test = many([(0.9, 58, 2), (0.5, 50, 32), (0.2, 1, 40)]), many([(0.9, 51, 9), (0.5, 2, 30)])
    table = targets_table(val, test, (*TARGETS[:4], 0.95), 0.9).set_index("target")
    # at least, with a confidence of .9: 58 of 60, .91; 108 of 142, .69, as 50 groups count once for two suggestions;
    # 109 of 183, .54
    assert table["threshold"].tolist()[:4] == [0.2, 0.5, 0.9, 0.9]
    assert np.isnan(table["threshold"][0.95])
    assert table["validation_suggestions"].tolist() == [183, 142, 60, 60, 0]
    assert table["validation_precision"].tolist()[:4] == pytest.approx([109 / 183, 108 / 142, 58 / 60, 58 / 60])
    assert table["suggestions"].tolist() == [92, 92, 60, 60, 0]
    assert table["precision"].tolist()[:4] == pytest.approx([53 / 92] * 2 + [0.85] * 2)
    # 53 of 92 lie between .47 and .68, 51 of 60 between .73 and .93
    assert table["status"].tolist() == ["inconclusive", "inconclusive", "met", "inconclusive", "no threshold"]
    assert readable(table.reset_index()).iloc[4].tolist() == ["95%", "none", *[""] * 6, "no threshold"]


def test_without_a_threshold_there_is_a_verdict_all_the_same():
    table = targets_table(many([(0.9, 1, 40)]), many([(0.9, 5, 5)]), TARGETS, 0.9)
    assert table["status"].tolist() == ["too few duplicates"] * 5
    assert list(readable(table).columns) == ["target", "threshold", "status"]
    # the only duplicate of the validation part is the one that was found
    assert readable(table)["status"].tolist()[0] == "too few duplicates: 1, at least 8 needed"
    table = targets_table(many([(0.9, 8, 40)]), many([(0.9, 5, 5)]), (0.5, 0.6), 0.9)
    assert table["status"].tolist() == ["no threshold", "too few duplicates"]


def test_results_are_kept_with_the_days_of_the_test_part():
    test = many([(0.9, 48, 12)])
    table = targets_table(many([(0.9, 58, 2)]), test, (0.8, 0.99), 0.9)
    dates = pd.Series(pd.to_datetime(["2024-02-01", "2024-01-01"], utc=True))
    first, second = target_results(table, dates)
    low, high = table.loc[0, ["precision_low", "precision_high"]]
    assert first == TargetResult(0.8, 0.9, "inconclusive", 60, 48, 0.8, low, high, "2024-01-01", "2024-02-01")
    assert second == TargetResult(0.99, None, "too few duplicates", first="2024-01-01", last="2024-02-01")
    assert target_results(table, dates[:0])[0].first is None


def test_reliability_by_hand():
    best = found([*ROWS, (7, 1, True, 1.0)]).best
    table = reliability(best)
    assert table["from"].tolist() == [0.1, 0.3, 0.4, 0.8, 0.9]
    assert table["to"].tolist() == pytest.approx([0.2, 0.4, 0.5, 0.9, 1.0])
    assert table["reports"].tolist() == [1, 1, 1, 2, 2]
    assert table["predicted"].tolist() == pytest.approx([0.1, 0.3, 0.4, 0.8, 0.95])
    assert table["right"].tolist() == [1, 0, 1, 0, 1]
    error = np.average((table["predicted"] - table["right"]).abs(), weights=table["reports"])
    measured = calibration_error(best["probability"].to_numpy(), best["right"].to_numpy())
    assert measured == pytest.approx(error)


def test_hubs_by_hand(make_corpus):
    corpus = make_corpus(GROUP)
    table = hubs(found([*ROWS, (8, 1, False, 0.6), (5, 4, False, 0.7), (6, 1, False, 0.2)]), corpus)
    # group 0 is first five times, right twice; group 1 three times, never, but less surely; group 2 once, and right
    assert table["id"].tolist() == ["1000", "1001"]
    assert table[["first", "right"]].values.tolist() == [[5, 2], [3, 0]]
    assert table["highest"].tolist() == [0.8, 0.7]
    assert hubs(found(ROWS[:2]), corpus).empty
    rows = [(8, 0, False, 0.2)] * 2 + [(8, 1, False, 0.3)] * 4 + [(8, 2, False, 0.9)] * 2
    assert hubs(found(rows), corpus)["id"].tolist() == ["1001", "1002", "1000"]  # the worst comes first


def test_examples_by_hand(make_corpus):
    corpus = make_corpus(GROUP)
    corpus.reports["title"] = [f"title {row}" for row in range(9)]
    table = examples(found(ROWS), corpus, None, right=False)
    assert table["probability"].tolist() == [0.8, 0.8, 0.3]
    assert table["report"].tolist() == ["1004", "1005", "1007"]
    assert table["suggested"].tolist() == ["1000", "1000", "1003"]
    assert table["title of report"].tolist() == ["title 4", "title 5", "title 7"]
    assert table["title of suggested"].tolist() == ["title 0", "title 0", "title 3"]
    assert len(examples(found(ROWS), corpus, 0.8, right=False)) == 2
    assert examples(found(ROWS), corpus, 0.81, right=False).empty
    assert len(examples(found(ROWS[1:2] * 99), corpus, None, right=False)) == MAX_ROWS
    assert len(examples(found(ROWS[1:2] * 99), corpus, None, right=False, max_rows=50)) == 50
    right = examples(found(ROWS), corpus, None, right=True)
    assert right["report"].tolist() == ["1003", "1006", "1008"]
    beside = right_and_wrong(right, table, "suggestion", by="probability")
    assert beside["report"].tolist() == ["1003", "1004", "1005", "1006", "1007", "1008"]
    assert beside["suggestion"].tolist() == ["right", "wrong", "wrong", "right", "wrong", "right"]


MET = TargetResult(0.5, 0.5, "met", 30, 22, 22 / 30, 0.56, 0.89, "2017-03-01", "2018-02-01")
NONE = TargetResult(0.7, None, "no threshold")


@pytest.mark.parametrize("threshold", [None, 0.123456789, 0.5])
def test_all_tables_and_a_page(make_corpus, threshold):
    corpus, test = make_corpus(GROUP), found(ROWS)
    target = NONE if threshold is None else TargetResult(0.5, threshold, "missed", 4, 1, 0.25, 0.1, 0.4)
    made = backtest(test, test, corpus, target)
    assert len(made.tables["thresholds"]) == len(GRID) + (threshold == 0.123456789)
    assert threshold is None or threshold in made.tables["thresholds"]["threshold"].tolist()
    page = sections(made, 20, "judge")
    assert [section.title for section in page] == [
        "Which precision targets are met?",
        "What would lists of three gain?",
        "Does a search find the duplicate?",
        "Precision and coverage",
        "Are the probabilities calibrated?",
        "Hubs",
        "Unknown matches",
        "Right and wrong suggestions",
    ]
    assert "error on test is 0.583" in page[4].text
    assert set(page[3].tables[0]["threshold"]) == set(np.round(np.arange(1, 10) / 10, 1)) | {threshold} - {None}
    text, command = next_step(made.matching, "outputs/run")
    assert "nothing is suggested automatically" in text
    assert command == "gedbd index run=outputs/run out=my-index"
    assert unknown_sentence(made) == ""


def test_the_summary_says_what_was_measured(make_corpus):
    text = summary(backtest(found(ROWS[:4]), found(ROWS), make_corpus(GROUP), MET))
    for part in (
        "validation split has only 3 duplicates",
        "6 reports were replayed in chronological order, 4 of them duplicates",
        "The best match was right for 3 (75% [11%, 100%]) of them",
        "the threshold is 0.500, chosen on the 4 reports before them",
        "Targets met: 0.5.",
    ):
        assert part in text


def test_a_file_gets_the_table(make_corpus):
    val, test = many([(0.9, 58, 2)]), many([(0.9, 48, 12)])
    made = backtest(val, test, make_corpus(np.arange(300)), MET)
    assert "then suggests duplicates automatically" in next_step(made.matching, "run")[0]
    table = targets_markdown("mine", made)
    lines = table.splitlines()
    assert lines[0] == (
        "| mine: newest 60 reports, 48 duplicates; target | threshold | right on validation | right on test"
        " | unknown | right as marked | coverage | suggestion rate | status |"
    )
    assert lines[2].startswith("| 50% | 0.900 | 97% of 60 | 80% [")
    assert "] of 60 | 0 | 80% [" in lines[2]
    assert lines[2].endswith("] of 60 | 100.0% | 100.0% | met |")
    rest = " between <!-- backtest: other --> x <!-- end -->"
    text = f"before <!-- backtest: mine --> old <!-- end -->{rest}"
    assert fill_targets(text, "mine", table) == f"before <!-- backtest: mine -->\n{table}\n<!-- end -->{rest}"
    with pytest.raises(ValueError, match="the file to fill has no <!-- backtest: third -->"):
        fill_targets(text, "third", table)


UNKNOWN_GROUP = np.array([0, 1, 2, 0, 4, 5, 6, 7, 8])
TITLES = ["Crash", "Template", "", "crash ", " TEMPLATE", "Template  x", "", "Template x", "Freeze"]
UNKNOWN_ROWS = [  # query, candidate, right, probability
    (3, 0, True, 0.9),  # the same title, but marked
    (4, 1, False, 0.8),  # the same title
    (5, 1, False, 0.7),
    (6, 2, False, 0.6),  # empty titles
    (7, 5, False, 0.5),  # the same title but for white space
    (8, 0, False, 0.4),  # closed as a duplicate of nothing that is named
]


@pytest.fixture
def titled(make_corpus):
    made = make_corpus(UNKNOWN_GROUP)
    made.reports["title"] = TITLES
    made.reports["url"] = [f"https://b.org/{row}" for row in range(9)]
    # 3 is a marked duplicate, 0 the original of one.
    made.reports["resolution"] = ["Duplicate", "", "", "DUPLICATE", "Fixed", "", "", "", "RESOLVED DUPLICATE"]
    return made


@pytest.fixture
def unknown(titled):
    best = pd.DataFrame(UNKNOWN_ROWS, columns=["query", "candidate", "right", "probability"])
    best["rank"] = best["right"].astype(int)
    return Suggestions(best.assign(unknown=unknown_reasons(best, titled)), UNKNOWN_GROUP)


def test_case_and_white_space_do_not_count_and_an_empty_title_is_no_title(unknown, titled):
    assert unknown.best["unknown"].tolist() == ["", SAME_TITLE, "", "", SAME_TITLE, UNNAMED_ORIGINAL]
    table = unknown_table(unknown, titled)
    assert table["report"].tolist() == ["1004", "1007", "1008"]
    assert table["suggested"].tolist() == ["1001", "1005", "1000"]
    assert table["probability"].tolist() == [0.8, 0.5, 0.4]
    assert table["why"].tolist() == [SAME_TITLE, SAME_TITLE, UNNAMED_ORIGINAL]
    assert examples(unknown, titled, None, right=False)["report"].tolist() == ["1005", "1006"]
    # Report 0 is closed as a duplicate too; a later report is marked as its duplicate, so its original is known.
    matches = pd.DataFrame({"query": [0], "candidate": [1], "right": [False]})
    assert unknown_reasons(matches, titled).tolist() == [""]


def test_precision_does_not_count_them(unknown):
    table = at_thresholds(unknown, [0.75, 0.5, np.nan])
    # from 0.75: right, same title; from 0.5: one right of five, two of which do not count
    assert table["suggestions"].tolist() == [1, 3, 0]
    assert table["right"].tolist() == [1, 1, 0]
    assert table["unknown"].tolist() == [1, 2, 0]
    assert table["precision"].tolist()[:2] == [1 / 1, 1 / 3]
    assert table["precision_as_marked"].tolist()[:2] == [1 / 2, 1 / 5]
    assert table["suggestion_rate"].tolist() == [2 / 6, 5 / 6, 0]
    assert np.isnan(table.loc[2, ["precision", "precision_as_marked"]]).all()
    read = readable(targets_table(unknown, unknown, (0.5,), 0.9).assign(**table.iloc[[0]]))
    assert read["right on test"][0].endswith("] of 1")
    assert read["right as marked"][0].startswith("50% [")
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
        made = Suggestions(one, group)
        row = targets_table(made, made, (0.8,), 0.9).iloc[0]
        assert (None if np.isnan(row["threshold"]) else row["threshold"]) == threshold
        assert row["status"] == status
    (target,) = target_results(targets_table(made, made, (0.8,), 0.9), pd.Series([], dtype=object))
    assert (target.suggestions, target.right, target.unknown) == (40, 40, 20)
    assert target.evidence.endswith("were right; 20 more are not counted, as nobody knows whether they are.")


def test_probabilities_are_measured_with_and_without_them(unknown):
    best = unknown.best.assign(right=[False, False, True, False, False, False])
    table = probability_table(Suggestions(best, UNKNOWN_GROUP))
    assert table["counted"].tolist() == ["as marked", "without unknown"]
    assert table["matches"].tolist() == [6, 3]
    assert table["right"].tolist() == [1, 1]
    assert table["average_precision"].tolist() == [1 / 3, 1 / 2]  # the third of all, the second of the known ones
    known = [0.9, 0.3, 0.6]  # distances of .9, .7 and .6 from 0, 1 and 0
    assert table["calibration_error"][1] == pytest.approx(sum(known) / 3)
    nothing = probability_table(Suggestions(best.assign(right=False), UNKNOWN_GROUP))
    assert nothing["average_precision"].isna().all()


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


def test_suggestions_are_read_as_they_were_written(tmp_path, unknown, titled):
    val = Suggestions(unknown.best.head(2), UNKNOWN_GROUP)
    keep_suggestions(tmp_path, val, unknown, titled)
    read_val, read_test, reports = read_suggestions(tmp_path, "mine")
    pd.testing.assert_frame_equal(read_test.best, unknown.best)
    pd.testing.assert_frame_equal(read_val.best, val.best)
    assert read_test.group.tolist() == UNKNOWN_GROUP.tolist()
    assert (read_val.duplicates, read_test.duplicates, reports.name) == (1, 1, "mine")
    assert reports.reports["title"].tolist() == TITLES
    kept = pd.read_parquet(tmp_path / "reports.parquet")
    for damaged, message in (
        (kept.head(4), "suggestions.parquet is damaged: it names rows that reports.parquet"),
        (kept.drop(columns="title"), "reports.parquet is damaged: it has no column 'title'"),
    ):
        damaged.to_parquet(tmp_path / "reports.parquet")
        with pytest.raises(ValueError, match=message):
            read_suggestions(tmp_path, "mine")
