"""Topics of documents by latent Dirichlet allocation."""

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from gedbd.encoders.encoder import unit_rows
from gedbd.io.progress import track
from gedbd.retrieval.scorers.lexical import has_words, short_texts

BATCH_SIZE = 1024
MIN_PROGRESS_BATCHES = 3


class Topics:
    """Distributions over topics (Blei et al., 2003), found by online variational inference (scikit-learn).

    Title and description are one text, without English stop words. scikit-learn's model is as fast as gensim's, and the
    same for the same seed.

    Args:
        num_topics: Number of topics.
        epochs: Passes over the documents.
        min_count: Documents that have a word, at least.
        max_words: Number of words, the most frequent ones.
        max_characters: Length that descriptions are cut to.
        seed: Seed of the inference.
    """

    def __init__(
        self, num_topics: int, epochs: int, min_count: int, max_words: int, max_characters: int, seed: int
    ) -> None:
        self.num_topics = num_topics
        self.epochs = epochs
        self.min_count = min_count
        self.max_words = max_words
        self.max_characters = max_characters
        self.seed = seed

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
        for batch in track(batches, "learn topics", transient=True, disable=len(batches) < MIN_PROGRESS_BATCHES):
            self.model_.partial_fit(batch)

    def __call__(self, table: pd.DataFrame) -> np.ndarray:
        """Distributions over topics of N documents as unit rows, ``(N, T)`` float32; zeros without a known word."""
        if self.model_ is None:
            return np.zeros((len(table), self.num_topics), dtype=np.float32)
        counts = csr_array(self.counter_.transform(short_texts(table, self.max_characters)))[:, self.columns_]
        batches = batches_of(counts)
        shown = track(batches, "find topics", transient=True, disable=len(batches) < MIN_PROGRESS_BATCHES)
        topics = np.concatenate([self.model_.transform(batch) for batch in shown])
        # Without a word all topics are equally likely, which would make empty texts alike.
        topics[np.diff(counts.indptr) == 0] = 0
        return unit_rows(topics).astype(np.float32)


def batches_of(counts: csr_array) -> list[csr_array]:
    """Rows in batches, ``(N, V)`` to several ``(B, V)``."""
    return [counts[start : start + BATCH_SIZE] for start in range(0, counts.shape[0], BATCH_SIZE)]
