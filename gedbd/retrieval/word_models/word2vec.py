"""Title and body as means of word vectors, which word2vec learns from the corpus."""

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from gedbd.encoders.loaded_encoder import unit_rows
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.retrieval.word_models.gensim_training import (
    MAX_CHARACTERS,
    TrainingTexts,
    bodies_of,
    check_gensim,
    has_frequent_word,
    number_words,
    titles_of,
    word_counts,
)


class Word2Vec:
    """Means of word vectors (Mikolov et al., "Efficient Estimation of Word Representations in Vector Space", 2013).

    gensim trains on titles and descriptions, each a text of its own, with one worker thread: with several, the order of
    updates and with it the vectors would differ from run to run. That costs speed in proportion to the cores: with 300
    dimensions, a core of a small server reads 140,000 words a second for skip-gram and 400,000 for CBOW, so that ten
    epochs over 366,000 questions of 80 words take about 36 or 12 minutes.

    Args:
        dim: Size D of a word vector.
        window: Words on each side that a word is predicted from.
        min_count: Words that are rarer in the whole corpus get no vector.
        skip_gram: Skip-gram instead of the continuous bag of words (CBOW).
        negative: Words drawn as negatives for each word.
        sample: Words that are a larger share of all words are read less often; 0 reads all.
        epochs: Passes over the corpus.
        idf: Weigh a word in the mean by log(texts / texts with the word).
        max_characters: Length that descriptions are cut to.
        seed: Seed of the training.

    Attributes:
        vocabulary_: Numbers of the words.
        word_vectors_: ``(V, D)`` float32; zeros for a word without a vector.
        idf_: ``(V,)`` weight of each word in the mean; 1 without ``idf``.
        warnings_: What was found while fitting and encoding.
    """

    def __init__(
        self,
        dim: int = 300,
        window: int = 5,
        min_count: int = 3,
        skip_gram: bool = True,
        negative: int = 5,
        sample: float = 0.001,
        epochs: int = 10,
        idf: bool = True,
        max_characters: int = MAX_CHARACTERS,
        seed: int = 0,
    ) -> None:
        check_gensim()
        self.dim = dim
        self.window = window
        self.min_count = min_count
        self.skip_gram = skip_gram
        self.negative = negative
        self.sample = sample
        self.epochs = epochs
        self.idf = idf
        self.max_characters = max_characters
        self.seed = seed
        self.warnings_: tuple[str, ...] = ()

    def fit(self, documents: pd.DataFrame) -> None:
        """Trains on the titles and descriptions of N documents: they are text without labels."""
        self.warnings_ = ()
        self.vocabulary_ = Vocabulary()
        texts = titles_of(documents) + bodies_of(documents, self.max_characters)
        numbers = number_words(texts, self.vocabulary_, learn=True, label="read words")
        self.word_vectors_ = np.zeros((len(self.vocabulary_.terms), self.dim), dtype=np.float32)
        self.idf_ = self._idf(word_counts(numbers, len(self.vocabulary_.terms)))
        if has_frequent_word(numbers, self.min_count):
            self._train(numbers)
        else:
            self._warn(f"word2vec: no word occurs {self.min_count} times or more: all scores are 0")

    def encode(self, table: pd.DataFrame) -> np.ndarray:
        """Vectors of N documents.

        Returns:
            ``(N, 2D)`` float32: the unit vector of the title, then that of the description; zeros for one without a
            known word.
        """
        title = self.encode_texts(titles_of(table))
        body = self.encode_texts(bodies_of(table, self.max_characters))
        vectors = np.concatenate([title, body], axis=1)
        empty = int((~vectors.any(axis=1)).sum())
        if empty:
            self._warn(f"word2vec: documents without a word that has a vector: {empty:,} of {len(table):,}, score 0")
        return vectors

    def encode_texts(self, texts: list[str]) -> np.ndarray:
        """Unit vectors of texts, ``(N, D)`` float32; zeros for a text without a known word."""
        counts = word_counts(self.number_texts(texts), len(self.vocabulary_.terms))
        # A sum has the direction of the mean, and its length does not count.
        return unit_rows(counts @ (self.word_vectors_ * self.idf_[:, None])).astype(np.float32)

    def number_texts(self, texts: list[str]) -> list[np.ndarray]:
        """The words of texts as numbers, see ``number_words``."""
        return number_words(texts, self.vocabulary_, learn=False, label="read words")

    def _train(self, numbers: list[np.ndarray]) -> None:
        from gensim.models import Word2Vec as GensimWord2Vec

        with TrainingTexts(numbers, self.vocabulary_.terms, 1 + self.epochs, "train word2vec") as texts:
            model = GensimWord2Vec(
                texts,
                vector_size=self.dim,
                window=self.window,
                min_count=self.min_count,
                sg=int(self.skip_gram),
                negative=self.negative,
                sample=self.sample,
                epochs=self.epochs,
                seed=self.seed,
                workers=1,
            )
        for number, term in enumerate(self.vocabulary_.terms):
            if term in model.wv:
                self.word_vectors_[number] = model.wv[term]

    def _idf(self, counts: csr_array) -> np.ndarray:
        num_texts, num_words = counts.shape
        if not self.idf:
            return np.ones(num_words, dtype=np.float32)
        with_word = np.bincount(counts.indices, minlength=num_words)
        return np.asarray(np.log(num_texts / np.maximum(with_word, 1)), dtype=np.float32)

    def _warn(self, warning: str) -> None:
        if warning not in self.warnings_:
            self.warnings_ += (warning,)
