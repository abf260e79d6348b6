"""Scores from the documents' tags: overlap of tag sets, and similarity of the vectors of their most frequent tags."""

import numpy as np

from gedbd.corpora.tags import tags_of
from gedbd.encoders.encoder import unit_rows
from gedbd.encoders.tags.tag_encoder import TagEncoder
from gedbd.encoders.tags.tag_network import occurrence_matrix
from gedbd.retrieval.scorers.cosine import cosines
from gedbd.retrieval.scorers.scorer import Scorer, ScorerInputs


class TagOverlap(Scorer):
    """Jaccard overlap of the tag sets of query and document, 0 where one of them has no tag."""

    def fit(self, inputs: ScorerInputs) -> None:
        """Reads the tags."""
        of_documents = tags_of(inputs.documents)
        of_queries = of_documents if inputs.one_table else tags_of(inputs.queries)
        names = dict.fromkeys(tag for own in of_documents for tag in own)
        places = {tag: place for place, tag in enumerate(names)}
        self.documents_ = occurrence_matrix(of_documents, places).T.tocsr()
        self.queries_ = occurrence_matrix(of_queries, places)
        # A query's tags that no document has count too.
        self.num_document_tags_ = np.array([len(own) for own in of_documents])
        self.num_query_tags_ = np.array([len(own) for own in of_queries])

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 to 1."""
        common = (self.queries_[rows] @ self.documents_).toarray()
        union = self.num_query_tags_[rows, None] + self.num_document_tags_ - common
        # Without a tag on either side the union is empty, and so is the intersection.
        return np.asarray(common / union.clip(1), dtype=np.float32)


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
        self.tags.fit(of_documents[: training_end(inputs)])
        self.documents_ = unit_rows(self.tags.encode(of_documents))
        self.warnings_ = self.tags.warnings_
        self.queries_ = self.documents_
        if not inputs.one_table:
            self.queries_ = unit_rows(self.tags.encode(tags_of(inputs.queries)))

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` cosines."""
        return cosines(self.documents_, self.queries_[rows])


def training_end(inputs: ScorerInputs) -> int:
    """The number of documents that exist when the last training query is made; all without training pairs.

    In one table that query, which is a document too, is one of them.
    """
    if inputs.train.empty:
        return len(inputs.documents)
    last = inputs.num_earlier[inputs.train["query"].to_numpy()].max()
    return int(last) + inputs.one_table
