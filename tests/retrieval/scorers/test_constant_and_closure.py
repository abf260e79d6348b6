import numpy as np
import pandas as pd
import pytest

from gedbd.retrieval.ranking_metrics import rank
from gedbd.retrieval.ranking_tasks import EarlierReports
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs, linked_groups
from gedbd.retrieval.scorers.simple_scorers import Closure, Constant


def pairs_of(*rows: tuple[int, int, int]) -> pd.DataFrame:
    return pd.DataFrame(np.array(rows, dtype=np.int64).reshape(-1, 3), columns=["document", "query", "label"])


def test_constant_calls_every_pair_a_duplicate_and_puts_the_oldest_report_first(make_corpus):
    corpus = make_corpus([0, 1, 0, 1, 4])
    constant = Constant()
    constant.fit(ScorerInputs(corpus.reports, corpus.reports, pairs_of()))
    scores = constant.scores(np.array([4, 2]))
    assert scores.dtype == np.float32
    assert scores.tolist() == [[1] * 5] * 2
    assert scores.min() >= constant.threshold
    ranking = rank(EarlierReports.find(corpus, np.ones(5, dtype=bool)), constant)
    assert ranking.queries[["query", "rank"]].to_numpy().tolist() == [[2, 1], [3, 2]]
    assert ranking.top["candidate"].tolist() == [0, 1, 0, 1]


def test_closure_follows_chains_of_positive_training_pairs_and_no_others(make_corpus):
    corpus = make_corpus([0, 0, 0, 0, 4, 4, 6])
    closure = Closure()
    # 0 - 1 - 3 is a chain; 2 and 5 have duplicates that training does not see; 3 - 4 and 5 - 6 are negatives
    closure.fit(ScorerInputs(corpus.reports, corpus.reports, pairs_of((1, 3, 1), (3, 4, 0), (0, 1, 1), (5, 6, 0))))
    scores = closure.scores(np.array([3, 2, 5, 6, 0]))
    assert scores.dtype == np.float32
    assert scores.tolist() == [
        [1, 1, 0, 1, 0, 0, 0],
        [0, 0, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 0, 1],
        [1, 1, 0, 1, 0, 0, 0],
    ]
    assert 0 < closure.threshold <= 1


def test_closure_without_a_positive_pair_ties_nothing(make_corpus):
    closure = Closure()
    closure.fit(ScorerInputs.of_reports(make_corpus([0, 0, 2]).reports, pairs_of((0, 1, 0), (1, 2, 0))))
    assert (closure.scores(np.arange(3)) == np.eye(3)).all()


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ((), [0, 1, 2, 3, 4, 5]),
        (((0, 5, 0), (2, 3, 0)), [0, 1, 2, 3, 4, 5]),
        (((2, 5, 1),), [0, 1, 2, 3, 4, 2]),
        (((4, 5, 1), (1, 4, 1), (0, 3, 1), (0, 1, 0)), [0, 1, 2, 0, 1, 1]),
        (((1, 2, 1), (1, 2, 1), (0, 2, 1)), [0, 0, 0, 3, 4, 5]),
    ],
)
def test_a_known_group_is_named_after_its_oldest_report(pairs, expected):
    group = linked_groups(pairs_of(*pairs), 6)
    assert group.dtype == np.int64
    assert group.tolist() == expected


def test_known_groups_do_not_depend_on_the_order_or_the_index_of_the_pairs():
    generator = np.random.default_rng(0)
    later = generator.integers(1, 40, size=25)
    pairs = pairs_of(*((int(generator.integers(row)), int(row), int(generator.integers(2))) for row in later))
    shuffled = pairs.iloc[generator.permutation(len(pairs))]
    assert (linked_groups(shuffled, 40) == linked_groups(pairs, 40)).all()
    # pair by pair, without a graph: groups are merged until nothing changes
    expected = np.arange(40)
    for _ in range(40):
        for pair in pairs[pairs["label"] == 1].itertuples():
            expected[[pair.document, pair.query]] = expected[[pair.document, pair.query]].min()
    assert (linked_groups(pairs, 40) == expected).all()
