import numpy as np
import pytest
from sklearn.metrics import f1_score

from gedbd.evaluation.pairwise import GRID, best_threshold


def test_the_grid_is_that_of_the_paper():
    assert GRID.tolist() == [round(step * 0.05, 2) for step in range(21)]


def test_worked_out_by_hand():
    scores, labels = np.array([0.9, 0.8, 0.7, 0.2]), np.array([1, 0, 1, 0])
    # from 0.7 on: 2 hits of 3, F1 = 4/5; from 0.9 on: 1 hit of 1, F1 = 2/3
    assert best_threshold(scores, labels) == 0.25
    assert best_threshold(scores, labels, np.array([0.0, 0.7, 0.75, 0.9])) == 0.7


def test_the_lowest_of_several_equals():
    scores, labels = np.array([0.9, 0.1]), np.array([1, 0])
    assert best_threshold(scores, labels) == 0.15
    assert best_threshold(np.array([0.5, 0.5]), np.array([1, 1])) == 0.0
    assert best_threshold(np.array([-0.5, -0.7]), np.array([1, 0])) == 0.0  # nothing on the grid finds anything


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_score_on_the_threshold_counts_as_duplicate(dtype):
    for step in range(1, 21):
        scores = np.array([0.05 * step, 0.05 * step - 0.01], dtype=dtype).round(2)
        assert best_threshold(scores, np.array([1, 0])) == pytest.approx(0.05 * step)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_scikit_learn(dtype):
    generator = np.random.default_rng(0)
    for _ in range(20):
        labels = generator.integers(2, size=60)
        scores = np.round(generator.uniform(-1, 1, size=60) + 0.3 * labels, 1).clip(-1, 1).astype(dtype)
        predicted = scores[:, None] >= GRID.astype(dtype)
        f1 = f1_score(np.tile(labels[:, None], len(GRID)), predicted, average=None, zero_division=0)
        assert best_threshold(scores, labels) == GRID[int(np.argmax(f1))]
