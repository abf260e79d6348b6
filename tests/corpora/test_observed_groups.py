import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.corpus import TEST, TRAIN, VAL
from gedbd.sampling.pairs import PairSampler, positive_pairs
from gedbd.sampling.splits import FoldSplit, GroupSplit, Labels, TimeSplit, split_corpus

SPLITS = [TimeSplit(0.6, 0.8), GroupSplit(0.25, 0.25), FoldSplit(4)]
FRACTIONS = [0.05, 0.1, 0.3, 0.5, 0.9, 1.0]


@pytest.fixture
def corpus(make_corpus):
    """Two hundred and eighty reports, most of them in groups of two to four, shuffled over time."""
    sizes = [2] * 40 + [3] * 20 + [4] * 15 + [1] * 80
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    _, oldest, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return make_corpus(oldest[inverse], days=np.arange(len(labels)) / 4)


def known_pairs(known: np.ndarray, parts: np.ndarray) -> set[tuple[int, int]]:
    """Duplicates with both reports in training, as far as they are known."""
    rows = np.flatnonzero(parts == TRAIN)
    earlier, later = positive_pairs(known[rows])
    return set(zip(rows[earlier].tolist(), rows[later].tolist(), strict=True))


def groups_of_two(group: np.ndarray, parts: np.ndarray) -> set[int]:
    """Groups with at least two reports in training."""
    counts = pd.Series(group[parts == TRAIN]).value_counts()
    return set(counts[counts > 1].index)


def test_worked_out_by_hand(make_corpus):
    corpus = make_corpus([0, 1, 0, 1, 4, 0, 6, 4, 1])
    parts = np.array([TRAIN] * 6 + [VAL, TEST, TEST])
    # in training, 0 has three reports, 1 two and 4 one: one of the first two is known, the other taken apart
    one_of_two = [Labels(0.5, seed).observed(corpus, parts).tolist() for seed in range(10)]
    assert [0, 1, 0, 3, 4, 0, 6, 4, 1] in one_of_two
    assert [0, 1, 2, 1, 4, 5, 6, 4, 1] in one_of_two
    assert len({tuple(known) for known in one_of_two}) == 2
    assert Labels(0.51).observed(corpus, parts).tolist() == corpus.group.tolist()
    # Training without any group knows what there is.
    alone = make_corpus([0, 1, 2, 3, 3, 3])
    parts = np.array([TRAIN] * 4 + [VAL, TEST])
    assert Labels(0.5).observed(alone, parts).tolist() == alone.group.tolist()


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: type(split).__name__)
@pytest.mark.parametrize("seed", range(3))
def test_a_share_of_the_groups_of_training_is_known_whole(corpus, split, seed):
    parts = split_corpus(split, corpus)
    several = groups_of_two(corpus.group, parts)
    pairs = []
    for fraction in FRACTIONS:
        known = Labels(fraction, seed).observed(corpus, parts)
        kept = groups_of_two(known, parts)
        assert kept <= several
        assert len(kept) == math.ceil(fraction * len(several))
        assert (known == corpus.group).all() == (fraction == 1)
        # Only reports of training lose their group, and all of a group do.
        lost = known != corpus.group
        assert not lost[parts != TRAIN].any()
        assert (known[lost] == np.flatnonzero(lost)).all()
        for number in several:
            rows = np.flatnonzero((corpus.group == number) & (parts == TRAIN))
            assert known[rows].tolist() in ([number] * len(rows), rows.tolist())
        pairs.append(known_pairs(known, parts))
    # What is known of a smaller share is known of a larger.
    for smaller, larger in pairwise(pairs):
        assert smaller < larger
    assert pairs[-1] == known_pairs(corpus.group, parts)


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: type(split).__name__)
def test_pairs_of_unknown_groups_leave_training_and_evaluation_stays_the_same(corpus, split):
    parts = split_corpus(split, corpus)
    sampler = PairSampler(1.0, negatives_in_evaluation=3)
    everything = sampler.sample(corpus, split).table
    evaluated = everything[everything["part"] != "train"].reset_index(drop=True)
    for fraction in FRACTIONS:
        known = Labels(fraction).observed(corpus, parts)
        pairs = sampler.sample(corpus, split, known).table
        train = pairs[pairs["part"] == "train"]
        positives = train.loc[train["label"] == 1, ["earlier", "later"]].to_numpy().tolist()
        assert {tuple(pair) for pair in positives} == known_pairs(known, parts)
        assert len(positives) == (train["label"] == 0).sum() == len(train) / 2
        pd.testing.assert_frame_equal(pairs[pairs["part"] != "train"].reset_index(drop=True), evaluated)


def test_a_split_without_reports_outside_training_is_refused(make_corpus):
    with pytest.raises(ValueError, match=r"labels\.fraction=0\.5 needs reports outside training"):
        Labels(0.5).observed(make_corpus([0, 0, 2, 2]), np.zeros(4, dtype=np.int8))
