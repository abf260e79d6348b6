"""Scores by the cosine of vectors, which are given or those of a text encoder, as it was downloaded or trained."""

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import PARTS, TRAIN, VAL
from gedbd.corpora.templates import Text
from gedbd.encoders.backend import Backend
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs

MIN_THREADED_ROWS = 10_000
NUM_THREADS = min(4, os.cpu_count() or 1)
THREADS = ThreadPoolExecutor(NUM_THREADS, thread_name_prefix="cosines")


class VectorScorer(Scorer):
    """Cosine of unit vectors that are given. Without queries, the documents are the queries."""

    def __init__(self, documents: np.ndarray, queries: np.ndarray | None = None) -> None:
        self.documents = documents
        self.queries = documents if queries is None else queries

    def fit(self, inputs: ScorerInputs) -> None:
        """Does nothing."""

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` cosines."""
        return cosines(self.documents, self.queries[rows])


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


class DenseScorer(Scorer):
    """Cosine of an encoder's pooled vectors; of its projected vectors where trained weights are given.

    Args:
        encoder: LoadedEncoder, untrained.
        text: How reports become texts.
        cache_dir: Folder in which vectors are kept.
        checkpoint: Trained weights, ``checkpoints/best.ckpt`` of a run. Its graph branch is not used.
        val_checkpoint: Weights that have not learned from the validation part, where those of ``checkpoint`` have; only
            a ranker that learns from validation queries reads their vectors. None where they are the same.
        backend: What runs the encoder, by default PyTorch.
    """

    on_training_grid = True  # its cosines are those that training compares its encoder with

    def __init__(
        self,
        encoder: LoadedEncoder,
        text: Text,
        cache_dir: str,
        checkpoint: str | Path | None = None,
        val_checkpoint: str | Path | None = None,
        backend: Backend | None = None,
    ) -> None:
        self.encoder = encoder
        self.encoder.cache_dir = cache_dir
        self.encoder.backend = backend or encoder.backend
        self.text = text
        self.checkpoint = checkpoint
        self.val_checkpoint = val_checkpoint

    def vectors_to_learn_from(self, documents: pd.DataFrame) -> dict[str, np.ndarray]:
        """Vectors of documents by encoders that have not learned from a part, by that part; before ``fit``.

        They are the encoder's before its training for the training part, and those of ``val_checkpoint``, if it is
        given, for the validation part, each ``(N, D)`` unit rows. Without trained weights there are none.

        Raises:
            ValueError: After ``fit``, which has loaded the weights.
        """
        if self.checkpoint is None:
            return {}
        if hasattr(self, "documents_"):
            raise ValueError("the trained weights are loaded: encode without them before fit")
        texts, _ = self.text(documents, self.encoder.tokenizer, self.encoder.text_tokens)
        vectors = {PARTS[TRAIN]: self.encoder.encode(texts)}
        if self.val_checkpoint is not None:
            self.encoder.load_weights(self.val_checkpoint)
            vectors[PARTS[VAL]] = self.encoder.encode(texts)
        return vectors

    def fit(self, inputs: ScorerInputs) -> None:
        """Encodes all documents and queries."""
        if self.checkpoint is not None:
            self.encoder.load_weights(self.checkpoint)
        self.warnings_ = ()
        self.documents_ = self._encode(inputs.documents)
        self.queries_ = self.documents_ if inputs.one_table else self._encode(inputs.queries)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` cosines."""
        return cosines(self.documents_, self.queries_[rows])

    def _encode(self, table: pd.DataFrame) -> np.ndarray:
        texts, warnings = self.text(table, self.encoder.tokenizer, self.encoder.text_tokens)
        self.warnings_ += warnings
        return self.encoder.encode(texts)
