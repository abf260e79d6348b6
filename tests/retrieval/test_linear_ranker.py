import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from small_reports import PrecomputedScores

from gedbd.retrieval.linear_ranker import LinearRanker, learn_weights
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs
from gedbd.retrieval.scorers.simple_scorers import Constant
from gedbd.sampling.pairs import positive_pairs


def pairs_of(group: np.ndarray, until: int | None = None) -> pd.DataFrame:
    """All duplicate pairs among the first reports, and as many negatives."""
    earlier, later = positive_pairs(group[:until])
    positive = pd.DataFrame({"earlier": earlier, "later": later, "label": 1})
    wrong = [(row, other) for row, other in zip(later - 1, later, strict=True) if group[row] != group[other]]
    negative = pd.DataFrame(np.array(wrong, dtype=np.int64).reshape(-1, 2), columns=["earlier", "later"])
    return pd.concat([positive, negative.assign(label=0)], ignore_index=True)


def groups_of(size: int, reports_a_group: int, seed: int = 0) -> np.ndarray:
    """Random groups, each numbered by its oldest report."""
    label = np.random.default_rng(seed).permutation(np.arange(size) // reports_a_group)
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    return np.asarray(first[inverse], dtype=np.int64)


def noisy(group: np.ndarray, signal: float, seed: int) -> np.ndarray:
    """Standard normal scores, higher by a signal where two reports are duplicates."""
    noise = np.random.default_rng(seed).normal(size=(len(group), len(group)))
    return noise + signal * (group[:, None] == group)


def standardised(scores: np.ndarray, row: int) -> np.ndarray:
    """Features of the earlier reports of one query, ``(F, N, N) -> (row, F)``."""
    mine = scores[:, row, :row].astype(np.float32).astype(np.float64)
    return ((mine - mine.mean(axis=1, keepdims=True)) / mine.std(axis=1, keepdims=True)).T


def plain_loss(weights: np.ndarray, lists: list[np.ndarray], relevant: list[np.ndarray], l2: float) -> float:
    """-log of the softmax probability of the relevant ones, one list at a time, and the penalty."""
    losses = []
    for features, right in zip(lists, relevant, strict=True):
        power = np.exp(features @ weights)
        losses.append(-np.log(power[right].sum() / power.sum()))
    return float(np.mean(losses) + l2 * (weights**2).sum())


def best_weights(lists: list[np.ndarray], relevant: list[np.ndarray], l2: float) -> np.ndarray:
    """The optimum found without a gradient of ours."""
    start = np.zeros(lists[0].shape[1])
    return np.asarray(minimize(plain_loss, start, args=(lists, relevant, l2), method="BFGS", tol=1e-8).x)


def made_up_lists(seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Lists of several lengths with one relevant place or more, which the features tell weakly."""
    generator = np.random.default_rng(seed)
    lists, relevant = [], []
    for length in (9, 4, 7, 2, 9, 6, 8, 5):
        right = np.arange(length) < generator.integers(1, min(length, 4))
        lists.append(generator.normal(size=(length, 3)) + right[:, None] * np.array([1.0, 0.2, -0.5]))
        relevant.append(right)
    return lists, relevant


def padded(lists: list[np.ndarray], relevant: list[np.ndarray], length: int) -> tuple[np.ndarray, np.ndarray]:
    features = np.full((len(lists), length, lists[0].shape[1]), np.nan, dtype=np.float64)
    right = np.zeros((len(lists), length), dtype=bool)
    for place, (mine, marks) in enumerate(zip(lists, relevant, strict=True)):
        features[place, : len(mine)], right[place, : len(mine)] = mine, marks
    return features, right


@pytest.mark.parametrize("l2", [0.001, 0.1])
@pytest.mark.parametrize("seed", [0, 1])
def test_learnt_weights_are_those_of_a_plain_optimiser(seed, l2):
    lists, relevant = made_up_lists(seed)
    expected = best_weights(lists, relevant, l2)
    found = learn_weights(*padded(lists, relevant, 9), l2)
    assert np.abs(expected).min() > 0.01
    np.testing.assert_allclose(found, expected, atol=2e-3)
    assert plain_loss(found, lists, relevant, l2) == pytest.approx(plain_loss(expected, lists, relevant, l2), abs=1e-6)


def test_scores_are_weighted_sums_standardised_over_the_earlier_reports(make_corpus):
    group = groups_of(30, 3)
    scores = np.stack([noisy(group, 1.0, seed=1) * 7 - 100, noisy(group, 1.0, seed=2) * 0.01])
    learnt = LinearRanker({"first": PrecomputedScores(scores[0]), "second": PrecomputedScores(scores[1])})
    learnt.fit(ScorerInputs.of_reports(make_corpus(group).reports, pairs_of(group)))
    assert list(learnt.weights_) == ["first", "second"]
    rows = np.array([29, 2, 17])
    found = learnt.scores(rows)
    assert found.shape == (3, 30)
    for place, row in enumerate(rows):
        expected = standardised(scores, row) @ np.array(list(learnt.weights_.values()))
        np.testing.assert_allclose(found[place, :row], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("rounds", [1, 2])
def test_the_loss_runs_over_the_200_highest_with_all_relevant_ones(make_corpus, rounds):
    group = groups_of(330, 3)
    scores = np.stack([noisy(group, 1.5, 1), noisy(group, 0.5, 2)])
    learnt = LinearRanker(
        {"first": PrecomputedScores(scores[0]), "second": PrecomputedScores(scores[1])}, l2=0.01, rounds=rounds
    )
    learnt.fit(ScorerInputs.of_reports(make_corpus(group).reports, pairs_of(group)))
    weights = np.ones(2)
    for _ in range(rounds):
        lists, relevant = [], []
        for row in (row for row in range(2, 330) if group[row] < row):
            features, right = standardised(scores, row), group[:row] == group[row]
            wrong = sorted(np.flatnonzero(~right), key=lambda one, f=features, w=weights: -(f[one] @ w))
            kept = [*np.flatnonzero(right), *wrong][:200]
            lists.append(features[kept])
            relevant.append(right[kept])
        weights = best_weights(lists, relevant, 0.01)
    assert max(map(len, lists)) == 200
    np.testing.assert_allclose(list(learnt.weights_.values()), weights, atol=5e-3)


def test_a_constant_feature_adds_nothing(make_corpus):
    group = groups_of(80, 4)
    corpus, train, scores = make_corpus(group), pairs_of(group), noisy(group, 2.0, 1)
    alone = LinearRanker({"telling": PrecomputedScores(scores)})
    both = LinearRanker({"constant": Constant(), "telling": PrecomputedScores(scores)})
    alone.fit(ScorerInputs.of_reports(corpus.reports, train))
    both.fit(ScorerInputs.of_reports(corpus.reports, train))
    assert both.weights_["constant"] == 0
    assert both.weights_["telling"] == pytest.approx(alone.weights_["telling"], rel=1e-3)
    rows = np.arange(1, 80)
    expected = alone.scores(rows) * np.float32(both.weights_["telling"] / alone.weights_["telling"])
    np.testing.assert_allclose(both.scores(rows), expected, rtol=1e-4, atol=1e-4)


GROUP = np.array([0, 1, 0, 3, 4, 1, 6, 0, 8, 1])
# Queries 2, 5, 7 and 9 have a duplicate; 4 and 8 have only a negative pair.
PAIRS = pd.DataFrame(
    [(0, 2, 1), (1, 4, 0), (1, 5, 1), (2, 7, 1), (3, 7, 0), (6, 8, 0), (5, 9, 1)], columns=["earlier", "later", "label"]
)
ALL = [(0, 2), (1, 4), (1, 5), (2, 7), (3, 7), (6, 8), (5, 9)]
SCORES = (
    np.random.default_rng(3).normal(size=(2, 10, 10)) + (GROUP[:, None] == GROUP) * np.array([1.0, 0.4])[:, None, None]
)


class Spy(PrecomputedScores):
    """Remembers the pairs it was fitted to."""

    def fit(self, inputs: ScorerInputs) -> None:
        self.pairs = list(zip(inputs.train["document"].tolist(), inputs.train["query"].tolist(), strict=True))
        self.documents = len(inputs.documents)


@pytest.mark.parametrize(
    ("held_out", "fitted_to", "weighed_on"),
    [(0.0, ALL, [2, 5, 7, 9]), (0.25, ALL[:6], [9]), (0.5, ALL[:3], [7, 9]), (0.75, ALL[:2], [5, 7, 9])],
)
def test_features_are_fitted_to_the_pairs_of_the_older_queries_and_weights_learnt_on_the_latest(
    make_corpus, held_out, fitted_to, weighed_on
):
    spies = {"first": Spy(SCORES[0]), "second": Spy(SCORES[1])}
    learnt = LinearRanker(spies, l2=0.01, held_out=held_out)
    learnt.fit(ScorerInputs.of_reports(make_corpus(GROUP).reports, PAIRS))
    assert [spy.pairs for spy in spies.values()] == [fitted_to, fitted_to]
    assert [spy.documents for spy in spies.values()] == [10, 10]
    lists = [standardised(SCORES, row) for row in weighed_on]
    expected = best_weights(lists, [GROUP[:row] == GROUP[row] for row in weighed_on], 0.01)
    np.testing.assert_allclose(list(learnt.weights_.values()), expected, atol=5e-3)


@pytest.mark.parametrize("held_out", [0.05, 0.95])
def test_a_share_that_leaves_one_of_them_no_query_is_told(make_corpus, held_out):
    learnt = LinearRanker({"first": PrecomputedScores(SCORES[0])}, held_out=held_out)
    with pytest.raises(ValueError, match="held_out leaves no training query to fit the features, or none"):
        learnt.fit(ScorerInputs.of_reports(make_corpus(GROUP).reports, PAIRS))
