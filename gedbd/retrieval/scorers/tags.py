"""Scores from the documents' tags: overlap of tag sets, and similarity of the vectors of their most frequent tags."""

import numpy as np

from gedbd.corpora.tags import number_tags, occurrence_matrix, tag_overlap, tags_of
from gedbd.encoders.encoder import unit_rows
from gedbd.encoders.tags.tag_encoder import TagEncoder
from gedbd.retrieval.scorers.cosine import cosines
from gedbd.retrieval.scorers.scorer import Scorer, ScorerInputs


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

    The vectors are learnt on the documents that exist when the last training query is made.

    Args:
        tags: Encoder of tags, not yet fitted.
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
