from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.corpus import PARTS
from gedbd.corpora.relevance import Links
from gedbd.sampling.pairs import PairSampler, positive_pairs
from gedbd.sampling.splits import GroupSplit, PairSplit, TimeSplit, split_corpus

SPLITS = [TimeSplit(0.5, 0.75), GroupSplit(0.25, 0.25), PairSplit()]


@pytest.fixture
def corpus(make_corpus):
    """Two hundred reports, half of them in groups of two to four, shuffled over time."""
    sizes = [2] * 20 + [3] * 8 + [4] * 9 + [1] * 100
    group = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    return make_corpus(group, days=np.arange(len(group)) / 4)


def codes(pairs: pd.DataFrame) -> set[tuple[int, int]]:
    return set(zip(pairs["earlier"], pairs["later"], strict=True))


def test_positives_worked_out_by_hand():
    earlier, later = positive_pairs(np.array([0, 1, 0, 1, 4, 0]))
    assert list(zip(earlier.tolist(), later.tolist(), strict=True)) == [(0, 2), (0, 5), (2, 5), (1, 3)]
    assert len(positive_pairs(np.arange(9))[0]) == 0


@pytest.mark.parametrize("split", SPLITS)
def test_no_pair_twice_no_negative_inside_a_group_and_all_follow_the_split(corpus, split):
    pairs = PairSampler(2.0, random_negatives=150).sample(corpus, split).table
    assert list(pairs.columns) == ["earlier", "later", "label", "kind", "part"]
    assert len(codes(pairs)) == len(pairs)
    assert (pairs["earlier"] < pairs["later"]).all()
    same = corpus.group[pairs["earlier"]] == corpus.group[pairs["later"]]
    assert (pairs["label"] == same).all()
    assert (pairs["label"] == (pairs["kind"] == "positive")).all()

    parts = np.array(PARTS)[split_corpus(split, corpus)]
    earlier, later = parts[pairs["earlier"]], parts[pairs["later"]]
    if isinstance(split, TimeSplit):
        assert (pairs["part"] == later).all()
        training = pairs[pairs["part"] == "train"]
        assert set(parts[training[["earlier", "later"]].to_numpy().ravel()]) == {"train"}
    elif isinstance(split, GroupSplit):
        assert (pairs["part"] == earlier).all()
        assert (pairs["part"] == later).all()
    else:
        count = len(pairs)
        assert Counter(pairs["part"]) == {
            "train": round(count * 0.6),
            "val": round(count * 0.8) - round(count * 0.6),
            "test": count - round(count * 0.8),
        }


@pytest.mark.parametrize("split", SPLITS[:2])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 3.0])
def test_anchors_share_a_report_with_a_positive_of_their_part_in_the_ratio_asked_for(corpus, split, ratio):
    pairs = PairSampler(ratio).sample(corpus, split).table
    for part in PARTS:
        mine = pairs[pairs["part"] == part]
        positives, anchors = (mine[mine["kind"] == kind] for kind in ("positive", "anchor"))
        in_positives = set(positives[["earlier", "later"]].to_numpy().ravel())
        assert all({i, j} & in_positives for i, j in codes(anchors))
        assert len(anchors) == round(ratio * len(positives))
    assert set(pairs["kind"]) == {"positive", "anchor"}


@pytest.mark.parametrize("split", SPLITS[:2])
def test_parts_share_random_negatives_as_they_share_positives(corpus, split):
    pairs = PairSampler(0.0, random_negatives=100).sample(corpus, split).table
    positives, random = (pairs.loc[pairs["kind"] == kind, "part"].value_counts() for kind in ("positive", "random"))
    assert random.sum() == 100
    for part in PARTS:
        assert random[part] == pytest.approx(100 * positives[part] / positives.sum(), abs=1)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("total", [293, 502])
def test_filling_reaches_exactly_the_total(corpus, split, total):
    pairs, warnings = PairSampler(1.0, fill_to=total).sample(corpus, split)
    assert len(pairs) == total
    assert warnings == ()
    filled = PairSampler(1.0, random_negatives=40, fill_to=10).sample(corpus, split).table  # nothing is taken away
    assert filled.equals(PairSampler(1.0, random_negatives=40).sample(corpus, split).table)


@pytest.mark.parametrize("split", SPLITS)
def test_the_seed_fixes_the_table(corpus, split):
    first, again, other = (PairSampler(1.0, 50, seed=seed).sample(corpus, split).table for seed in (0, 0, 1))
    assert first.equals(again)
    assert first.equals(PairSampler(1.0, 50).sample(corpus, split, corpus.group).table)  # all groups are known
    assert codes(first) != codes(other)
    assert codes(first[first["label"] == 1]) == codes(other[other["label"] == 1])


def test_what_cannot_be_drawn_is_noticed(make_corpus):
    corpus = make_corpus([0] * 5 + [5] * 5)
    pairs, warnings = PairSampler(1.0, fill_to=100).sample(corpus, PairSplit())
    assert pairs["label"].value_counts().to_dict() == {0: 5 * 5, 1: 10 + 10}
    assert warnings == ("55 negatives of split train not found in 200 draws",)


def test_a_corpus_without_duplicates_or_marked_pairs_is_refused(make_corpus):
    for split in SPLITS:
        with pytest.raises(ValueError, match=r"small has no duplicate pairs in 12 reports"):
            PairSampler(1.0, 10, 100).sample(make_corpus(range(12), days=range(12)), split)
    with pytest.raises(ValueError, match=r"pairs\.positives=marked: the duplicate links of small are unknown"):
        PairSampler(positives="marked").sample(make_corpus([0, 0, 2, 2]), PairSplit())
    with pytest.raises(ValueError, match=r"pairs\.positives=linked is unknown: choose all, marked"):
        PairSampler(positives="linked")


def test_a_part_without_positives_is_refused_by_name(make_corpus):
    corpus = make_corpus([0, 0, 2, 2, 4, 5, 6, 7, 0, 2], days=range(10))
    with pytest.raises(
        ValueError, match=r"split val of small has none of its \d duplicate pairs: .*split.val_from=0.6"
    ):
        PairSampler().sample(corpus, TimeSplit(0.6, 0.8))
    with pytest.raises(ValueError, match=r"split train of small has none of its 2 duplicate pairs"):
        PairSampler().sample(make_corpus([0, 1, 2, 3, 0, 1], days=range(6)), TimeSplit(0.5, 0.8))
    unknown = np.arange(10, 20)
    with pytest.raises(
        ValueError, match=r"split train of small has none of its \d duplicate pairs: .*split.val_from=0.6"
    ):
        PairSampler().sample(corpus, TimeSplit(0.6, 0.9), unknown)


def test_evaluation_may_have_more_negatives_and_training_stays_the_same(make_corpus):
    corpus = make_corpus([k // 2 for k in range(40)])
    plain, wider = (PairSampler(negatives_in_evaluation=n).sample(corpus, TimeSplit()).table for n in (None, 3))
    for pairs, ratio in ((plain, 1), (wider, 3)):
        for part in ("val", "test"):
            label = pairs.loc[pairs["part"] == part, "label"]
            assert (label == 0).sum() == ratio * (label == 1).sum()
    pd.testing.assert_frame_equal(*(pairs[pairs["part"] == "train"] for pairs in (plain, wider)))


def of_part(pairs: pd.DataFrame, *parts: str) -> pd.DataFrame:
    return pairs[pairs["part"].isin(parts)].reset_index(drop=True)


def test_reports_of_unknown_groups_may_be_drawn_as_negatives(make_corpus):
    """Training has 21 pairs: 10 in a group that is unknown, a known one, and 10 that are no duplicates."""
    corpus = make_corpus([0] * 5 + [5, 5] + [7] * 2 + [9] * 2)
    split = TimeSplit(7 / 11, 9 / 11)
    known = np.array([0, 1, 2, 3, 4, 5, 5, 7, 7, 9, 9])
    train = of_part(PairSampler(0.0, random_negatives=45).sample(corpus, split, known).table, "train")
    negatives = codes(train[train["label"] == 0])
    assert codes(train[train["label"] == 1]) == {(5, 6)}
    assert len(negatives) == 15
    assert len([pair for pair in negatives if max(pair) < 5]) >= 5


def test_pairs_of_one_part_do_not_depend_on_those_of_another(make_corpus):
    """More groups among the reports of training, or of validation, leave the pairs of the other parts as they are."""
    split = TimeSplit(0.5, 0.75)
    group = np.arange(80)
    for start in (0, 40, 60):
        group[start + 1 : start + 9 : 2] -= 1
    trained, validated = group.copy(), group.copy()
    trained[21:31:2] -= 1
    validated[51:57:2] -= 1
    sampler = PairSampler(2.0)
    plain, more_training, more_validation = (
        sampler.sample(make_corpus(groups), split).table for groups in (group, trained, validated)
    )
    assert len(of_part(more_training, "train")) == len(of_part(plain, "train")) + 5 * 3
    assert len(of_part(more_validation, "val")) == len(of_part(plain, "val")) + 3 * 3
    pd.testing.assert_frame_equal(of_part(more_training, "val", "test"), of_part(plain, "val", "test"))
    pd.testing.assert_frame_equal(of_part(more_validation, "train", "test"), of_part(plain, "train", "test"))


def test_only_marked_pairs_train_while_all_pairs_are_evaluated(make_corpus):
    # Three groups of three, a chain of links in each; one link names the newer report.
    corpus = make_corpus(np.repeat([0, 3, 6], 3), days=range(9))
    links = pd.DataFrame({"query": [1, 1, 4, 5, 7, 8], "document": [0, 2, 3, 4, 6, 7], "source": "", "made_at": pd.NaT})
    corpus = replace(corpus, links=Links(links, 9, 9))
    sampled = PairSampler(0, positives="marked").sample(corpus, TimeSplit(1 / 3, 2 / 3))
    by_part = {part: codes(rows) for part, rows in sampled.table.groupby("part")}
    assert by_part == {"train": {(0, 1), (1, 2)}, "val": {(3, 4), (4, 5), (3, 5)}, "test": {(6, 7), (7, 8), (6, 8)}}
    assert "1 training pairs of a group that no duplicate link joins are left out" in sampled.warnings
