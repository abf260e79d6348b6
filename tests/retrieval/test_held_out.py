"""``held_out`` of the linear ranker: features and weights learn from different queries."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from gedbd.retrieval.linear_ranker import LinearRanker
from gedbd.retrieval.scorers.scorer_contract import PrecomputedScores, ScorerInputs

GROUP = np.array([0, 1, 0, 3, 4, 1, 6, 0, 8, 1])
# Queries 2, 5, 7 and 9 have a duplicate; 4 and 8 have only a negative pair.
PAIRS = pd.DataFrame(
    [(0, 2, 1), (1, 4, 0), (1, 5, 1), (2, 7, 1), (3, 7, 0), (6, 8, 0), (5, 9, 1)],
    columns=["earlier", "later", "label"],
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


def plain_weights(rows: list[int]) -> np.ndarray:
    """The weights that give the duplicates of some queries the highest probability, l2 0.01."""

    def loss(weights: np.ndarray) -> float:
        losses = []
        for row in rows:
            mine = SCORES[:, row, :row]
            power = np.exp(weights @ ((mine - mine.mean(1, keepdims=True)) / mine.std(1, keepdims=True)))
            losses.append(-np.log(power[GROUP[:row] == GROUP[row]].sum() / power.sum()))
        return float(np.mean(losses) + 0.01 * (weights**2).sum())

    return np.asarray(minimize(loss, np.zeros(2), method="BFGS", tol=1e-8).x)


@pytest.mark.parametrize(
    ("held_out", "fitted_to", "weighed_on"),
    [
        (0.0, ALL, [2, 5, 7, 9]),
        (0.25, ALL[:6], [9]),
        (0.5, ALL[:3], [7, 9]),
        (0.75, ALL[:2], [5, 7, 9]),
    ],
)
def test_features_are_fitted_to_the_pairs_of_the_older_queries_and_weights_learnt_on_the_latest(
    make_corpus, held_out, fitted_to, weighed_on
):
    spies = {"first": Spy(SCORES[0]), "second": Spy(SCORES[1])}
    learnt = LinearRanker(spies, l2=0.01, held_out=held_out)
    learnt.fit(ScorerInputs.of_reports(make_corpus(GROUP).reports, PAIRS))
    assert [spy.pairs for spy in spies.values()] == [fitted_to, fitted_to]
    assert [spy.documents for spy in spies.values()] == [10, 10]
    np.testing.assert_allclose(list(learnt.weights_.values()), plain_weights(weighed_on), atol=5e-3)


@pytest.mark.parametrize("held_out", [0.05, 0.95])
def test_a_share_that_leaves_one_of_them_no_query_is_told(make_corpus, held_out):
    learnt = LinearRanker({"first": PrecomputedScores(SCORES[0])}, held_out=held_out)
    with pytest.raises(ValueError, match="held_out leaves no training query to fit the features, or none"):
        learnt.fit(ScorerInputs.of_reports(make_corpus(GROUP).reports, PAIRS))


@pytest.mark.parametrize("held_out", [-0.1, 1.0])
def test_a_share_outside_of_its_range_is_told(held_out):
    with pytest.raises(ValueError, match=f"held_out={held_out} must be at least 0 and below 1"):
        LinearRanker({"first": PrecomputedScores(SCORES[0])}, held_out=held_out)
