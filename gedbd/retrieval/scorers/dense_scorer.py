"""Scores by the cosine of vectors: precomputed, from a text encoder, of whole documents, or of their tags."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import PARTS, TRAIN, VAL
from gedbd.corpora.fields import number_tags, occurrence_matrix, tag_overlap, tags_of
from gedbd.corpora.templates import Text
from gedbd.encoders.backend import Backend
from gedbd.encoders.loaded_encoder import LoadedEncoder, unit_rows
from gedbd.encoders.node2vec import TagEncoder
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs

MIN_THREADED_ROWS = 10_000
NUM_THREADS = min(4, os.cpu_count() or 1)
THREADS = ThreadPoolExecutor(NUM_THREADS, thread_name_prefix="cosines")


class VectorScorer(Scorer):
    """Cosine of precomputed unit vectors. Without queries, the documents are the queries."""

    documents_: np.ndarray  # ``(N, D)`` unit rows; a document without any vector may have zeros
    queries_: np.ndarray  # ``(Q, D)``, likewise

    def __init__(self, documents: np.ndarray, queries: np.ndarray | None = None) -> None:
        self.documents_ = documents
        self.queries_ = documents if queries is None else queries

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` cosines; 0 for a document or a query without any vector."""
        return cosines(self.documents_, self.queries_[rows])


def cosines(documents: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Cosines of unit rows, ``(N, D), (B, D) -> (B, N)``."""
    if len(queries) != 1 or len(documents) < MIN_THREADED_ROWS:
        return np.asarray(queries @ documents.T)
    # A search has one query and must be fast. Threads of our own share it: those of BLAS would slow the encoder down.
    scores = np.empty((1, len(documents)), dtype=documents.dtype)
    edges = np.linspace(0, len(documents), NUM_THREADS + 1).astype(np.int64).tolist()
    tasks = []
    for start, end in pairwise(edges):
        task = THREADS.submit(np.matmul, documents[start:end], queries[0], out=scores[0, start:end])
        tasks.append(task)
    for task in tasks:
        task.result()
    return scores


@dataclass(eq=False)
class DenseScorer(VectorScorer):
    """Cosine of an encoder's pooled vectors; of its projected vectors where trained weights are given."""

    on_training_grid = True  # training evaluates its encoder by the same cosines

    encoder: LoadedEncoder  # the untrained encoder
    text: Text  # how reports become texts
    cache_dir: str  # folder of cached vectors
    # trained weights, ``checkpoints/best.ckpt`` of a run. Its graph branch is not used
    checkpoint: str | Path | None = None
    # weights that have not learned from the validation split, if those of ``checkpoint`` have; only a ranker that
    # learns from validation queries reads their vectors. None if they are the same
    val_checkpoint: str | Path | None = None
    backend: Backend | None = None  # what runs the encoder, by default PyTorch

    def __post_init__(self) -> None:
        self.encoder.cache_dir = self.cache_dir
        self.encoder.backend = self.backend or self.encoder.backend

    def vectors_to_learn_from(self, documents: pd.DataFrame) -> dict[str, np.ndarray]:
        """Vectors of documents by encoders that have not learned from a split, by that split; call it before ``fit``.

        For the training split they are those of the untrained encoder, and for the validation split those of
        ``val_checkpoint``, if there is one, each ``(N, D)`` unit rows. Without trained weights there are none.

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

    def _encode(self, table: pd.DataFrame) -> np.ndarray:
        texts, warnings = self.text(table, self.encoder.tokenizer, self.encoder.text_tokens)
        self.warnings_ += warnings
        return self.encoder.encode(texts)


class TableVectors(Protocol):
    """Turns documents into vectors."""

    warnings_: tuple[str, ...]  # warnings of fitting and encoding

    def fit(self, documents: pd.DataFrame) -> None:
        """Learns from the contents of all documents, without labels; does nothing if nothing is learned."""
        ...

    def encode(self, table: pd.DataFrame) -> np.ndarray:
        """The vectors of N documents, ``(N, D)`` float32: in [title; body] each half has length 1, or 0 if empty."""
        ...


class TableVectorScorer(VectorScorer):
    """Cosine of [title; body], or of [title; body; tag].

    Title, body and tag have length 1 each before the tag is weighted. With both texts and a weight of 1, a score is
    the mean of the three cosines.
    """

    def __init__(self, vectors: TableVectors, tags: TagEncoder | None = None, tag_weight: float = 1.0) -> None:
        if tag_weight < 0:
            raise ValueError(f"tag_weight={tag_weight} must be 0 or more")
        self.vectors = vectors
        self.tags = tags
        self.tag_weight = tag_weight

    def fit(self, inputs: ScorerInputs) -> None:
        """Fits the encoders of documents and tags, and encodes documents and queries.

        Vectors of words are learned from the texts of all documents; those of tags from the documents that exist when
        the last training query is made.

        Raises:
            ValueError: If tags are wanted, and none of the documents to learn from has one.
        """
        if self.tags is not None:  # first, as it is fast and raises if there are no tags
            self.tags.fit(tags_of(inputs.documents)[: inputs.training_end])
        self.vectors.fit(inputs.documents)
        self.documents_ = self._encode(inputs.documents)
        self.queries_ = self.documents_ if inputs.one_table else self._encode(inputs.queries)
        self.warnings_ = self.vectors.warnings_
        if self.tags is not None:
            self.warnings_ += self.tags.warnings_

    def _encode(self, table: pd.DataFrame) -> np.ndarray:
        parts: Sequence[np.ndarray] = [self.vectors.encode(table)]
        if self.tags is not None:
            parts = [*parts, self.tag_weight * unit_rows(self.tags.encode(tags_of(table)))]
        return unit_rows(np.concatenate(parts, axis=1)).astype(np.float32)


class TagOverlap(Scorer):
    """Jaccard overlap of the tag sets of query and document, 0 where one of them has no tag."""

    def fit(self, inputs: ScorerInputs) -> None:
        """Reads the tags."""
        document_tags = tags_of(inputs.documents)
        query_tags = document_tags if inputs.one_table else tags_of(inputs.queries)
        tag_numbers = number_tags([*document_tags, *query_tags])  # a query's tags that no document has count too
        self.documents_ = occurrence_matrix(document_tags, tag_numbers)
        self.queries_ = occurrence_matrix(query_tags, tag_numbers)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 to 1."""
        return tag_overlap(self.queries_[rows], self.documents_)


class TagSimilarity(VectorScorer):
    """Cosine of the vectors of the most frequent tags of query and document, 0 where one of them has no known tag.

    The vectors are learned on the documents that exist when the last training query is made.
    """

    def __init__(self, tags: TagEncoder) -> None:
        self.tags = tags

    def fit(self, inputs: ScorerInputs) -> None:
        """Learns the vectors, and encodes documents and queries.

        Raises:
            ValueError: If none of the documents to learn from has a tag.
        """
        document_tags = tags_of(inputs.documents)
        self.tags.fit(document_tags[: inputs.training_end])
        self.documents_ = unit_rows(self.tags.encode(document_tags))
        self.warnings_ = self.tags.warnings_
        self.queries_ = self.documents_
        if not inputs.one_table:
            self.queries_ = unit_rows(self.tags.encode(tags_of(inputs.queries)))
