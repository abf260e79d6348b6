"""The index against comparing all vectors one by one."""

import numpy as np
import pytest

from gedbd.models.index import FEW, VectorIndex


def unit(count: int, dim: int = 24, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def brute_force(vectors, queries, top_k, group=None, query_group=None):
    """Every product by itself, in float64."""
    rows, scores = [], []
    for place, query in enumerate(queries):
        found = []
        for row, vector in enumerate(vectors):
            if group is None or group[row] != query_group[place]:
                score = np.float32(sum(float(a) * float(b) for a, b in zip(vector, query, strict=True)))
                found.append((-score, row))
        best = sorted(found)[:top_k]
        missing = top_k - len(best)
        rows.append([row for _, row in best] + [-1] * missing)
        scores.append([-score for score, _ in best] + [-np.inf] * missing)
    return np.array(rows), np.array(scores, dtype=np.float32)


def filled(vectors: np.ndarray) -> VectorIndex:
    index = VectorIndex(vectors.shape[1])
    index.add(vectors)
    return index


@pytest.mark.parametrize("num_queries", [1, FEW, FEW + 60])
@pytest.mark.parametrize("top_k", [1, 10, 250, 400])
def test_search_is_exact(num_queries, top_k):
    vectors, queries = unit(300), unit(num_queries, seed=1)
    rows, scores = filled(vectors).search(queries, top_k)
    expected_rows, expected_scores = brute_force(vectors, queries, top_k)
    assert rows.dtype == np.int64
    assert scores.dtype == np.float32
    assert (rows == expected_rows).all()
    np.testing.assert_allclose(scores, expected_scores, atol=1e-7)


@pytest.mark.parametrize("num_queries", [1, FEW + 1])
def test_of_equal_vectors_the_older_comes_first(num_queries):
    few = unit(3)
    vectors = few[np.random.default_rng(0).integers(0, 3, 500)]
    rows, _ = filled(vectors).search(few[np.zeros(num_queries, dtype=int)], 200)
    expected, _ = brute_force(vectors, few[:1], 200)
    assert (rows == expected).all()


@pytest.mark.parametrize("num_queries", [1, FEW + 1])
def test_what_half_precision_cannot_tell_apart_is_told_apart(num_queries):
    """All vectors lie closer together than half precision sees."""
    vectors = unit(1)[0] + 1e-4 * unit(400, seed=1)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows, _ = filled(vectors).search(np.tile(vectors[7], (num_queries, 1)), 5)
    expected, _ = brute_force(vectors, vectors[7:8], 5)
    assert (rows == expected).all()


@pytest.mark.parametrize("num_queries", [2, FEW + 30])
def test_group_mates_are_left_out(num_queries):
    vectors, queries = unit(300), unit(num_queries, seed=1)
    group = np.random.default_rng(0).integers(0, 5, 300) * 7
    query_group = np.random.default_rng(1).integers(0, 6, num_queries) * 7
    rows, scores = filled(vectors).search(queries, 20, group, query_group)
    expected_rows, expected_scores = brute_force(vectors, queries, 20, group, query_group)
    assert (rows == expected_rows).all()
    np.testing.assert_allclose(scores, expected_scores, atol=1e-7)


@pytest.mark.parametrize("num_queries", [1, FEW + 1])
def test_an_exhausted_index_says_so(num_queries):
    vectors, group = unit(12), np.array([0] * 9 + [1] * 3)
    query_group = np.zeros(num_queries, dtype=int)
    rows, scores = filled(vectors).search(np.tile(vectors[0], (num_queries, 1)), 5, group, query_group)
    expected, _ = brute_force(vectors, vectors[:1], 5, group, query_group)
    assert (rows == expected).all()
    assert (rows[:, 3:] == -1).all()
    assert (scores[:, 3:] == -np.inf).all()
    rows, _ = filled(vectors).search(vectors[:1], 5, np.zeros(12), np.zeros(1))
    assert (rows == -1).all()


def test_a_row_itself_can_be_left_out():
    vectors = unit(50)
    rows, _ = filled(vectors).search(vectors, 49, np.arange(50), np.arange(50))
    assert not (rows == np.arange(50)[:, None]).any()
    assert (np.sort(rows, axis=1) != -1).all()


def test_adding_bit_by_bit_is_adding_at_once():
    vectors, queries = unit(200), unit(3, seed=1)
    index = VectorIndex(24)
    assert (index.search(queries, 2)[0] == -1).all()
    for start in range(0, 200, 7):
        index.add(vectors[start : start + 7])
    assert len(index) == 200
    assert (index.vectors == vectors).all()
    for mine, other in zip(index.search(queries, 9), filled(vectors).search(queries, 9), strict=True):
        assert (mine == other).all()


def test_a_zero_vector_scores_nothing():
    vectors = unit(20)
    vectors[4] = 0
    rows, scores = filled(vectors).search(unit(1, seed=1), 20)
    assert scores[rows == 4] == 0
    assert (filled(vectors).search(np.zeros((1, 24)), 3)[0] == [0, 1, 2]).all()


@pytest.mark.parametrize("wrong", [np.zeros(24), np.zeros((2, 23)), np.zeros((1, 2, 24))])
def test_other_shapes_are_refused(wrong):
    index = filled(unit(5))
    for call in (index.add, lambda vectors: index.search(vectors, 1)):
        with pytest.raises(ValueError, match=r"do not fit an index of \(N, 24\)"):
            call(wrong)
    assert len(index) == 5


def test_other_mistakes_are_refused():
    index = filled(unit(5))
    with pytest.raises(ValueError, match="vector 1 has length 2"):
        index.add(unit(2) * np.array([[1], [2]]))
    with pytest.raises(ValueError, match="vector 0 has length nan"):
        index.add(np.full((1, 24), np.nan))
    with pytest.raises(ValueError, match="top_k=0 must be 1 or more"):
        index.search(unit(1), 0)
    for group, query_group in ((np.arange(5), None), (np.arange(4), np.arange(1)), (np.arange(5), np.arange(2))):
        with pytest.raises(ValueError, match="each of 5 rows and 1 queries"):
            index.search(unit(1), 1, group, query_group)
