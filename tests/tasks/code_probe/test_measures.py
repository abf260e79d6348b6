"""Measures of resampled methods against scikit-learn on the rows that the samples hold."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, average_precision_score, f1_score

from gedbd.tasks.code_probe.measures import accuracy, average_precision, macro_f1, mean, reciprocal_ranks

NUM_METHODS = 20
NUM_ROWS = 200


@pytest.fixture(scope="module")
def rows():
    """Labels, predictions, scores with ties, the method of each row, and how often each method is in 30 samples."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 4, NUM_ROWS)
    predicted = np.where(rng.random(NUM_ROWS) < 0.5, label, rng.integers(0, 6, NUM_ROWS))
    score = rng.normal(size=NUM_ROWS).round(1)
    method = np.sort(rng.integers(0, NUM_METHODS, NUM_ROWS))
    weight = rng.integers(0, 4, (30, NUM_METHODS)).astype(float)
    return label, predicted, score, method, weight


def in_samples(function, first, second, method, weight):
    """A measure of scikit-learn on the repeated rows of each sample."""
    times = weight[:, method].astype(int)
    return [function(np.repeat(first, each), np.repeat(second, each)) for each in times]


def test_accuracy_and_macro_f1_are_those_of_scikit_learn(rows):
    label, predicted, _, method, weight = rows

    def f1(true, guessed):
        return f1_score(true, guessed, average="macro", labels=np.unique(true), zero_division=0)

    found = accuracy(predicted, label, method, NUM_METHODS)(weight)
    assert found == pytest.approx(in_samples(accuracy_score, label, predicted, method, weight))
    found = macro_f1(predicted, label, method, NUM_METHODS)(weight)
    assert found == pytest.approx(in_samples(f1, label, predicted, method, weight))


def test_average_precision_is_that_of_scikit_learn_with_equal_scores(rows):
    label, _, score, method, weight = rows
    positive = (label == 1).astype(int)
    found = average_precision(score, positive, method)(weight)
    assert found == pytest.approx(in_samples(average_precision_score, positive, score, method, weight))
    assert np.isnan(average_precision(score, np.zeros(NUM_ROWS), method)(weight)).all()


def test_a_mean_counts_rows_not_methods():
    metric = mean(np.array([1.0, 0.0, 0.0, 0.5]), np.array([0, 0, 0, 1]), 2)
    # (1 + 0 + 0 + 0.5) / 4; the first method twice: (2 + 0.5) / 7; no method at all: 0.
    assert metric(np.array([[1.0, 1.0], [2.0, 1.0], [0.0, 0.0]])) == pytest.approx([0.375, 2.5 / 7, 0])


def test_reciprocal_ranks_with_equal_scores():
    scores = np.array([[0.9, 0.1, 0.2], [0.5, 0.5, 0.5], [0.7, 0.6, 0.1]])
    assert reciprocal_ranks(scores) == pytest.approx([1, 1 / 2, 1 / 3])
