"""DupPredictor: a weighted sum of the similarities of titles, descriptions, topics and tags."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from gedbd.encoders.loaded_encoder import unit_rows
from gedbd.io.console import track
from gedbd.questions.baselines.dupe import MAX_CHARACTERS, TermVectors, tag_vectors
from gedbd.retrieval.inverted_index import short_texts
from gedbd.retrieval.scorers.bm25 import has_words
from gedbd.retrieval.scorers.scorer_contract import BLOCK, Scorer, ScorerInputs

BATCH_SIZE = 1024
RECALL_AT = (5, 10, 20)
SIMILARITIES = ("title", "description", "tag", "topic")
MAX_CANDIDATES = 200  # best documents by each similarity, from which the weights are learned


class CandidateLists(NamedTuple):
    """The candidates of Q training queries."""

    scores: np.ndarray  # ``(F, Q, C)`` similarities; NaN where a query has fewer than C candidates
    relevant: np.ndarray  # ``(Q, C)`` bool

    @classmethod
    def padded(cls, scores: list[np.ndarray], relevant: list[np.ndarray]) -> "CandidateLists":
        """Pads Q lists of ``(F, n)`` similarities and ``(n,)`` bool to the same length."""
        longest = max(map(len, relevant))
        all_scores = np.full((len(scores[0]), len(scores), longest), np.nan, dtype=np.float32)
        all_relevant = np.zeros((len(scores), longest), dtype=bool)
        for query, (query_scores, is_relevant) in enumerate(zip(scores, relevant, strict=True)):
            all_scores[:, query, : len(is_relevant)] = query_scores
            all_relevant[query, : len(is_relevant)] = is_relevant
        return cls(all_scores, all_relevant)


@dataclass(eq=False)
class DupPredictor(Scorer):
    """DupPredictor (Zhang et al., "Multi-Factor Duplicate Question Detection in Stack Overflow", JCST 2015).

    A weighted sum of four similarities in [0, 1]: cosines of TF-IDF vectors of titles and of descriptions, of topic
    distributions (LDA), and of sets of tags. The weights are learned on training pairs, see ``search_weights``. Words
    are not stemmed.

    Attributes:
        weights_: Learned weights by the name of the similarity.
    """

    num_topics: int = 100  # number of topics
    topic_epochs: int = 5  # number of epochs of the topic model
    topic_min_count: int = 2  # minimum document frequency of a word of the topic model
    topic_max_words: int = 20_000  # maximum number of words of the topic model
    starts: int = 10  # number of random starts of the search for weights
    steps: int = 100  # number of steps of the grid of weights between 0 and 1
    max_queries: int = 500  # maximum number of training queries for the weights, the latest ones
    max_characters: int = MAX_CHARACTERS  # maximum length of descriptions
    seed: int = 0  # seed of the topic model and of the search

    def __post_init__(self) -> None:
        words = (self.topic_min_count, self.topic_max_words, self.max_characters)
        self.topics = Topics(self.num_topics, self.topic_epochs, *words, self.seed)

    def fit(self, inputs: ScorerInputs) -> None:
        """Learns words and topics from all documents, then the weights.

        Raises:
            ValueError: If no training query has a relevant earlier document.
        """
        positive = inputs.train.loc[inputs.train["label"] == 1, "query"].to_numpy()
        if not len(positive):
            raise ValueError("dup_predictor needs a duplicate pair in the training split to learn from")
        self._encode(inputs)
        empty = [name for name, column in zip(SIMILARITIES, self.documents_, strict=False) if column.nnz == 0]
        if not self.topics_.any():
            empty.append("topic")
        self.warnings_ = tuple(
            f"dup_predictor: no document has input for the {name} similarity: it is 0" for name in empty
        )
        rows = np.unique(positive)[-self.max_queries :]
        weights = search_weights(self._candidates(rows, inputs), self.starts, self.steps, self.seed)
        self.weights_ = dict(zip(SIMILARITIES, weights.tolist(), strict=True))

    def similarities(self, rows: np.ndarray) -> np.ndarray:
        """The four similarities, ``(B,) -> (4, B, N)`` float32."""
        sparse_similarities = [
            (queries[rows] @ documents).toarray()
            for queries, documents in zip(self.queries_, self.documents_, strict=True)
        ]
        return np.stack([*sparse_similarities, self.query_topics_[rows] @ self.topics_.T])

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 or above."""
        weights = np.array(list(self.weights_.values()), dtype=np.float32)
        return np.asarray(weighted(self.similarities(rows), weights), dtype=np.float32)

    def _encode(self, inputs: ScorerInputs) -> None:
        """Computes sparse vectors of title, description and tags, and dense topic vectors."""
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
        """The best earlier documents by each similarity, and all relevant ones, for each query.

        Raises:
            ValueError: If no query has a relevant earlier document.
        """
        relevance = inputs.relevance()
        num_earlier = inputs.num_earlier
        scores = []
        relevant = []
        for start in track(range(0, len(rows), BLOCK), "compare training queries"):
            block = rows[start : start + BLOCK]
            for row, similarities in zip(block, self.similarities(block).swapaxes(0, 1), strict=True):
                positives = relevance.relevant(int(row))
                positives = positives[positives < num_earlier[row]]
                if not len(positives):
                    continue
                highest = np.argsort(-similarities[:, : num_earlier[row]], axis=1, kind="stable")[:, :MAX_CANDIDATES]
                candidates = np.union1d(highest, positives)
                scores.append(similarities[:, candidates])
                relevant.append(np.isin(candidates, positives))
        if not scores:
            raise ValueError("dup_predictor needs a training query with an earlier duplicate to learn from")
        return CandidateLists.padded(scores, relevant)


@dataclass(eq=False)
class Topics:
    """Topics of titles and descriptions without stop words, by latent Dirichlet allocation (Blei et al., 2003)."""

    num_topics: int  # number of topics
    epochs: int  # number of epochs
    min_count: int  # minimum document frequency of a word
    max_words: int  # maximum number of words, the most frequent ones
    max_characters: int  # maximum length of descriptions
    seed: int  # seed of the model

    def fit(self, documents: pd.DataFrame) -> None:
        """Learns topics from N documents."""
        from sklearn.decomposition import LatentDirichletAllocation
        from sklearn.feature_extraction.text import CountVectorizer

        texts = short_texts(documents, self.max_characters)
        self.counter_ = CountVectorizer(stop_words="english")
        self.model_ = None
        if not has_words(self.counter_, texts):
            return
        counts = csr_array(self.counter_.fit_transform(texts))
        num_texts = np.bincount(counts.indices, minlength=counts.shape[1])
        frequent = np.argsort(-num_texts, kind="stable")[: self.max_words]
        self.columns_ = frequent[num_texts[frequent] >= self.min_count]
        if not len(self.columns_):
            return
        counts = counts[:, self.columns_]
        self.model_ = LatentDirichletAllocation(
            self.num_topics, learning_method="online", total_samples=len(texts), random_state=self.seed
        )
        batches = [batch for _ in range(self.epochs) for batch in batches_of(counts)]
        for batch in track(batches, "learn topics"):
            self.model_.partial_fit(batch)

    def __call__(self, table: pd.DataFrame) -> np.ndarray:
        """Topic distributions of N documents as unit rows, ``(N, T)`` float32; zeros without a known word."""
        if self.model_ is None:
            return np.zeros((len(table), self.num_topics), dtype=np.float32)
        counts = csr_array(self.counter_.transform(short_texts(table, self.max_characters)))[:, self.columns_]
        tracked = track(batches_of(counts), "find topics")
        topics = np.concatenate([self.model_.transform(batch) for batch in tracked])
        # Empty texts have uniform distributions, which would make them similar.
        topics[np.diff(counts.indptr) == 0] = 0
        return unit_rows(topics).astype(np.float32)


def batches_of(counts: csr_array) -> list[csr_array]:
    """Splits rows into batches, ``(N, V)`` to several ``(B, V)``."""
    return [counts[start : start + BATCH_SIZE] for start in range(0, counts.shape[0], BATCH_SIZE)]


def search_weights(lists: CandidateLists, starts: int, steps: int, seed: int) -> np.ndarray:
    """Learns the weights ``(F,)`` of the similarities, in [0, 1], by coordinate search, as in DupPredictor.

    From random weights, each weight in turn takes the value of 0, 0.01, ..., 1 that maximises the sum of the recall
    rates at 5, 10 and 20 of the training queries; the best of several starts wins. Not in the paper: the first
    of equal sums wins, and the candidates of a query are the best documents by each similarity.
    """
    rng = np.random.default_rng(seed)
    best = np.ones(len(lists.scores))
    best_recall = -1.0
    for _ in track(range(starts), "learn weights"):
        weights = rng.random(len(lists.scores))
        recall = recall_sum(weighted(lists.scores, weights), lists.relevant)
        for feature in range(len(weights)):
            changed = weights.copy()
            changed[feature] = 0
            base = weighted(lists.scores, changed)
            for value in np.linspace(0, 1, steps + 1):
                changed_recall = recall_sum(base + value * lists.scores[feature], lists.relevant)
                if changed_recall > recall:
                    recall = changed_recall
                    weights[feature] = value
        if recall > best_recall:
            best = weights
            best_recall = recall
    return best


def weighted(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted sum of similarities, ``(F, ...), (F,) -> (...)``."""
    return np.asarray(np.tensordot(weights, scores, axes=1))


def recall_sum(scores: np.ndarray, relevant: np.ndarray) -> float:
    """Sum of the recall rates at 5, 10 and 20 of scores ``(Q, C)``, NaN for padding, and ``(Q, C)`` bool."""
    highest = np.where(relevant, scores, -np.inf).max(axis=1, keepdims=True)
    # Of equal scores, irrelevant candidates count as higher.
    ahead = ((scores >= highest) & ~relevant).sum(axis=1)
    return float(sum((ahead < k).mean() for k in RECALL_AT))
