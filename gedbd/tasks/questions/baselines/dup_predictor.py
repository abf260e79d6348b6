"""DupPredictor: a weighted sum of the similarities of titles, descriptions, topics and tags."""

import numpy as np
from scipy.sparse import csr_array

from gedbd.io.progress import track
from gedbd.retrieval.scorers.scorer import BLOCK, MIN_PROGRESS_BLOCKS, Scorer, ScorerInputs
from gedbd.tasks.questions.baselines.term_vectors import MAX_CHARACTERS, TermVectors, tag_vectors
from gedbd.tasks.questions.baselines.topics import Topics
from gedbd.tasks.questions.baselines.weight_search import CandidateLists, WeightSearch, weighted

SIMILARITIES = ("title", "description", "tag", "topic")
HIGHEST = 200  # documents by each similarity that the weights are learned on


class DupPredictor(Scorer):
    """DupPredictor (Zhang et al., "Multi-Factor Duplicate Question Detection in Stack Overflow", JCST 2015).

    The sum weights four similarities in [0, 1]: cosines of the TF-IDF vectors of titles and of descriptions, the cosine
    of distributions over topics (LDA), and the tags that two documents share over the root of the product of their
    numbers of tags. The weights are found on training pairs, see ``WeightSearch``. Words are not stemmed.

    Args:
        num_topics: Number of topics.
        topic_epochs: Passes over the documents to learn topics.
        topic_min_count: Documents that have a word of the topic model, at least.
        topic_max_words: Number of words of the topic model.
        starts: Random starts of the search for weights.
        steps: Steps of a weight between 0 and 1.
        max_queries: Training queries that the weights are learned on, the latest ones.
        max_characters: Length that descriptions are cut to.
        seed: Seed of the topic model and of the search.

    Attributes:
        weights_: Learned weight of each similarity, by name.
    """

    def __init__(
        self,
        num_topics: int = 100,
        topic_epochs: int = 5,
        topic_min_count: int = 2,
        topic_max_words: int = 20_000,
        starts: int = 10,
        steps: int = 100,
        max_queries: int = 500,
        max_characters: int = MAX_CHARACTERS,
        seed: int = 0,
    ) -> None:
        self.topics = Topics(num_topics, topic_epochs, topic_min_count, topic_max_words, max_characters, seed)
        self.search = WeightSearch(starts, steps, seed)
        self.max_queries = max_queries
        self.max_characters = max_characters

    def fit(self, inputs: ScorerInputs) -> None:
        """Learns words and topics from all documents, then the weights.

        Raises:
            ValueError: If no training query has a relevant earlier document.
        """
        positive = inputs.train.loc[inputs.train["label"] == 1, "query"].to_numpy()
        if not len(positive):
            raise ValueError("dup_predictor needs a duplicate pair in the training part to learn from")
        self._encode(inputs)
        self.warnings_ = self._empty_similarities()
        rows = np.unique(positive)[-self.max_queries :]
        weights = self.search(self._candidates(rows, inputs))
        self.weights_ = dict(zip(SIMILARITIES, weights.tolist(), strict=True))

    def similarities(self, rows: np.ndarray) -> np.ndarray:
        """The four similarities, ``(B,) -> (4, B, N)`` float32."""
        parts = [
            (queries[rows] @ documents).toarray()
            for queries, documents in zip(self.queries_, self.documents_, strict=True)
        ]
        return np.stack([*parts, self.query_topics_[rows] @ self.topics_.T])

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 or above."""
        weights = np.array(list(self.weights_.values()), dtype=np.float32)
        return np.asarray(weighted(self.similarities(rows), weights), dtype=np.float32)

    def _encode(self, inputs: ScorerInputs) -> None:
        """Vectors of documents and queries: sparse ones of title, description and tags, dense ones of topics."""
        terms = TermVectors(self.max_characters)
        terms.fit(inputs.documents)
        self.topics.fit(inputs.documents)
        documents, queries = tag_vectors(inputs.documents, inputs.queries)
        columns = [terms(inputs.documents, "title"), terms(inputs.documents, "body"), documents]
        self.queries_ = columns
        self.topics_ = self.topics(inputs.documents)
        self.query_topics_ = self.topics_
        if not inputs.one_table:
            self.queries_ = [terms(inputs.queries, "title"), terms(inputs.queries, "body"), queries]
            self.query_topics_ = self.topics(inputs.queries)
        self.documents_: list[csr_array] = [column.T.tocsr() for column in columns]

    def _candidates(self, rows: np.ndarray, inputs: ScorerInputs) -> CandidateLists:
        """Earlier documents that rank highest by one of the similarities, and all relevant ones, of each query.

        Raises:
            ValueError: If no query has a relevant earlier document.
        """
        relevance = inputs.relevance()
        num_earlier = inputs.num_earlier
        scores = []
        relevant = []
        blocks = range(0, len(rows), BLOCK)
        few = len(blocks) < MIN_PROGRESS_BLOCKS
        for start in track(blocks, "compare training queries", transient=True, disable=few):
            block = rows[start : start + BLOCK]
            for row, similarities in zip(block, self.similarities(block).swapaxes(0, 1), strict=True):
                right = relevance.relevant(int(row))
                right = right[right < num_earlier[row]]
                if not len(right):
                    continue
                chosen = np.union1d(_highest(similarities[:, : num_earlier[row]]), right)
                scores.append(similarities[:, chosen])
                relevant.append(np.isin(chosen, right))
        if not scores:
            raise ValueError("dup_predictor needs a training query with an earlier duplicate to learn from")
        return CandidateLists.padded(scores, relevant)

    def _empty_similarities(self) -> tuple[str, ...]:
        """A warning for each similarity that is 0 for all pairs."""
        without = [name for name, column in zip(SIMILARITIES, self.documents_, strict=False) if column.nnz == 0]
        if not self.topics_.any():
            without.append("topic")
        return tuple(f"dup_predictor: no document has what {name} similarity reads: it is 0" for name in without)


def _highest(similarities: np.ndarray) -> np.ndarray:
    """Columns with the highest values of each row, ``(F, n) -> (C,)`` with C up to F * ``HIGHEST``, ascending."""
    order = np.argsort(-similarities, axis=1, kind="stable")
    return np.unique(order[:, :HIGHEST])
