"""Cosines of many queries at once."""

import numpy as np
import pytest

from gedbd.retrieval.scorers.dense_scorer import BLOCK_DOCUMENTS, BLOCK_QUERIES, block_cosines


def unit_rows(seed, count, dim=7):
    rows = np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("num_documents", [0, 1, BLOCK_DOCUMENTS, BLOCK_DOCUMENTS + 3])
@pytest.mark.parametrize("num_queries", [1, BLOCK_QUERIES])
def test_they_are_inner_products(num_documents, num_queries):
    documents, queries = unit_rows(0, num_documents), unit_rows(1, num_queries)
    found = block_cosines(documents, queries)
    assert found.shape == (num_queries, num_documents)
    np.testing.assert_allclose(found, queries @ documents.T, atol=1e-6)


def test_other_documents_and_queries_change_no_bit():
    documents, queries = unit_rows(0, 2 * BLOCK_DOCUMENTS), unit_rows(1, BLOCK_QUERIES)
    whole = block_cosines(documents, queries)
    for count in (1, 5, BLOCK_DOCUMENTS - 1, BLOCK_DOCUMENTS + 100):
        np.testing.assert_array_equal(block_cosines(documents[:count], queries), whole[:, :count])
    np.testing.assert_array_equal(block_cosines(documents, queries[:3]), whole[:3])
