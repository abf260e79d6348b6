"""Each model learns a simple relation from few rows."""

import numpy as np
import pytest
import torch
from sklearn.dummy import DummyRegressor
from sklearn.tree import DecisionTreeRegressor

from gedbd.questions.confirmation import regressors
from gedbd.questions.confirmation.regression_methods import RegressionMethod, permutation_importance, rmse


@pytest.fixture(scope="module")
def rows():
    """120 rows; y is 3 where the first of four columns is above 0, else 1."""
    x = np.random.default_rng(0).normal(size=(120, 4))
    return regressors.Examples(x[:80], np.where(x[:80, 0] > 0, 3.0, 1.0)), regressors.Examples(
        x[80:], np.where(x[80:, 0] > 0, 3.0, 1.0)
    )


@pytest.mark.parametrize(
    "model",
    [
        regressors.LibraryModel(DecisionTreeRegressor(max_depth=7, random_state=0)),
        regressors.xgboost(n_estimators=30, max_depth=7, learning_rate=0.1),
        regressors.GradientBoosting(trees=40, repeats=2),
        regressors.Mlp([32, 16], lr=0.01, max_epochs=60),
        regressors.extra_trees(n_estimators=20, min_samples_leaf=2, random_state=0),
    ],
    ids=["decision tree", "xgboost", "boosting", "mlp", "extra trees"],
)
def test_a_model_learns_and_repeats_itself(rows, model):
    train, val = rows
    model.fit(train, val)
    predicted = model.predict(val.x)
    assert rmse(predicted, val.y) < 0.5 * val.y.std()
    model.fit(train, val)
    np.testing.assert_array_equal(model.predict(val.x), predicted)


def test_ridge_reads_ranks_and_fills_in_what_is_missing():
    x = np.array([[1.0, np.nan], [10, np.nan], [100, np.nan], [1000, np.nan], [10000, np.nan]])
    model = regressors.RankRidge(l2=0)
    model.fit(regressors.Examples(x, np.arange(5.0)), regressors.Examples(x, np.arange(5.0)))
    # Quantiles 0, 1/4, ... 1; beyond the training rows they stay there. A missing value is the median, 100.
    asked = np.array([[10, 0], [10**9, 0], [np.nan, 0]])
    np.testing.assert_allclose(model.predict(asked), [1, 4, 2], atol=1e-6)


def test_a_blend_is_the_mean_of_its_models(rows):
    median = regressors.LibraryModel(DummyRegressor(strategy="median"))
    models = {"median": median, "trees": regressors.extra_trees(n_estimators=5)}
    blend = regressors.Blend(models)
    blend.fit(*rows)
    parts = [model.predict(rows[1].x) for model in models.values()]
    np.testing.assert_allclose(blend.predict(rows[1].x), (parts[0] + parts[1]) / 2)
    with pytest.raises(ValueError, match="a blend has no models"):
        regressors.Blend({})


def test_each_question_has_its_own_layers_and_the_output_is_shrunk():
    network = regressors.PairNetwork(2, [2])
    with torch.no_grad():
        network.anchor[0].weight.copy_(torch.eye(2))
        network.anchor[0].bias.zero_()
        network.master[0].weight.copy_(2 * torch.eye(2))
        network.master[0].bias.zero_()
        network.last.weight.copy_(torch.tensor([[1.0, 1, 2, 1]]))
        network.last.bias.fill_(0.5)
    # relu(1, -2) = (1, 0) and relu(6, 2) = (6, 2): 1 + 0 + 12 + 2 + 0.5 = 15.5
    value = network(torch.tensor([[1.0, -2, 3, 1]]))
    assert value.item() == pytest.approx(15.5 - np.tanh(15.5))


def test_the_mlp_keeps_the_best_epoch(rows):
    train, val = rows
    model = regressors.Mlp([16, 8], lr=0.05, max_epochs=30, patience=3)
    model.fit(train, val)
    best = np.abs(model.predict(val.x) - val.y).mean()
    other = regressors.Mlp([16, 8], lr=0.05, max_epochs=model.best_epoch_, patience=30)
    other.fit(train, val)
    assert np.abs(other.predict(val.x) - val.y).mean() == best


def test_only_the_feature_that_matters_is_important(rows):
    model = regressors.LibraryModel(DecisionTreeRegressor(max_depth=1, random_state=0))
    model.fit(*rows)
    table = permutation_importance(model, rows[1], ["a", "b", "c", "d"])
    assert table["feature"][0] == "a"
    assert table["importance"][0] > 0.3
    assert (table["importance"][1:] == 0).all()


def test_an_unknown_feature_set_is_refused():
    with pytest.raises(ValueError, match=r"features=views is unknown: choose question, pair, text, network"):
        RegressionMethod(regressors.LibraryModel(DummyRegressor()), ("views",))


def test_boosting_leaves_out_a_feature_that_no_training_anchor_has(rows):
    train, val = rows
    empty = np.full((len(train.y), 1), np.nan)
    model = regressors.GradientBoosting(trees=40, repeats=2)
    model.fit(regressors.Examples(np.hstack([train.x, empty]), train.y), val)
    asked = np.hstack([val.x, np.ones((len(val.y), 1))])  # a value that training never showed changes nothing
    without = regressors.GradientBoosting(trees=40, repeats=2)
    without.fit(train, val)
    np.testing.assert_allclose(model.predict(asked), without.predict(val.x))
