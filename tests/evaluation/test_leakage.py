import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from gedbd.corpora.corpus import TEST, TRAIN, VAL
from gedbd.evaluation.pairwise import audit_leak, leak_warning
from gedbd.sampling.pairs import PairSampler
from gedbd.sampling.splits import FoldSplit, GroupSplit, PairSplit, TimeSplit, split_corpus

LEAK_FREE = [TimeSplit(0.5, 0.75), GroupSplit(0.25, 0.25), FoldSplit(4, fold=1)]


def table(**parts: list[tuple[int, int, int]]) -> pd.DataFrame:
    """Pairs of each part as (earlier, later, label)."""
    lines = [(*pair, part) for part, pairs in parts.items() for pair in pairs]
    return pd.DataFrame(lines, columns=["earlier", "later", "label", "part"])


@pytest.fixture
def corpus(make_corpus):
    """Three hundred reports, most of them in groups of two to four, shuffled over time."""
    sizes = [2] * 30 + [3] * 20 + [4] * 25 + [1] * 80
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return make_corpus(first[inverse], days=np.arange(len(labels)) / 4)


def test_chains_of_training_pairs_worked_out_by_hand():
    group = np.array([0, 0, 0, 0, 4, 4, 4, 7, 8])
    pairs = table(
        train=[(0, 1, 1), (1, 2, 1), (4, 5, 1), (2, 7, 0)],
        val=[(2, 3, 1), (5, 6, 1)],
        test=[(0, 2, 1), (0, 3, 1), (4, 6, 1), (4, 8, 0), (2, 7, 0), (3, 8, 0)],
    )
    # training ties 0, 1, 2 and 4, 5: of the duplicates only (0, 2) is tied, since validation pairs make no chain.
    # Test names 0, 2, 3, 4, 6, 7, 8; training has named 0, 1, 2, 4, 5, 7.
    audit = audit_leak(pairs, np.full(9, TRAIN), group)
    assert leak_warning(audit).startswith("warning: this split leaks. ")
    assert "finds 1 of 3 test duplicates (F1 0.500)" in leak_warning(audit)
    assert audit == pytest.approx(
        {
            "test_reports": 7,
            "test_reports_in_training": 4 / 7,
            "pair_reports_in_training": 4 / 7,
            "test_groups": 2,
            "test_groups_in_training": 1,
            "test_positives": 3,
            "closure_found": 1,
            "closure_precision": 1,
            "closure_recall": 1 / 3,
            "closure_f1": 1 / 2,
            "always_duplicate_f1": 2 / 3,
        }
    )


def test_older_candidates_of_test_reports_are_counted_apart():
    parts = np.array([TRAIN, TRAIN, TRAIN, VAL, TEST, TEST, TEST])
    group = np.array([0, 0, 2, 2, 0, 5, 2])
    pairs = table(
        train=[(0, 1, 1), (1, 2, 0)],
        val=[(2, 3, 1)],
        test=[(0, 4, 1), (1, 4, 1), (2, 6, 1), (3, 6, 1), (0, 5, 0)],
    )
    # of part test are 4, 5, 6, none of them learnt from; of 0, 1, 2, 3, 4, 5, 6 training names 0, 1, 2
    audit = audit_leak(pairs, parts, group)
    assert (audit["test_reports"], audit["test_reports_in_training"]) == (3, 0)
    assert audit["pair_reports_in_training"] == pytest.approx(3 / 7)
    assert (audit["test_groups"], audit["test_groups_in_training"]) == (2, 1 / 2)  # training knows 0, not 2
    assert (audit["test_positives"], audit["closure_found"], audit["closure_f1"]) == (4, 0, 0)
    assert leak_warning(audit) is None


@pytest.mark.parametrize("split", LEAK_FREE, ids=lambda split: type(split).__name__)
@pytest.mark.parametrize("seed", range(2))
def test_these_splits_do_not_leak(corpus, split, seed):
    pairs = PairSampler(2.0, random_negatives=100, seed=seed).sample(corpus, split).table
    audit = audit_leak(pairs, split_corpus(split, corpus), corpus.group)
    assert audit["test_positives"] == ((pairs["part"] == "test") & (pairs["label"] == 1)).sum() > 0
    assert audit["closure_found"] == audit["closure_recall"] == audit["closure_f1"] == 0
    assert audit["test_reports_in_training"] == 0
    if not isinstance(split, TimeSplit):
        assert audit["pair_reports_in_training"] == audit["test_groups_in_training"] == 0
    assert leak_warning(audit) is None


@pytest.mark.parametrize("seed", range(2))
def test_shuffled_pairs_leak_what_chains_of_them_reach(corpus, seed):
    split = PairSplit(seed=seed)
    pairs = PairSampler(1.0, seed=seed).sample(corpus, split).table
    audit = audit_leak(pairs, split_corpus(split, corpus), corpus.group)
    train, test = (pairs[pairs["part"] == part] for part in ("train", "test"))
    links = train.loc[train["label"] == 1, ["earlier", "later"]].to_numpy().T
    _, chain = connected_components(coo_array((np.ones(links.shape[1]), links), shape=(len(corpus),) * 2))
    tied = chain[test["earlier"]] == chain[test["later"]]
    assert audit["closure_found"] == (tied & (test["label"] == 1)).sum() > 0
    assert audit["closure_precision"] == 1
    assert audit["closure_recall"] == pytest.approx(audit["closure_found"] / audit["test_positives"])
    assert audit["always_duplicate_f1"] == pytest.approx(2 * test["label"].mean() / (1 + test["label"].mean()))
    assert audit["test_reports_in_training"] == audit["pair_reports_in_training"] > 0.5
    assert audit["test_groups_in_training"] > 0.5
