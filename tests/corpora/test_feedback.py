"""Feedback of people: the file that keeps it, and the labels that training reads from it."""

import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.bug_report import Report
from gedbd.corpora.feedback import COLUMNS, FEEDBACK_FILE, FeedbackEvent, FeedbackStore, feedback_table
from gedbd.sampling.pairs import PairSampler
from gedbd.sampling.splits import GroupSplit, PairSplit, TimeSplit, split_corpus

STORED = Report(issue_id="7", title="Mail is lost")
PASTED = Report(title="Mail is lost", description="Since today.", component="Inbox")


@pytest.fixture
def feedback(tmp_path):
    kept = FeedbackStore(tmp_path)
    yield kept
    kept.close()


def said(folder: Path) -> list[tuple[str, str, str]]:
    table = feedback_table(folder)
    return list(table[["subject", "candidate", "verdict"]].itertuples(index=False, name=None))


def test_the_same_again_is_kept_once_and_a_changed_mind_replaces(feedback, tmp_path):
    accept, reject = (FeedbackEvent(STORED, "3", verdict, "web", "ann") for verdict in ("accept", "reject"))
    added = [feedback.record(verdict) for verdict in (accept, accept, reject, reject, accept)]
    assert added == [True, False, True, False, True]
    assert said(tmp_path) == [("id:7", "3", "accept")]
    with sqlite3.connect(tmp_path / FEEDBACK_FILE) as store:
        history = [row[0] for row in store.execute("SELECT verdict FROM events ORDER BY number")]
    assert history == ["accept", "reject", "accept"]
    withdraw = FeedbackEvent(STORED, "3", "withdraw", "web")
    assert [feedback.record(withdraw) for _ in range(2)] == [True, False]
    assert said(tmp_path) == []


def test_a_pasted_text_is_known_by_its_title_and_description_alone(feedback, tmp_path):
    assert feedback.record(FeedbackEvent(PASTED, "3", "accept", "web"))
    same = Report(title=PASTED.title, description=PASTED.description, component="Other")
    assert not feedback.record(FeedbackEvent(same, "3", "accept", "api"))
    assert feedback.record(FeedbackEvent(Report(title=PASTED.title), "3", "accept", "web"))
    table = feedback_table(tmp_path / FEEDBACK_FILE)
    assert list(table.columns) == list(COLUMNS)
    assert list(table["description"]) == ["Since today.", ""]
    assert set(table["issue_id"]) == {""}
    assert table["moment"].str.fullmatch(r"20\d\d-\d\d-\d\dT\S+\+00:00").all()


def test_events_are_neither_changed_nor_removed(feedback, tmp_path):
    feedback.record(FeedbackEvent(STORED, "3", "accept", "web"))
    for change in ("DELETE FROM events", "UPDATE events SET verdict = 'reject'"):
        with sqlite3.connect(tmp_path / FEEDBACK_FILE) as store, pytest.raises(sqlite3.IntegrityError, match="stay"):
            store.execute(change)


@pytest.mark.parametrize(
    ("verdict", "message"),
    [
        (FeedbackEvent(STORED, "3", "maybe", "web"), "verdict 'maybe' is unknown: choose accept"),
        (FeedbackEvent(STORED, "3", "accept", "fax"), "source 'fax' is unknown: choose web"),
        (FeedbackEvent(STORED, "7", "accept", "web"), "report 7 is compared with itself"),
        (FeedbackEvent(STORED, "", "accept", "web"), "names no candidate"),
        (FeedbackEvent(Report(title=" "), "3", "accept", "web"), "names no report"),
    ],
)
def test_what_makes_no_sense_is_refused(feedback, tmp_path, verdict, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        feedback.record(verdict)
    assert said(tmp_path) == []


def test_many_threads_and_two_connections_lose_nothing(feedback, tmp_path):
    other = FeedbackStore(tmp_path)
    verdicts = [FeedbackEvent(Report(issue_id=str(100 + number % 20)), "1", "accept", "api") for number in range(40)]
    with ThreadPoolExecutor(4) as threads:
        new = list(
            threads.map(lambda pair: pair[0].record(pair[1]), zip([feedback, other] * 20, verdicts, strict=True))
        )
    assert sum(new) == 20
    assert len(said(tmp_path)) == 20


# Rows 0 to 11; training is 0 to 7, validation 8 and 9, test 10 and 11. Groups: {0, 1}, {2, 3}, {6, 8}, {7, 10}.
GROUP = [0, 0, 2, 2, 4, 5, 6, 7, 6, 9, 7, 11]
SPLIT = TimeSplit(8 / 12, 10 / 12)


@pytest.fixture
def corpus(make_corpus):
    made = make_corpus(GROUP, days=range(12))
    made.reports["title"] = [f"title {row}" for row in range(12)]
    return made


@pytest.fixture
def record(tmp_path):
    """Records verdicts on rows of the corpus and gives the index folder."""

    def record_all(*verdicts: tuple[int | Report, int, str]) -> str:
        store = FeedbackStore(tmp_path)
        for report, candidate, verdict in verdicts:
            own = report if isinstance(report, Report) else Report(issue_id=str(1000 + report))
            store.record(FeedbackEvent(own, str(1000 + candidate), verdict, "web"))
        store.close()
        return str(tmp_path)

    return record_all


def drawn(pairs: pd.DataFrame, kind: str = "feedback") -> set[tuple[int, int, int, str]]:
    return set(
        pairs.loc[pairs["kind"] == kind, ["earlier", "later", "label", "part"]].itertuples(index=False, name=None)
    )


@pytest.mark.parametrize(
    ("verdicts", "expected", "warning"),
    [
        (
            [(4, 1, "accept"), (5, 2, "reject"), (Report(title="title 5 "), 4, "reject")],
            {(1, 4, 1, "train"), (2, 5, 0, "train"), (4, 5, 0, "train")},
            "1 accepted and 2 rejected pairs join the training split",
        ),
        ([(5, 2, "reject")], {(2, 5, 0, "train")}, "pairs=grouped and pairs=pk read accepted ones only"),
        (
            [(4, 1, "accept"), (5, 4, "accept"), (5, 1, "reject")],
            {(1, 4, 1, "train"), (4, 5, 1, "train")},
            "1 pairs are rejected though accepted ones make them duplicates",
        ),
        (  # of two verdicts on a pair under two names the last counts
            [(Report(title="title 5"), 4, "reject"), (4, 5, "reject"), (5, 4, "accept")],
            {(4, 5, 1, "train")},
            "2 pairs have a later verdict",
        ),
        ([(1, 0, "accept")], set(), "1 pairs were sampled already"),
    ],
)
def test_verdicts_join_the_training_part(corpus, record, verdicts, expected, warning):
    pairs, warnings = PairSampler(feedback=record(*verdicts)).sample(corpus, SPLIT)
    assert drawn(pairs) == expected
    assert not pairs.duplicated(["earlier", "later"]).any()
    assert any(warning in line for line in warnings)


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        ((Report(issue_id="77"), 1, "accept"), "name a report that the corpus does not have"),
        ((Report(title="title 5", description="more"), 1, "accept"), "name a report that the corpus does not have"),
        ((Report(title="title 5"), 5, "accept"), "name one report twice"),
        ((9, 1, "accept"), "belong to split val"),
        ((4, 11, "reject"), "belong to split test"),
        ((0, 1, "reject"), "contradict the groups of the tracker"),
        ((0, 2, "accept"), "contradict the groups of the tracker"),
    ],
)
def test_what_training_may_not_use_is_counted(corpus, record, verdict, reason):
    plain = PairSampler().sample(corpus, SPLIT).table
    pairs, warnings = PairSampler(feedback=record(verdict)).sample(corpus, SPLIT)
    pd.testing.assert_frame_equal(pairs, plain, check_dtype=False)
    assert f"feedback: 1 pairs {reason}, not used" in warnings


def test_accepted_pairs_do_not_join_two_groups_of_the_tracker_by_way_of_others(corpus, record):
    sampler = PairSampler(feedback=record((4, 1, "accept"), (5, 4, "accept"), (5, 3, "accept"), (5, 7, "reject")))
    pairs, warnings = sampler.sample(corpus, SPLIT)
    assert drawn(pairs) == {(1, 4, 1, "train"), (4, 5, 1, "train"), (5, 7, 0, "train")}
    assert "feedback: 1 pairs contradict the groups of the tracker, not used" in warnings
    assert sampler.join_accepted(corpus, SPLIT, corpus.group).tolist() == [0, 0, 2, 2, 0, 0, 6, 7, 6, 9, 7, 11]


def test_no_drawn_negative_says_otherwise_than_people(corpus, record):
    folder = record((4, 1, "accept"), (5, 4, "accept"), (6, 2, "reject"))
    pairs = PairSampler(4.0, random_negatives=20, feedback=folder).sample(corpus, SPLIT).table
    training = pairs[(pairs["part"] == "train") & (pairs["kind"] != "feedback")]
    negatives = set(training.loc[training["label"] == 0, ["earlier", "later"]].itertuples(index=False, name=None))
    assert negatives
    assert not negatives & {(0, 4), (1, 4), (0, 5), (1, 5), (4, 5), (2, 6)}


def test_a_pair_of_two_parts_is_not_used(corpus, record):
    split = GroupSplit(0.3, 0.3)
    parts = split_corpus(split, corpus)
    singletons = [row for row in range(12) if GROUP.count(GROUP[row]) == 1]
    inside, outside = ([row for row in singletons if (parts[row] == 0) == wanted] for wanted in (True, False))
    pairs, warnings = PairSampler(feedback=record((inside[0], outside[0], "reject"))).sample(corpus, split)
    assert drawn(pairs) == set()
    assert "feedback: 1 pairs cross the split, not used" in warnings


def test_accepted_pairs_join_the_known_groups_of_training(corpus, record):
    sampler = PairSampler(feedback=record((4, 1, "accept"), (5, 4, "accept"), (9, 5, "accept"), (6, 2, "reject")))
    assert sampler.join_accepted(corpus, SPLIT, corpus.group).tolist() == [0, 0, 2, 2, 0, 0, 6, 7, 6, 9, 7, 11]
    hidden = np.array([0, 1, 2, 3, 4, 5, 6, 7, 6, 9, 7, 11])
    assert sampler.join_accepted(corpus, SPLIT, hidden).tolist() == [0, 1, 2, 3, 1, 1, 6, 7, 6, 9, 7, 11]


def test_split_by_pairs_keeps_feedback_out_of_validation_and_test(make_corpus, record):
    corpus = make_corpus(np.repeat(np.arange(0, 40, 2), 2), days=range(40))
    singletons = make_corpus([*corpus.group, 40, 41], days=range(42))
    folder = record((40, 3, "accept"), (41, 5, "reject"))
    pairs = PairSampler(2.0, feedback=folder).sample(singletons, PairSplit()).table
    assert drawn(pairs) == {(3, 40, 1, "train"), (5, 41, 0, "train")}
    assert not pairs.duplicated(["earlier", "later"]).any()


def test_without_feedback_nothing_is_drawn_otherwise(corpus, tmp_path):
    FeedbackStore(tmp_path).close()
    plain = PairSampler(2.0, random_negatives=9).sample(corpus, SPLIT).table
    empty = PairSampler(2.0, random_negatives=9, feedback=str(tmp_path)).sample(corpus, SPLIT).table
    pd.testing.assert_frame_equal(plain, empty, check_dtype=False)
    with pytest.raises(ValueError, match=r"nowhere: no such file"):
        PairSampler(feedback=str(tmp_path / "nowhere")).sample(corpus, SPLIT)
    (tmp_path / "other.csv").write_text("a,b\n" * 300)
    with pytest.raises(ValueError, match=r"other.csv: this is not a feedback file"):
        feedback_table(tmp_path / "other.csv")
