"""Metrics of pairs, and the threshold that is best for them."""

import numpy as np
import pytest
from sklearn import metrics

from gedbd.evaluation.pairwise import GRID, METRICS, best_threshold, pairwise_metrics


def test_worked_out_by_hand():
    scores = np.array([0.9, 0.8, 0.5, 0.4, -0.1, -0.6])
    labels = np.array([1, 0, 1, 1, 0, 1])
    found = pairwise_metrics(scores, labels, 0.5)
    # three are called duplicate, two rightly, of four; two of six go wrong on the one side, one on the other
    assert found["precision"] == pytest.approx(2 / 3)
    assert found["recall"] == pytest.approx(2 / 4)
    assert found["f1"] == pytest.approx(4 / 7)
    assert found["accuracy"] == pytest.approx(3 / 6)
    assert found["average_precision"] == pytest.approx((1 / 1 + 2 / 3 + 3 / 4 + 4 / 6) / 4)
    assert tuple(found) == METRICS
    nothing = pairwise_metrics(scores, labels, 0.95)
    assert [nothing[name] for name in ("precision", "recall", "f1", "accuracy")] == pytest.approx([0, 0, 0, 1 / 3])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threshold", [-0.5, 0.0, 0.35, 0.8])
def test_agrees_with_scikit_learn_for_negative_cosines_and_ties_too(dtype, threshold):
    generator = np.random.default_rng(0)
    for size in (5, 50, 500):
        labels = np.concatenate([[1], generator.integers(2, size=size)])
        scores = np.round(generator.uniform(-1, 1, size=size + 1), 2).astype(dtype)
        said = scores >= dtype(threshold)
        expected = {
            "precision": metrics.precision_score(labels, said, zero_division=0),
            "recall": metrics.recall_score(labels, said),
            "f1": metrics.f1_score(labels, said),
            "accuracy": metrics.accuracy_score(labels, said),
            "average_precision": metrics.average_precision_score(labels, scores),
        }
        assert pairwise_metrics(scores, labels, threshold) == pytest.approx(expected, abs=1e-5)


def test_scores_in_single_precision():
    scores = np.array([0.55, 0.54], dtype=np.float32)
    for threshold in (0.55, float(np.float32(0.55))):
        assert pairwise_metrics(scores, np.array([1, 0]), threshold)["f1"] == 1
    beyond = np.array([1.0000002, 0.9, -1.0000002], dtype=np.float32)  # cosines that pass 1 by rounding
    assert pairwise_metrics(beyond, np.array([1, 0, 0]), 0.95)["average_precision"] == 1


def test_the_best_threshold_worked_out_by_hand():
    assert GRID.tolist() == [round(step * 0.05, 2) for step in range(21)]  # of the paper
    scores, labels = np.array([0.9, 0.8, 0.7, 0.2]), np.array([1, 0, 1, 0])
    # from 0.7 on: 2 hits of 3, F1 = 4/5; from 0.9 on: 1 hit of 1, F1 = 2/3
    assert best_threshold(scores, labels) == 0.25
    assert best_threshold(scores, labels, np.array([0.0, 0.7, 0.75, 0.9])) == 0.7
    # the lowest of several equals
    assert best_threshold(np.array([0.9, 0.1]), np.array([1, 0])) == 0.15
    assert best_threshold(np.array([0.5, 0.5]), np.array([1, 1])) == 0.0
    assert best_threshold(np.array([-0.5, -0.7]), np.array([1, 0])) == 0.0  # nothing on the grid finds anything


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_score_on_the_threshold_counts_as_duplicate(dtype):
    for step in range(1, 21):
        scores = np.array([0.05 * step, 0.05 * step - 0.01], dtype=dtype).round(2)
        assert best_threshold(scores, np.array([1, 0])) == pytest.approx(0.05 * step)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_best_threshold_agrees_with_scikit_learn(dtype):
    generator = np.random.default_rng(0)
    for _ in range(20):
        labels = generator.integers(2, size=60)
        scores = np.round(generator.uniform(-1, 1, size=60) + 0.3 * labels, 1).clip(-1, 1).astype(dtype)
        predicted = scores[:, None] >= GRID.astype(dtype)
        f1 = metrics.f1_score(np.tile(labels[:, None], len(GRID)), predicted, average=None, zero_division=0)
        assert best_threshold(scores, labels) == GRID[int(np.argmax(f1))]
