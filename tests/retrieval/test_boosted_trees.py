"""Boosted trees: NumPy's evaluation equals LightGBM's, contributions sum to it, damaged text is refused."""

import json

import lightgbm
import numpy as np
import pytest

from gedbd.retrieval.boosted_trees import BoostedTrees, LabelledLists, RegressionTree, fit_boosted_trees, read_trees

# x0 <= 1 -> leaf 0; else x1 <= 5 -> leaf 1, else leaf 2. A missing x0 goes right, a missing x1 left.
HAND = RegressionTree(
    *(np.array([0, 1]), np.array([1.0, 5.0]), np.array([False, True]), np.array([-1, -2]), np.array([1, -3])),
    *(np.array([10.0, 20.0, 40.0]), np.array([2, 1, 1])),
)


def make_lists(seed: int, queries: int = 30, missing: float = 0.1) -> LabelledLists:
    """Lists of 20 to 40 candidates, the best ones with high x0 and x2, with missing values in x0 and x1."""
    rng = np.random.default_rng(seed)
    features, relevance = [], []
    for _ in range(queries):
        rows = rng.normal(size=(rng.integers(20, 40), 5)).round(2)
        merit = rows[:, 0] + rows[:, 2] * rows[:, 1] + 0.3 * rng.normal(size=len(rows))
        relevance.append((merit > np.sort(merit)[-3]).astype(np.int64))
        rows[:, :2][rng.random((len(rows), 2)) < missing] = np.nan
        features.append(rows)
    return LabelledLists(features, relevance)


@pytest.fixture(scope="module")
def trees() -> BoostedTrees:
    return fit_boosted_trees(make_lists(0), seeds=(0, 1), rounds=20, min_child=5)


def test_a_hand_made_tree():
    trees = BoostedTrees([HAND, HAND], 2)
    features = np.array([[1.0, 9.0], [1.1, 5.0], [2.0, 5.1], [np.nan, np.nan], [-np.inf, np.inf]])
    assert trees.predict(features).tolist() == [20.0, 40.0, 80.0, 40.0, 20.0]
    # The mean is (2 * 10 + 20 + 40) / 4 = 20 a tree, below the right branch (20 + 40) / 2 = 30.
    expected = [[-20, 0, 40], [20, -20, 40], [20, 20, 40], [20, -20, 40], [-20, 0, 40]]
    assert trees.contributions(features).tolist() == expected


@pytest.mark.parametrize(("num_leaves", "missing"), [(2, 0.1), (8, 0.0), (15, 0.1), (31, 0.0), (64, 0.3)])
def test_predictions_equal_those_of_lightgbm(num_leaves, missing):
    lists = make_lists(1, missing=missing)
    options = {"objective": "lambdarank", "num_leaves": num_leaves, "min_data_in_leaf": 3, "verbosity": -1}
    data = lightgbm.Dataset(np.concatenate(lists.features), np.concatenate(lists.relevance))
    booster = lightgbm.train(options, data.set_group([len(labels) for labels in lists.relevance]), 30)
    trees = BoostedTrees(read_trees(booster.model_to_string()), 5)
    asked = np.random.default_rng(2).normal(size=(300, 5)).round(2)
    asked[np.random.default_rng(3).random(asked.shape) < 0.1] = np.nan
    asked[:3] = [[0] * 5, [np.inf] * 5, [-np.inf] * 5]
    np.testing.assert_allclose(trees.predict(asked), booster.predict(asked), rtol=0, atol=1e-9)
    contributions = trees.contributions(asked)
    np.testing.assert_allclose(contributions.sum(axis=1), trees.predict(asked), rtol=0, atol=1e-9)
    theirs = booster.predict(asked, pred_contrib=True)
    np.testing.assert_allclose(contributions[:, -1], theirs[:, -1], rtol=0, atol=1e-9)
    if num_leaves == 2:  # with one split a tree, the order of the features does not matter
        np.testing.assert_allclose(contributions, theirs, rtol=0, atol=1e-9)


def test_text_and_back(trees):
    features = make_lists(3).features[0]
    again = BoostedTrees.from_text(trees.to_text())
    np.testing.assert_array_equal(again.predict(features), trees.predict(features))
    assert again.to_text() == trees.to_text()


def test_a_tree_of_one_leaf_and_no_candidate():
    leaf = RegressionTree(
        *(np.empty(0, dtype=kind) for kind in (int, float, bool, int, int)), np.ones(1), np.ones(1, int)
    )
    trees = BoostedTrees.from_text(BoostedTrees([leaf, HAND], 2).to_text())
    assert trees.predict(np.zeros((2, 2))).tolist() == [11, 11]
    assert trees.contributions(np.zeros((1, 2))).tolist() == [[-10, 0, 21]]
    assert trees.predict(np.empty((0, 2))).shape == (0,)
    assert trees.contributions(np.empty((0, 2))).shape == (0, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"left": [0, -2]}, "do not form a tree"),  # a split above itself
        ({"right": [0, -3]}, "do not form a tree"),
        ({"left": [-1, -1]}, "do not form a tree"),  # a leaf with two parents
        ({"left": [-9, -2]}, "do not form a tree"),
        ({"feature": [0, 2]}, "not from 0 to 1"),
        ({"threshold": [1, float("nan")]}, "is not a number"),
        ({"value": [1, 2, float("inf")]}, "is not a number"),
        ({"value": [1, 2]}, "leaves"),
        ({"value": [[1], [2], [3]]}, "leaves"),
        ({"value": [1, 2, "x"]}, "'value'"),
        ({"size": None}, "'size'"),
        ({"size": [1, 1, -1]}, "below 0"),
        ({"left": [10**30, 1]}, "'left'"),
    ],
)
def test_a_damaged_tree_is_refused(change, message):
    header, line = BoostedTrees([HAND], 2).to_text().splitlines()
    with pytest.raises(ValueError, match=message) as error:
        BoostedTrees.from_text(f"{header}\n{json.dumps(json.loads(line) | change)}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    ["", "\n", "[]", "{}", "[" * 100_000, '{"format": 1, "num_features": 2, "num_trees": 0}', "9" * 10_000, "\x00"],
)
def test_damaged_text_is_refused(text):
    with pytest.raises(ValueError, match="boosted trees"):
        BoostedTrees.from_text(text)
