"""Title and body as means of word vectors, which word2vec learns from the corpus."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from gedbd.encoders.loaded_encoder import unit_rows
from gedbd.retrieval.word_models.gensim_training import GensimModel, TrainingTexts, number_words


@dataclass(kw_only=True, eq=False)
class Word2Vec(GensimModel):
    """Means of word vectors (Mikolov et al., "Efficient Estimation of Word Representations in Vector Space", 2013).

    gensim trains on titles and descriptions, each a text of its own, with one worker thread. That costs speed in
    proportion to the cores: with 300 dimensions, a core of a small server reads 140,000 words a second for skip-gram
    and 400,000 for CBOW, so that ten epochs over 366,000 questions of 80 words take about 36 or 12 minutes.

    Args:
        skip_gram: Skip-gram instead of the continuous bag of words (CBOW).
        idf: Weigh a word in the mean by log(texts / texts with the word).

    Attributes:
        word_vectors_: ``(V, D)`` float32; zeros for a word without a vector.
        idf_: ``(V,)`` weight of each word in the mean; 1 without ``idf``.
    """

    name: ClassVar[str] = "word2vec"
    dim: int = 300
    skip_gram: bool = True
    idf: bool = True

    def training_texts(self, titles: list[str], bodies: list[str]) -> list[str]:
        """Titles and descriptions, each a text of its own."""
        return titles + bodies

    def train(self, numbers: list[np.ndarray], has_frequent_word: bool) -> None:
        """Learns a vector and a weight for each word."""
        from gensim.models import Word2Vec as GensimWord2Vec

        terms = self.vocabulary_.terms
        self.word_vectors_ = np.zeros((len(terms), self.dim), dtype=np.float32)
        self.idf_ = np.ones(len(terms), dtype=np.float32)
        if self.idf:
            with_word = np.bincount(word_counts(numbers, len(terms)).indices, minlength=len(terms))
            self.idf_ = np.asarray(np.log(len(numbers) / np.maximum(with_word, 1)), dtype=np.float32)
        if not has_frequent_word:
            return
        with TrainingTexts(numbers, terms, 1 + self.epochs, "train word2vec") as texts:
            vectors = GensimWord2Vec(texts, sg=int(self.skip_gram), **self.options()).wv
        for number, term in enumerate(terms):
            if term in vectors:
                self.word_vectors_[number] = vectors[term]

    def encode_texts(self, texts: list[str]) -> np.ndarray:
        """Unit vectors of texts, ``(N, D)`` float32; zeros for a text without a known word."""
        counts = word_counts(self.number_texts(texts), len(self.vocabulary_.terms))
        # A sum has the direction of the mean, and its length does not count.
        return unit_rows(counts @ (self.word_vectors_ * self.idf_[:, None])).astype(np.float32)

    def number_texts(self, texts: list[str]) -> list[np.ndarray]:
        """The words of texts as numbers, see ``number_words``."""
        return number_words(texts, self.vocabulary_, learn=False)


def word_counts(numbers: Sequence[np.ndarray], num_words: int) -> csr_array:
    """How often each text has each word, ``(N, V)`` float32; numbers outside 0..V-1 are not counted."""
    lengths = [len(text) for text in numbers]
    rows = np.repeat(np.arange(len(numbers)), lengths)
    columns = np.concatenate([*numbers, np.empty(0, dtype=np.int32)])
    known = (columns >= 0) & (columns < num_words)
    ones = np.ones(int(known.sum()), dtype=np.float32)
    counts = csr_array((ones, (rows[known], columns[known])), shape=(len(numbers), num_words))
    counts.sum_duplicates()
    return counts
