"""Vectors of words and documents that gensim learns from the corpus: word2vec and doc2vec."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from gedbd.encoders.loaded_encoder import unit_rows
from gedbd.io.console import track
from gedbd.retrieval.inverted_index import Vocabulary, words
from gedbd.text.words import URL

BLOCK_TEXTS = 1000
MAX_CHARACTERS = 2000
MAX_WORDS = 10_000  # gensim silently ignores further words of a text


@dataclass(kw_only=True, eq=False)
class GensimModel(ABC):
    """Learns vectors of words or documents from the texts of a corpus, with gensim.

    ``conf/baseline.yaml`` describes the options; D below is ``dim``.
    """

    name: ClassVar[str]
    dim: int = 100
    window: int = 5
    min_count: int = 3
    negative: int = 5
    sample: float = 0.001
    epochs: int = 10
    max_characters: int = MAX_CHARACTERS
    seed: int = 0

    def __post_init__(self) -> None:
        if find_spec("gensim") is None:
            raise ValueError("gensim is not installed: pip install 'gedbd[questions]'")
        self.warnings_: tuple[str, ...] = ()

    def fit(self, documents: pd.DataFrame) -> None:
        """Trains on the titles and descriptions of N documents: they are text without labels."""
        self.warnings_ = ()
        self.vocabulary_ = Vocabulary()
        titles, bodies = self._titles_and_bodies(documents)
        numbers = number_words(self.training_texts(titles, bodies), self.vocabulary_, learn=True)
        words = np.fromiter(chain.from_iterable(numbers), dtype=np.int64)
        has_frequent_word = bool((np.bincount(words) >= self.min_count).any())
        if not has_frequent_word:
            self._warn(f"no word occurs {self.min_count} times or more: all scores are 0")
        self.train(numbers, has_frequent_word)

    def encode(self, table: pd.DataFrame) -> np.ndarray:
        """Vectors of N documents.

        Returns:
            ``(N, 2D)`` float32: the unit vector of the title, then that of the description; zeros for a text without
            a known word.
        """
        vectors = np.concatenate([self.encode_texts(texts) for texts in self._titles_and_bodies(table)], axis=1)
        empty = int((~vectors.any(axis=1)).sum())
        if empty:
            self._warn(f"documents without a known word: {empty:,} of {len(table):,}, score 0")
        return vectors

    @abstractmethod
    def training_texts(self, titles: list[str], bodies: list[str]) -> list[str]:
        """The texts to learn from."""

    @abstractmethod
    def train(self, numbers: list[np.ndarray], has_frequent_word: bool) -> None:
        """Learns from texts of word numbers, if a word of them is frequent enough."""

    @abstractmethod
    def encode_texts(self, texts: list[str]) -> np.ndarray:
        """Unit vectors of texts, ``(N, D)`` float32; zeros for a text without a known word."""

    def options(self) -> dict[str, object]:
        """The options of gensim's models.

        With several worker threads, the order of updates and with it the vectors would differ from run to run.
        """
        return {
            "vector_size": self.dim,
            "window": self.window,
            "min_count": self.min_count,
            "negative": self.negative,
            "sample": self.sample,
            "epochs": self.epochs,
            "seed": self.seed,
            "workers": 1,
        }

    def _titles_and_bodies(self, table: pd.DataFrame) -> tuple[list[str], list[str]]:
        bodies = table["description"].str[: self.max_characters]
        return [str(text) for text in table["title"]], [str(text) for text in bodies]

    def _warn(self, warning: str) -> None:
        warning = f"{self.name}: {warning}"
        if warning not in self.warnings_:
            self.warnings_ += (warning,)


class TrainingTexts:
    """Texts of words for gensim, which reads them once for the vocabulary and once per epoch, each with a progress bar.

    A text beyond gensim's limit of 10,000 words is yielded in pieces. Doc2Vec wants them ``tagged`` with their numbers.
    """

    def __init__(self, numbers: Sequence[np.ndarray], terms: Sequence[str], label: str, tagged: bool = False) -> None:
        self.numbers = numbers
        self.terms = terms
        self.label = label
        self.tagged = tagged
        self._passes = 0

    def __iter__(self) -> Iterator[object]:
        from gensim.models.doc2vec import TaggedDocument

        self._passes += 1
        for row, text in enumerate(track(self.numbers, f"{self.label}, pass {self._passes}")):
            for start in range(0, max(1, len(text)), MAX_WORDS):
                words = [self.terms[number] for number in text[start : start + MAX_WORDS].tolist()]
                yield TaggedDocument(words, [row]) if self.tagged else words


def number_words(texts: Sequence[str], vocabulary: Vocabulary, learn: bool) -> list[np.ndarray]:
    """The words of each text as numbers, without English stop words and URLs."""
    numbers: list[np.ndarray] = []
    for start in track(range(0, len(texts), BLOCK_TEXTS), "read words"):
        # A block at a time: all words as text take far more memory than as numbers.
        block = [URL.sub(" ", text) for text in texts[start : start + BLOCK_TEXTS]]
        numbers += vocabulary(words(block), learn=learn)
    return numbers


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
        texts = TrainingTexts(numbers, terms, "train word2vec")
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
    """The count of each word in each text, ``(N, V)`` float32; numbers outside 0..V-1 are not counted."""
    lengths = [len(text) for text in numbers]
    rows = np.repeat(np.arange(len(numbers)), lengths)
    columns = np.concatenate([*numbers, np.empty(0, dtype=np.int32)])
    known = (columns >= 0) & (columns < num_words)
    ones = np.ones(int(known.sum()), dtype=np.float32)
    counts = csr_array((ones, (rows[known], columns[known])), shape=(len(numbers), num_words))
    counts.sum_duplicates()
    return counts


@dataclass(kw_only=True, eq=False)
class Doc2Vec(GensimModel):
    """Paragraph vectors (Le and Mikolov, "Distributed Representations of Sentences and Documents", 2014).

    gensim trains on whole documents (title and description) with one worker thread. Titles and descriptions get vectors
    by inference, those of the training documents too: inferred and trained vectors differ, and all must be comparable.
    gensim draws the start of an inference from a hash that differs between processes, so the inference here starts from
    a vector that the seed fixes, the same for all texts. With 100 dimensions, PV-DBOW reads 770,000 words a second in
    training and 530,000 in inference: 20 epochs over 366,000 questions of 80 words take about 13 and 19 minutes.
    """

    name: ClassVar[str] = "doc2vec"
    # predict a word from its neighbours in the window and the document (PV-DM) instead of from the document alone
    # (PV-DBOW)
    distributed_memory: bool = False
    epochs: int = 20  # passes over the corpus, and steps of each inference, which reads 10,000 words of a text at most

    def training_texts(self, titles: list[str], bodies: list[str]) -> list[str]:
        """Whole documents."""
        return [f"{title}\n{body}" for title, body in zip(titles, bodies, strict=True)]

    def train(self, numbers: list[np.ndarray], has_frequent_word: bool) -> None:
        """Trains the model that infers vectors."""
        from gensim.models.doc2vec import Doc2Vec as GensimDoc2Vec

        self.model_: GensimDoc2Vec | None = None
        if has_frequent_word:
            texts = TrainingTexts(numbers, self.vocabulary_.terms, "train doc2vec", tagged=True)
            self.model_ = GensimDoc2Vec(texts, dm=int(self.distributed_memory), **self.options())

    def encode_texts(self, texts: list[str]) -> np.ndarray:
        """Unit vectors of texts, ``(N, D)`` float32; zeros for a text without a known word."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        if self.model_ is None:
            return vectors
        numbers = number_words(texts, self.vocabulary_, learn=False)
        for row, text in enumerate(track(numbers, "infer vectors")):
            words = [self.vocabulary_.terms[number] for number in text.tolist() if number >= 0]
            known = [word for word in words if word in self.model_.wv]
            if known:
                vectors[row] = self._infer(known)
        return unit_rows(vectors)

    def _infer(self, words: list[str]) -> np.ndarray:
        """The vector of one text: gensim's ``infer_vector`` with a start and random numbers that the seed fixes."""
        from gensim.models.doc2vec import train_document_dbow, train_document_dm

        model = self.model_
        assert model is not None
        # gensim's random numbers would otherwise depend on the texts that came before.
        model.random = np.random.RandomState(self.seed)
        vector = start_vector(self.dim, self.seed)
        factor = np.ones(1, dtype=np.float32)
        # Working memory is allocated here: gensim frees its own while it still writes there.
        memory = {"work": np.zeros(model.layer1_size, dtype=np.float32)}
        train = train_document_dbow
        if self.distributed_memory:
            memory["neu1"] = np.zeros(model.layer1_size, dtype=np.float32)
            train = train_document_dm
        for rate in np.linspace(model.alpha, model.min_alpha, self.epochs):
            train(
                model,
                words[:MAX_WORDS],
                [0],
                float(rate),
                learn_words=False,
                learn_hidden=False,
                doctag_vectors=vector,
                doctags_lockf=factor,
                **memory,
            )
        return np.asarray(vector[0])


def start_vector(dim: int, seed: int) -> np.ndarray:
    """The start vector of an inference, ``(1, D)`` float32, in the range of gensim's."""
    uniform = np.random.default_rng(seed).random((1, dim)) - 0.5
    return (uniform / dim).astype(np.float32)
