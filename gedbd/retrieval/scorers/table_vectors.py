"""Scores by the cosine of vectors of whole documents, and of their tags."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pandas as pd

from gedbd.corpora.fields import number_tags, occurrence_matrix, tag_overlap, tags_of
from gedbd.encoders.loaded_encoder import unit_rows
from gedbd.encoders.node2vec import TagEncoder
from gedbd.retrieval.scorers.dense_scorer import cosines
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs


class TableVectors(Protocol):
    """Turns documents into vectors."""

    warnings_: tuple[str, ...]  # warnings of fitting and encoding

    def fit(self, documents: pd.DataFrame) -> None:
        """Learns from the contents of all documents, without labels; does nothing if nothing is learned."""
        ...

    def encode(self, table: pd.DataFrame) -> np.ndarray:
        """The vectors of N documents, ``(N, D)`` float32: in [title; body] each half has length 1, or 0 if empty."""
        ...


class TagVectors(Protocol):
    """Turns the tags of documents into vectors."""

    warnings_: tuple[str, ...]  # warnings of fitting and encoding

    def fit(self, tags: list[tuple[str, ...]]) -> object:
        """Learns from the tags of each training document."""
        ...

    def encode(self, tags: list[tuple[str, ...]]) -> np.ndarray:
        """The vectors of the tags of N documents, ``(N, T)`` float32; zeros without a known tag."""
        ...


class TableVectorScorer(Scorer):
    """Cosine of [title; body], or of [title; body; tag].

    Title, body and tag have length 1 each before the tag is weighted. With both texts and a weight of 1, a score is
    the mean of the three cosines.

    Args:
        vectors: Turns documents into vectors.
        tags: Turns tags into vectors, which are joined to those; null leaves them out.
        tag_weight: Length of the tag's vector beside title and body.
    """

    def __init__(self, vectors: TableVectors, tags: TagVectors | None = None, tag_weight: float = 1.0) -> None:
        if tag_weight < 0:
            raise ValueError(f"tag_weight={tag_weight} must be 0 or more")
        self.vectors = vectors
        self.tags = tags
        self.tag_weight = tag_weight

    def fit(self, inputs: ScorerInputs) -> None:
        """Learns vectors, where they are learned, and encodes documents and queries.

        Vectors of words are learned from the texts of all documents; those of tags from the documents that exist when
        the last training query is made.

        Raises:
            ValueError: If tags are wanted, and none of the documents to learn from has one.
        """
        if self.tags is not None:  # first, as it takes the least time to find out what is missing
            self.tags.fit(tags_of(inputs.documents)[: inputs.training_end])
        self.vectors.fit(inputs.documents)
        self.documents_ = self._encode(inputs.documents)
        self.queries_ = self.documents_ if inputs.one_table else self._encode(inputs.queries)
        self.warnings_ = self.vectors.warnings_
        if self.tags is not None:
            self.warnings_ += self.tags.warnings_

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` cosines; 0 for a document without any vector."""
        return cosines(self.documents_, self.queries_[rows])

    def _encode(self, table: pd.DataFrame) -> np.ndarray:
        parts: Sequence[np.ndarray] = [self.vectors.encode(table)]
        if self.tags is not None:
            parts = [*parts, self.tag_weight * unit_rows(self.tags.encode(tags_of(table)))]
        return unit_rows(np.concatenate(parts, axis=1)).astype(np.float32)


class TagOverlap(Scorer):
    """Jaccard overlap of the tag sets of query and document, 0 where one of them has no tag."""

    def fit(self, inputs: ScorerInputs) -> None:
        """Reads the tags."""
        of_documents = tags_of(inputs.documents)
        of_queries = of_documents if inputs.one_table else tags_of(inputs.queries)
        places = number_tags([*of_documents, *of_queries])  # a query's tags that no document has count too
        self.documents_ = occurrence_matrix(of_documents, places)
        self.queries_ = occurrence_matrix(of_queries, places)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 to 1."""
        return tag_overlap(self.queries_[rows], self.documents_)


class TagSimilarity(Scorer):
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
        of_documents = tags_of(inputs.documents)
        self.tags.fit(of_documents[: inputs.training_end])
        self.documents_ = unit_rows(self.tags.encode(of_documents))
        self.warnings_ = self.tags.warnings_
        self.queries_ = self.documents_
        if not inputs.one_table:
            self.queries_ = unit_rows(self.tags.encode(tags_of(inputs.queries)))

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` cosines."""
        return cosines(self.documents_, self.queries_[rows])
