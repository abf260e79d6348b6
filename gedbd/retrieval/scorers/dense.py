"""Scorers by cosine: vectors that are given, and those of a text encoder as it was downloaded or trained."""

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from transformers import PreTrainedTokenizerBase

from gedbd.encoders.backends.pytorch import Backend
from gedbd.encoders.embedding_cache import report_vectors
from gedbd.encoders.encoder import TextEncoder, load_weights
from gedbd.retrieval.scorers.scorer import Scorer, ScorerInputs
from gedbd.text.templates import Text

MIN_THREADED_ROWS = 10_000
NUM_THREADS = min(4, os.cpu_count() or 1)
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


class DenseScorer(Scorer):
    """Cosine of an encoder's pooled vectors; of its projected vectors where trained weights are given.

    Args:
        encoder: Encoder and tokenizer.
        text: How reports become texts.
        max_tokens: Length that texts are cut to.
        cache_dir: Folder in which vectors are kept.
        checkpoint: Trained weights, ``checkpoints/best.ckpt`` of a run. Its graph branch is not used.
        backend: What runs the encoder, by default PyTorch.
    """

    def __init__(
        self,
        encoder: tuple[TextEncoder, PreTrainedTokenizerBase],
        text: Text,
        max_tokens: int,
        cache_dir: str,
        checkpoint: str | Path | None = None,
        backend: Backend | None = None,
    ) -> None:
        self.encoder, self.tokenizer = encoder
        self.text = text
        self.max_tokens = max_tokens
        self.cache_dir = cache_dir
        self.checkpoint = checkpoint
        self.backend = backend

    def fit(self, inputs: ScorerInputs) -> None:
        """Encodes all documents and queries."""
        if self.checkpoint is not None:
            load_weights(self.encoder, self.checkpoint)
        self.documents_ = self._encode(inputs.documents)
        self.queries_ = self.documents_ if inputs.one_table else self._encode(inputs.queries)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` cosines."""
        return cosines(self.documents_, self.queries_[rows])

    def _encode(self, table: pd.DataFrame) -> np.ndarray:
        texts = self.text(table, self.tokenizer, self.max_tokens)
        self.warnings_ = tuple(getattr(self.text, "notices_", ()))
        options = self.encoder, self.tokenizer, self.max_tokens, self.cache_dir, self.backend
        return report_vectors(texts, *options, projected=self.checkpoint is not None)


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
