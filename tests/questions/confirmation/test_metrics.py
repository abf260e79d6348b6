"""Metrics against scipy, intervals against an independent computation, and the tables of a comparison."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import mannwhitneyu, spearmanr
from sklearn.dummy import DummyRegressor

from gedbd.questions.confirmation.confirmation_results import (
    beside_published,
    compare_methods,
    compare_network,
    decile_table,
)
from gedbd.questions.confirmation.regression_methods import (
    AnchorData,
    Prediction,
    RegressionMethod,
    interval_of,
    rmse,
    spearman,
    weighted_rmse,
    weighted_spearman,
)
from gedbd.questions.confirmation.regressors import LibraryModel


@pytest.fixture(scope="module")
def data() -> AnchorData:
    rng = np.random.default_rng(0)
    anchors = pd.DataFrame({"target": rng.normal(size=90), "group": np.arange(90) // 2})
    part = np.repeat([0, 1, 2], 30)
    return AnchorData(anchors, part == 0, part == 1, part < 2, part == 2, {})


@pytest.fixture(scope="module")
def predictions(data):
    rng = np.random.default_rng(1)
    noise = {"median": np.zeros(90), "text_mlp": rng.normal(size=90), "text_network_mlp": data.y + rng.normal(size=90)}
    noise["median"] += 0.1
    return {name: Prediction(values[data.val], values[data.test]) for name, values in noise.items()}


def test_rho_and_rmse_are_those_of_scipy_and_intervals_and_deciles_by_hand(data, predictions):
    predicted = np.round(predictions["text_mlp"].test, 0)  # with ties
    true = data.y[data.test]
    assert spearman(predicted, true) == pytest.approx(spearmanr(predicted, true).statistic)
    assert np.isnan(spearman(np.ones(30), true))
    assert rmse(np.array([1.0, 5]), np.array([1.0, 2])) == pytest.approx(np.sqrt(4.5))
    assert interval_of(np.arange(11.0)) == pytest.approx((1, 9))
    table = decile_table(np.arange(20.0)[::-1], np.arange(20.0))
    assert table["anchors"].tolist() == [2] * 10
    assert table["predicted"].tolist() == [0.5 + 2 * number for number in range(10)]
    assert table["true"].tolist() == [18.5 - 2 * number for number in range(10)]


def test_a_weighted_sample_is_one_with_repeated_rows():
    rng = np.random.default_rng(2)
    predicted, true = rng.integers(0, 5, (2, 20)).astype(float)
    weight = rng.integers(0, 3, (4, 20))
    for drawn, rho, error in zip(
        weight, weighted_spearman(predicted, true, weight), weighted_rmse(predicted, true, weight), strict=True
    ):
        rows = np.repeat(np.arange(20), drawn)
        assert rho == pytest.approx(spearmanr(predicted[rows], true[rows]).statistic)
        assert error == pytest.approx(np.sqrt(np.mean((predicted[rows] - true[rows]) ** 2)))


def test_the_best_method_on_validation_comes_first(data, predictions):
    methods = {name: RegressionMethod(LibraryModel(DummyRegressor(strategy="median"))) for name in predictions}
    table = compare_methods(predictions, methods, data)
    assert table["method"].tolist() == ["text_network_mlp", "text_mlp", "median"]
    best = table.iloc[0]
    assert best["spearman_low"] < best["spearman"] < best["spearman_high"]
    assert best["rmse_difference"] == pytest.approx(best["rmse"] - table["rmse"][2])
    assert table["rmse_difference"][2] == table["rmse_difference_low"][2] == 0
    assert np.isnan(table["spearman"][2])


def test_the_network_is_compared_on_the_same_anchors(data, predictions):
    row = compare_network(predictions, data).iloc[0]
    first, second = predictions["text_network_mlp"].test, predictions["text_mlp"].test
    true = data.y[data.test]
    expected = spearmanr(first, true).statistic - spearmanr(second, true).statistic
    assert (row["method"], row["against"]) == ("text_network_mlp", "text_mlp")
    assert row["spearman_difference"] == pytest.approx(expected)
    assert row["mann_whitney_p"] == mannwhitneyu(first, second).pvalue


def test_the_published_numbers_stand_beside_ours():
    table = pd.DataFrame({"method": ["mine", "text_mlp"], "rmse": [1.0, 1.1], "spearman": [0.5, 0.3]})
    both = beside_published(table).set_index("method")
    assert both.loc["text_mlp"].tolist() == [1.186, 1.1, 0.208, 0.3]
    assert both.loc["text_network_xgboost", ["paper_rmse", "paper_spearman"]].tolist() == [1.262, 0.202]
    assert both.index[-1] == "mine"
