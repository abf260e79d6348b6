"""Verdicts of people: the file that holds them, and the precision with them, worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.corpus import TEST, TRAIN, VAL
from gedbd.evaluation.significance import ratio_intervals
from gedbd.experiments.report.judging import Verdict
from gedbd.triage.backtesting.backtest_run import joined_groups, verdicts_of, with_judgements
from gedbd.triage.backtesting.judgements import find_judgements, joined, read_judgements, with_accepted
from gedbd.triage.backtesting.measured_suggestions import Suggestions, at_thresholds

GROUP = np.array([0, 1, 2, 0, 4, 5, 6, 7])
ROWS = [  # query, candidate, right, probability
    (3, 0, True, 0.9),
    (4, 1, False, 0.8),
    (5, 4, False, 0.7),
    (6, 2, False, 0.6),
    (7, 3, False, 0.5),
]
HEAD = "report,suggested,verdict,date\n"


@pytest.fixture
def found():
    best = pd.DataFrame(ROWS, columns=["query", "candidate", "right", "probability"]).assign(unknown="")
    return Suggestions(best, GROUP)


def write(tmp_path, text, name="judgements.csv", encoding="utf-8"):
    file = tmp_path / name
    file.write_text(text, encoding=encoding)
    return file


def test_a_downloaded_file_is_read(tmp_path):
    text = f"{HEAD}1003,1000,accept,2026-11-23T09:30:00.000Z\n1004,1001,reject,\n'=1,'+2,accept,\n1003,1000,accept,\n"
    read = read_judgements(write(tmp_path, text))
    assert list(read.verdicts.values()) == [
        Verdict("1003", "1000", "accept", "2026-11-23T09:30:00.000Z"),
        Verdict("1004", "1001", "reject"),
        Verdict("=1", "+2", "accept"),
    ]
    assert list(read.lines.values()) == [2, 3, 4]


@pytest.mark.parametrize(
    ("separator", "encoding"), [(",", "utf-8"), (";", "utf-8-sig"), ("\t", "utf-16"), (";", "cp1252")]
)
def test_a_file_that_a_spreadsheet_has_saved_is_read(tmp_path, separator, encoding):
    rows = [
        ["verdict", "marked", "probability", "report", "title of report", "suggested", "date"],
        ["Accept ", "no", "0,5", "1003", '"Größe\nzu klein"', "1000", "23.11.2026 09:30"],
        ["", "no", "0,5", "1004", "x", "1001", ""],
    ]
    text = "\n".join(separator.join(f'"{cell}"' if "," in cell else cell for cell in row) for row in rows)
    read = read_judgements(write(tmp_path, text, encoding=encoding))
    assert list(read.verdicts.values()) == [Verdict("1003", "1000", "accept")]  # a date that is not ours is not kept


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "report,suggested\n1,2\n",
            r"judgements.csv, row 1: there is no column 'verdict'; required columns: report, suggested",
        ),
        (f"{HEAD}1,2,yes,\n", r"judgements.csv, row 2: the verdict is 'yes': write accept, reject, unclear or nothing"),
        (
            f"{HEAD}1,2,accept,\n3,2,reject,\n1,2,reject,\n",
            r"row 4: reject for report 1 and 2, but row 2 has accept: keep one of them",
        ),
        ("a\n1\n", r"judgements.csv is not a CSV file with the columns report, suggested, verdict"),
        ("", r"row 1: there is no column 'report'"),
        ("ab cd\n", r"judgements.csv is not a CSV file with the columns report, suggested, verdict"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_judgements(write(tmp_path, text))


def test_the_downloaded_file_comes_before_the_one_filled_by_hand(tmp_path):
    with pytest.raises(
        ValueError, match=r"has neither judgements.csv nor to_judge.csv: set file= to the file of verdicts"
    ):
        find_judgements(tmp_path, None)
    with pytest.raises(ValueError, match=r"^file=.*nowhere.csv: no such file"):
        find_judgements(tmp_path, tmp_path / "nowhere.csv")
    by_hand = write(tmp_path, f"{HEAD}1,2,,\n", "to_judge.csv")
    with pytest.raises(ValueError, match=r"to_judge.csv holds no verdict: give verdicts on the page"):
        find_judgements(tmp_path, None)
    write(tmp_path, f"{HEAD}1,2,accept,\n", "to_judge.csv")
    assert find_judgements(tmp_path, None).file == by_hand
    downloaded = write(tmp_path, f"{HEAD}1,2,reject,\n")
    read = find_judgements(tmp_path, None)
    assert (read.file, read.verdicts["1", "2"].verdict) == (downloaded, "reject")
    assert read.warnings == ("verdicts in to_judge.csv ignored because the folder has a judgements.csv: 1",)
    assert find_judgements(tmp_path, by_hand).verdicts["1", "2"].verdict == "accept"


def test_the_verdicts_of_two_people_are_joined_with_their_agreement(tmp_path):
    mine = f"{HEAD}1,0,accept,\n2,0,accept,\n3,0,reject,\n4,0,reject,\n5,0,accept,\n"
    theirs = f"{HEAD}1,0,accept,\n2,0,reject,\n3,0,reject,\n4,0,reject,\n6,0,reject,\n"
    first, second = (
        read_judgements(write(tmp_path, text, name)) for name, text in (("a.csv", mine), ("b.csv", theirs))
    )
    both = joined(first, second)
    verdicts = {pair[0]: one.verdict for pair, one in both.verdicts.items()}
    assert verdicts == {"1": "accept", "3": "reject", "4": "reject", "5": "accept", "6": "reject"}
    # 3 of 4 agree; by chance 1/2 * 1/4 + 1/2 * 3/4 = 1/2 would: kappa (3/4 - 1/2) / (1/2).
    (text,) = both.warnings
    assert text.startswith(
        "Both people judged 4 pairs and agree on 3 of them (75%, kappa 0.50); the other 1 count as marked"
    )
    same = joined(first, first)
    assert same.verdicts == first.verdicts
    assert "(100%, kappa 1.00)" in same.warnings[0]
    unsure = read_judgements(write(tmp_path, f"{HEAD}1,0,Unclear,\n2,0,accept,\n3,0,reject,\n4,0,reject,\n", "e.csv"))
    # 3 of 4 agree; by chance 1/2 * 1/4 + 1/2 * 1/2 + 0 * 1/4 = 3/8 would: kappa (3/4 - 3/8) / (5/8).
    assert "(75%, kappa 0.60); the other 1" in joined(first, unsure).warnings[0]
    alone = read_judgements(write(tmp_path, f"{HEAD}9,0,accept,\n", "c.csv"))
    assert joined(first, alone).warnings == ("a.csv and c.csv have no pair in common: their agreement is unknown",)
    assert joined(alone, alone).warnings[0].endswith("(100%); the other 0 count as marked")
    with pytest.raises(ValueError, match="holds no verdict"):
        joined(alone, read_judgements(write(tmp_path, f"{HEAD}9,0,reject,\n", "d.csv")))


def test_verdicts_on_other_pairs_are_counted_and_left_out(tmp_path, found, make_corpus):
    corpus = make_corpus(GROUP)
    file = write(tmp_path, f"{HEAD}99,77,accept,\n1004,1001,accept,\n1005,1001,reject,\n1003,1000,reject,\n")
    verdict, warnings = verdicts_of(read_judgements(file), found, corpus)
    np.testing.assert_array_equal(verdict, [0, 1, np.nan, np.nan, np.nan])
    assert warnings == (
        "verdicts on pairs that are not suggestions of this backtest: 2, left out (first: row 2, 99 and 77)",
    )
    with pytest.raises(ValueError, match="none of its pairs is a suggestion of this backtest; is the file from"):
        verdicts_of(read_judgements(write(tmp_path, f"{HEAD}99,77,accept,\n")), found, corpus)


def test_accepted_pairs_before_the_test_part_are_learnt(tmp_path, make_corpus):
    corpus = make_corpus(GROUP)  # reports 1000 to 1007; 3 is a duplicate of 0
    parts = np.array([TRAIN] * 5 + [VAL, TEST, TEST])
    rows = "1004,1001,accept,\n1005,1003,accept,\n1002,1001,reject,\n1007,1002,accept,\n99,1000,accept,\n"
    learnt, text = with_accepted(corpus, parts, write(tmp_path, HEAD + rows))
    np.testing.assert_array_equal(learnt.group, [0, 1, 2, 0, 1, 0, 6, 7])
    np.testing.assert_array_equal(corpus.group, GROUP)
    assert "5 verdicts, 4 of them accepted; 2 accepted pairs are used for training, 1 are left out" in text
    assert text.endswith("1 as a report is unknown")
    with pytest.raises(ValueError, match="holds no verdict"):
        with_accepted(corpus, parts, write(tmp_path, HEAD, "empty.csv"))


def test_accepted_counts_as_right_rejected_as_wrong_and_the_rest_as_marked(found):
    targets = at_thresholds(found, [0.75, 0.55, np.nan])
    verdict = np.array([0, 1, 1, np.nan, 1])
    table = with_judgements(targets, found, verdict)
    pd.testing.assert_frame_equal(table[targets.columns], targets)
    assert table["precision"].tolist()[:2] == [1 / 2, 1 / 4]
    assert table["precision_with_judgements"].tolist()[:2] == [1 / 2, 2 / 4]  # the marked one is rejected
    assert table["judgements"].tolist() == [2, 3, 0]
    assert table["judgements_marked"].tolist() == [1, 1, 0]
    # 4 joins group 1, and 5 joins 4, so also group 1
    right = np.array([[False], [True], [True], [False]])
    low, high = ratio_intervals(right, np.ones((4, 1), dtype=bool), np.array([0, 1, 1, 6]))
    ends = table.loc[1, ["precision_with_judgements_low", "precision_with_judgements_high"]]
    assert ends.tolist() == [low[0], high[0]]
    assert joined_groups(found, verdict).tolist() == [0, 1, 2, 0, 1, 1, 6, 0]
