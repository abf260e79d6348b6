"""Scorers by the cosine of vectors that are given."""

import os
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs

MIN_THREADED_ROWS = 10_000
NUM_THREADS = min(4, os.cpu_count() or 1)
BLOCK_QUERIES = 64
BLOCK_DOCUMENTS = 8192  # with a quarter of them, the products take up to twice as long
THREADS = ThreadPoolExecutor(NUM_THREADS, thread_name_prefix="cosines")


class VectorScorer(Scorer):
    """Cosine of unit vectors that are given.

    Args:
        documents: ``(N, D)`` unit rows.
        queries: ``(Q, D)`` unit rows; None if the documents are the queries.
    """

    def __init__(self, documents: np.ndarray, queries: np.ndarray | None = None) -> None:
        self.documents = documents
        self.queries = documents if queries is None else queries

    def fit(self, inputs: ScorerInputs) -> None:
        """Does nothing."""

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` cosines."""
        return cosines(self.documents, self.queries[rows])


def block_cosines(documents: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Cosines of unit rows, ``(N, D), (B, D) -> (B, N)``, for up to ``BLOCK_QUERIES`` queries.

    One product of matrices is several times quicker than a product for each query, which reads all documents. Products
    of another size may round differently: here all have one size, filled up with zeros, so that a cosine does not
    depend on what other documents and queries there are.
    """
    filled = np.zeros((queries.shape[1], BLOCK_QUERIES), dtype=queries.dtype)
    filled[:, : len(queries)] = queries.T
    scores = np.empty((len(queries), len(documents)), dtype=documents.dtype)
    for start in range(0, len(documents), BLOCK_DOCUMENTS):
        block = documents[start : start + BLOCK_DOCUMENTS]
        end = start + len(block)
        if len(block) < BLOCK_DOCUMENTS:
            block = np.concatenate([block, np.zeros((BLOCK_DOCUMENTS - len(block), block.shape[1]), block.dtype)])
        # The many documents come first: with the few queries first, the product takes up to three times as long.
        scores[:, start:end] = (block @ filled)[: end - start, : len(queries)].T
    return scores


def cosines(documents: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Cosines of unit rows, ``(N, D), (B, D) -> (B, N)``."""
    if len(queries) != 1 or len(documents) < MIN_THREADED_ROWS:
        return np.asarray(queries @ documents.T)
    # A search has one query and must be fast. Threads of our own share it: those of BLAS would slow the encoder down.
    scores = np.empty((1, len(documents)), dtype=documents.dtype)
    edges = np.linspace(0, len(documents), NUM_THREADS + 1).astype(np.int64).tolist()
    parts = []
    for start, end in pairwise(edges):
        part = THREADS.submit(np.matmul, documents[start:end], queries[0], out=scores[0, start:end])
        parts.append(part)
    for part in parts:
        part.result()
    return scores


class EarlierScorer(Scorer):
    """Scores the documents before a query one query at a time. Later documents get the lowest score of the earlier.

    What a scorer counts, such as how many documents have a word, it counts in the earlier documents alone.

    Attributes:
        num_earlier_: ``(Q,)`` number of documents before each query.
        num_documents_: Number N of documents.
    """

    earlier_only = True

    def fit(self, inputs: ScorerInputs) -> None:
        """Reads documents and queries."""
        self.num_earlier_ = inputs.num_earlier
        self.num_documents_ = len(inputs.documents)
        self.read(inputs)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` float32."""
        scores = np.empty((len(rows), self.num_documents_), dtype=np.float32)
        for place, row in enumerate(rows):
            before = int(self.num_earlier_[row])
            earlier = self.earlier_scores(int(row), before)
            scores[place, :before] = earlier
            scores[place, before:] = earlier.min(initial=np.inf) if before else 0.0
        return scores

    @abstractmethod
    def read(self, inputs: ScorerInputs) -> None:
        """Reads documents and queries."""

    @abstractmethod
    def earlier_scores(self, row: int, before: int) -> np.ndarray:
        """Scores of a query against the first ``before`` documents, ``(before,)``."""
