"""A replayed report sees what was there when it came, and nothing else."""

import numpy as np
import pandas as pd
import pytest
from small_reports import some_reports as some_undated_reports
from small_tracker import RANKER

from gedbd.corpora.corpus import PARTS, TEST, Corpus
from gedbd.retrieval.ranking_tasks import evenly_spaced
from gedbd.retrieval.report_ranking import report_training as history_module
from gedbd.retrieval.report_ranking.report_training import RankerOptions, ReportHistory
from gedbd.triage.backtesting.history_replay import MIN_RIGHT, folds, learn, learn_probability, replay
from gedbd.triage.triage_model import CONFIDENCE_FEATURES, NUM_COMPARED, NUM_FOLDS, default_confidence

pytestmark = pytest.mark.integration

QUICK = RankerOptions(kind="linear")


def some_reports(seed, count):
    """Reports of random words, one a day, and unit vectors for them."""
    reports, vectors = some_undated_reports(seed, count)
    since = pd.to_timedelta(np.arange(count), unit="D")
    return reports.assign(created_at=pd.Timestamp("2024-01-01", tz="UTC") + since), vectors


def replayed(reports, vectors, group, rows):
    history = ReportHistory.of_corpus(Corpus.of_table("small", reports, np.asarray(group)), vectors)
    return replay(history, np.asarray(rows, dtype=np.int64), [RANKER] * len(rows), "replay")


def group_of(seed, count):
    generator = np.random.default_rng(seed)
    group = np.arange(count)
    for row in range(1, count):
        if generator.random() < 0.5:
            group[row] = group[generator.integers(max(0, row - 5), row)]
    return group


@pytest.mark.parametrize("boundary", [1, 2, 17, 40, 59])
@pytest.mark.quick_cases(2)
def test_what_comes_later_changes_nothing_bit_for_bit(boundary):
    reports, vectors = some_reports(0, 60)
    group = group_of(0, 60)
    before = replayed(reports, vectors, group, np.arange(60))
    others, other_vectors = some_reports(99, 60)
    others["title"] += " never heard of before"
    mixed = pd.concat([reports[:boundary], others[boundary:]])
    mixed_vectors = np.concatenate([vectors[:boundary], other_vectors[boundary:]])
    later_group = np.concatenate([group[:boundary], np.zeros(60 - boundary, dtype=int)])
    after = replayed(mixed, mixed_vectors, later_group, np.arange(60))
    mine, theirs = (table[table["query"] < boundary] for table in (before, after))
    pd.testing.assert_frame_equal(mine, theirs, check_exact=True)
    later = [table[table["query"] > boundary].reset_index(drop=True) for table in (before, after)]
    assert boundary == 59 or not later[0].equals(later[1])
    cut = replayed(reports[:boundary], vectors[:boundary], group[:boundary], np.arange(boundary))
    pd.testing.assert_frame_equal(mine, cut, check_exact=True)


def test_right_is_right_by_hand():
    reports, _ = some_reports(1, 5)
    vectors = np.eye(5, dtype=np.float32)[[0, 1, 0, 2, 1]]
    table = replayed(reports, vectors, [0, 1, 0, 3, 1], [0, 2, 4])
    assert set(table["query"]) == {2, 4}  # before the first report there is none
    assert (table["rank"] == table["query"].map(table[table["right"]].set_index("query")["place"])).all()
    for query, right in ((2, {0}), (4, {1})):
        mine = table[table["query"] == query]
        assert set(mine.loc[mine["right"], "candidate"]) == right
        assert mine["place"].tolist() == list(range(1, len(mine) + 1))
        assert mine["score"].is_monotonic_decreasing
    assert len(table[table["query"] == 4]) == 3  # two of the four candidates are one group
    assert (table["candidate"] < table["query"]).all()


def test_at_most_so_many_candidates():
    reports, vectors = some_reports(2, 30)
    table = replayed(reports, vectors, np.arange(30), [29])
    assert len(table) == NUM_COMPARED
    assert list(table.columns) == ["query", "candidate", "right", "rank", *CONFIDENCE_FEATURES]
    assert not table["right"].any()
    assert not table["rank"].any()
    assert replayed(reports, vectors, np.arange(30), []).empty


def test_parts_are_named_and_thinned_out():
    reports, vectors = some_reports(3, 50)
    parts = np.repeat([0, 1, 2], [30, 10, 10])
    corpus = Corpus.of_table("small", reports, group_of(3, 50))
    table = learn(corpus, parts, {TEST: vectors}, 4, QUICK).replayed
    # Of the training part all duplicates are replayed, and of the four evenly spaced reports those with a candidate.
    duplicates = np.flatnonzero(corpus.group[:30] < np.arange(30))
    train = sorted({*duplicates.tolist(), 10, 19, 29})
    assert table.groupby("part")["query"].unique().map(list).to_dict() == {
        "train": train,
        "val": [30, 33, 36, 39],
        "test": [40, 43, 46, 49],
    }
    assert set(table["part"]) == set(PARTS)
    whole = learn(corpus, parts, {TEST: vectors}, 1000, QUICK).replayed
    kept = whole.merge(table[["query", "place"]])
    dropped = ["part", "weight"]
    pd.testing.assert_frame_equal(
        kept.drop(columns=dropped), table.sort_values(["query", "place"])[kept.columns.drop(dropped)]
    )
    assert (whole["weight"] == 1).all()


def test_reports_without_a_duplicate_stand_for_those_left_out():
    reports, vectors = some_reports(3, 50)
    corpus = Corpus.of_table("small", reports, group_of(3, 50))
    table = learn(corpus, np.repeat([0, 1, 2], [30, 10, 10]), {TEST: vectors}, 15, QUICK).replayed
    best = table[table["place"] == 1].set_index("query")
    is_duplicate = corpus.group < np.arange(50)
    others = np.flatnonzero(~is_duplicate[:30])
    chosen = np.intersect1d(evenly_spaced(0, 30, 15), others)
    assert 1 < len(chosen) < len(others)
    assert best.loc[chosen[1:], "weight"].to_numpy() == pytest.approx(len(others) / len(chosen))  # 0 has no candidate
    assert (best.loc[is_duplicate[best.index], "weight"] == 1).all()
    assert (best.loc[best["part"] != "train", "weight"] == 1).all()


def test_each_part_is_replayed_by_its_own_vectors():
    reports, _ = some_reports(3, 50)
    vectors = {number: some_reports(seed, 50)[1] for number, seed in enumerate((88, 99, 3))}
    corpus = Corpus.of_table("small", reports, group_of(3, 50))
    parts = np.repeat([0, 1, 2], [20, 20, 10])
    mixed = learn(corpus, parts, vectors, 50, QUICK).replayed
    for number, own in vectors.items():
        alone = learn(corpus, parts, {TEST: own}, 50, QUICK).replayed
        mine, theirs = (table[table["part"] == PARTS[number]] for table in (mixed, alone))
        by_pair = ["query", "candidate"]
        both = mine.merge(theirs, on=by_pair, suffixes=("", " alone"))
        assert len(both) > 10
        of_pair = "dense"  # whatever ranker chose the candidates
        np.testing.assert_array_equal(both[of_pair], both[f"{of_pair} alone"])


@pytest.mark.slow
def test_several_processes_find_the_same_bit_for_bit(monkeypatch):
    reports, vectors = some_reports(5, 60)
    history = ReportHistory.of_corpus(Corpus.of_table("small", reports, group_of(5, 60)), vectors)
    history.graph = True
    rows = [3, *range(20, 60)]
    alone, shared = (list(history.replay(rows, num_processes=number)) for number in (1, 2))
    assert [one.row for one in shared] == rows
    for one, other in zip(alone, shared, strict=True):
        for name in ("group", "best", "features", "right"):
            np.testing.assert_array_equal(getattr(other, name), getattr(one, name))
    history.graph = False  # the ranker does not read its features
    table = replay(history, np.array(rows), [RANKER] * len(rows), "replay")
    monkeypatch.setattr(history_module, "MIN_PARALLEL_QUERIES", 1)
    pd.testing.assert_frame_equal(replay(history, np.array(rows), [RANKER] * len(rows), "replay"), table)


def test_reports_of_one_group_are_in_one_fold():
    group = np.array([0, 1, 0, 3, 1, 0])
    mine = folds(group)
    assert mine[[0, 1, 2, 4, 5]].tolist() == mine[[0, 1, 0, 1, 0]].tolist()
    sizes = np.bincount(folds(np.arange(4000)), minlength=NUM_FOLDS)
    assert (sizes > 800).all()


def test_a_replay_without_a_right_match_is_told():
    reports, vectors = some_reports(4, 40)
    corpus = Corpus.of_table("small", reports, group_of(4, 40))
    table = learn(corpus, np.repeat([0, 1, 2], [20, 10, 10]), {TEST: vectors}, 40, QUICK).replayed
    with pytest.raises(ValueError, match="too few best matches of the training and validation splits are right"):
        learn_probability(table.assign(right=False), RANKER, 0)


def test_few_right_matches_of_the_default_ranker_keep_its_probabilities():
    reports, vectors = some_reports(5, 80)
    corpus = Corpus.of_table("small", reports, group_of(5, 80))
    parts = np.repeat([0, 1, 2], [40, 20, 20])
    learnt = learn(corpus, parts, {TEST: vectors}, 80, RankerOptions(base="default"))
    default = default_confidence()
    confidence, of_val = learn_probability(learnt.replayed.assign(right=False), learnt.ranker, 0)
    assert np.array_equal(confidence.knots, default.knots)
    features = learnt.replayed.loc[learnt.replayed["part"] == "val", list(CONFIDENCE_FEATURES)].to_numpy()
    assert np.array_equal(of_val, confidence(features))
    assert (of_val < default(features)).all()  # nothing was right here
    many = pd.concat([learnt.replayed] * MIN_RIGHT)
    assert not np.array_equal(learn_probability(many, learnt.ranker, 0)[0].knots, default.knots)


def test_nothing_is_learnt_from_unknown_matches():
    reports, vectors = some_reports(5, 80)
    corpus = Corpus.of_table("small", reports, group_of(5, 80))
    table = learn(corpus, np.repeat([0, 1, 2], [40, 20, 20]), {TEST: vectors}, 80, QUICK).replayed
    is_unknown = (table["query"] % 5 == 0) & ~table["right"]
    confidence, of_val_matches = learn_probability(table.assign(unknown=is_unknown), RANKER, 0)
    of_known, dropped = learn_probability(table[~is_unknown].assign(unknown=False), RANKER, 0)
    assert confidence.as_dict() == of_known.as_dict()
    of_val = table[table["part"] == "val"]
    assert len(of_val_matches) == len(of_val)
    known = ~is_unknown[of_val.index].to_numpy()
    assert np.array_equal(of_val_matches[known], dropped)
    features = of_val.loc[~known, list(CONFIDENCE_FEATURES)].to_numpy()
    assert np.array_equal(of_val_matches[~known], confidence(features))
