"""The nearest vectors are those of a plain product, whatever was added, replaced and removed."""

from copy import copy

import numpy as np
import pytest

from gedbd.retrieval.reports import vector_table
from gedbd.retrieval.reports.vector_table import Int8Vectors, VectorTable, encode_vectors

DIM = 24


@pytest.fixture(autouse=True)
def _few_are_coded(monkeypatch):
    monkeypatch.setattr(vector_table, "MIN_CODED", 50)
    monkeypatch.setattr(vector_table, "BLOCK", 64)


def some_vectors(seed, count):
    """Unit vectors around few centres, some of them twice."""
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(5, DIM))[generator.integers(0, 5, count)] + generator.normal(size=(count, DIM))
    vectors[count // 2 :: 7] = vectors[: len(vectors[count // 2 :: 7])]
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def nearest(table, query, depth, before=None, allowed=None):
    """The nearest by the table's rough cosines, and exact ones where these do not decide."""
    likely = table.rough_cosines(query, before).highest(depth, allowed)
    return sorted(likely.rows(lambda rows: table.cosines(rows, query)).tolist())


def expected(vectors, query, depth, allowed=None):
    cosines = np.einsum("nd,d->n", vectors, query)
    rows = np.arange(len(vectors)) if allowed is None else np.flatnonzero(allowed)
    return sorted(rows[np.argsort(-cosines[rows], kind="stable")][:depth].tolist())


@pytest.mark.parametrize("count", [0, 3, 49, 50, 300])
def test_the_nearest_are_those_of_all_cosines(count):
    vectors, query = some_vectors(0, count), some_vectors(1, 1)[0]
    table = VectorTable(vectors)
    allowed = np.random.default_rng(2).random(count) < 0.5
    for depth in (0, 1, 10, 400):
        assert nearest(table, query, depth) == expected(vectors, query, depth)
        assert nearest(table, query, depth, allowed=allowed) == expected(vectors, query, depth, allowed)
        before = count // 2
        assert nearest(table, query, depth, before) == expected(vectors[:before], query, depth)


def test_changes_leave_no_trace_and_the_old_table_as_it_is():
    vectors, others, query = some_vectors(3, 200), some_vectors(4, 30), some_vectors(5, 1)[0]
    table = VectorTable(vectors, Int8Vectors(*encode_vectors(vectors)))
    grown = copy(table)
    grown.add(others[:10])
    replaced = copy(grown)
    replaced.add(others[10:13])
    replaced.rows = grown.rows.replaced([0, 150, 205], grown.num_places)
    removed = np.zeros(210, dtype=bool)
    removed[[3, 150, 209]] = True
    left = copy(replaced)
    left.rows = replaced.rows.without(removed, replaced.num_places)
    again = copy(left)
    again.add(others[20:])
    again.rows = left.rows.grown(10)
    now = np.concatenate([vectors, others[:10]])
    states = [(table, vectors), (grown, now.copy())]
    now[[0, 150, 205]] = others[10:13]
    states += [(replaced, now), (left, now[~removed]), (again, np.concatenate([now[~removed], others[20:]]))]
    for found, wanted in states:
        np.testing.assert_array_equal(found.filled, wanted)
        np.testing.assert_array_equal(found.take(np.array([5, 1])), wanted[[5, 1]])
        assert nearest(found, query, 20) == expected(wanted, query, 20)


def test_rough_cosines_are_within_their_bound():
    vectors, queries = some_vectors(6, 500), some_vectors(7, 5)
    codes = Int8Vectors(*encode_vectors(vectors))
    for query in queries:
        rough, error = codes.rough_cosines(query)
        apart = np.abs(rough - vectors @ query).max()
        assert apart <= error
        assert error < 20 * apart  # the bound is of use
