import numpy as np
import pytest
import torch

from gedbd.retrieval.vectors import cosine, distinct, places, spread


def unit(count: int, dim: int = 5) -> np.ndarray:
    vectors = np.random.default_rng(0).normal(size=(count, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_distinct_reports_are_those_of_numpy():
    generator = np.random.default_rng(0)
    rows = generator.integers(0, 50, size=200)
    vectors = generator.normal(size=(200, 3))
    expected, first = np.unique(rows, return_index=True)
    n_id, kept = distinct(torch.from_numpy(rows), torch.from_numpy(vectors))
    assert (n_id.numpy() == expected).all()
    assert (kept.numpy() == vectors[first]).all()


def test_places_among_sorted_rows():
    n_id = torch.tensor([2, 7, 9, 12])
    assert places(n_id, np.array([9, 2, 12, 9])).tolist() == [2, 0, 3, 2]
    assert places(n_id, np.array([[7, 2], [12, 12]])).tolist() == [[1, 0], [3, 3]]


@pytest.mark.parametrize("missing", [1, 8, 13])
def test_a_report_without_a_vector_is_refused(missing):
    message = "reports were not encoded: leave out trainer.limit_val_batches and limit_test_batches"
    with pytest.raises(ValueError, match=message):
        places(torch.tensor([2, 7, 9, 12]), np.array([7, missing]))


def test_cosines_of_pairs():
    vectors = unit(6)
    index = np.array([[0, 5, 3], [4, 5, 1]])
    scores = cosine(torch.from_numpy(vectors), torch.from_numpy(index))
    assert isinstance(scores, np.ndarray)
    expected = [vectors[a] @ vectors[b] for a, b in index.T]
    assert scores == pytest.approx(expected, abs=1e-6)
    assert scores[1] == pytest.approx(1)


def test_reports_left_out_score_nothing_and_the_others_their_cosine():
    vectors, rows = unit(3), np.array([6, 1, 4])
    scores = spread(rows, vectors, 8).scores(np.array([1, 6]))
    assert scores.shape == (2, 8)
    assert scores.dtype == np.float32
    assert (scores[:, [0, 2, 3, 5, 7]] == 0).all()
    assert scores[:, rows] == pytest.approx(vectors[[1, 0]] @ vectors.T, abs=1e-6)
