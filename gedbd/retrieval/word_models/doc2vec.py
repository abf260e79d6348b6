"""Title and body as document vectors, which doc2vec learns from the corpus."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gedbd.encoders.loaded_encoder import unit_rows
from gedbd.io.console import track
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.retrieval.word_models.gensim_training import (
    MAX_CHARACTERS,
    MAX_WORDS,
    MIN_PROGRESS_TEXTS,
    TrainingTexts,
    bodies_of,
    check_gensim,
    has_frequent_word,
    number_words,
    titles_of,
)

if TYPE_CHECKING:
    from gensim.models.doc2vec import Doc2Vec as GensimDoc2Vec


class Doc2Vec:
    """Paragraph vectors (Le and Mikolov, "Distributed Representations of Sentences and Documents", 2014).

    gensim trains on whole documents (title and description) with one worker thread, see ``Word2Vec``. Titles and
    descriptions get vectors by inference, those of the training documents too: inferred and trained vectors differ, and
    all are to be compared. gensim draws the start of an inference from a hash that differs between processes, so the
    inference here starts from a vector that the seed fixes, the same for all texts. With 100 dimensions, PV-DBOW reads
    770,000 words a second in training and 530,000 in inference: 20 epochs over 366,000 questions of 80 words take about
    13 and 19 minutes.

    Args:
        dim: Size D of a vector.
        window: Words on each side that are read with a word; distributed memory only.
        min_count: Rarer words are ignored.
        distributed_memory: Predict a word from its neighbours and the document (PV-DM) instead of from the document
            alone (PV-DBOW).
        negative: Words drawn as negatives for each word.
        sample: Words that are a larger share of all words are read less often; 0 reads all.
        epochs: Passes over the corpus, and steps of each inference.
        max_characters: Length that descriptions are cut to. Of longer ones, gensim infers from 10,000 words at most.
        seed: Seed of the training and of each inference.

    Attributes:
        vocabulary_: Numbers of the words.
        model_: gensim's model; None if no word is frequent enough.
        warnings_: What was found while fitting and encoding.
    """

    def __init__(
        self,
        dim: int = 100,
        window: int = 5,
        min_count: int = 3,
        distributed_memory: bool = False,
        negative: int = 5,
        sample: float = 0.001,
        epochs: int = 20,
        max_characters: int = MAX_CHARACTERS,
        seed: int = 0,
    ) -> None:
        check_gensim()
        self.dim = dim
        self.window = window
        self.min_count = min_count
        self.distributed_memory = distributed_memory
        self.negative = negative
        self.sample = sample
        self.epochs = epochs
        self.max_characters = max_characters
        self.seed = seed
        self.warnings_: tuple[str, ...] = ()

    def fit(self, documents: pd.DataFrame) -> None:
        """Trains on the titles and descriptions of N documents: they are text without labels."""
        self.warnings_ = ()
        self.vocabulary_ = Vocabulary()
        bodies = bodies_of(documents, self.max_characters)
        texts = [f"{title}\n{body}" for title, body in zip(titles_of(documents), bodies, strict=True)]
        numbers = number_words(texts, self.vocabulary_, learn=True, label="read words")
        self.model_: GensimDoc2Vec | None = None
        if has_frequent_word(numbers, self.min_count):
            self.model_ = self._train(numbers)
        else:
            self._warn(f"doc2vec: no word occurs {self.min_count} times or more: all scores are 0")

    def encode(self, table: pd.DataFrame) -> np.ndarray:
        """Vectors of N documents.

        Returns:
            ``(N, 2D)`` float32: the unit vector of the title, then that of the description; zeros for one without a
            known word.
        """
        title = self.encode_texts(titles_of(table), "infer vectors of titles")
        body = self.encode_texts(bodies_of(table, self.max_characters), "infer vectors of descriptions")
        vectors = np.concatenate([title, body], axis=1)
        empty = int((~vectors.any(axis=1)).sum())
        if empty and self.model_ is not None:
            self._warn(f"doc2vec: documents without a known word: {empty:,} of {len(table):,}, score 0")
        return vectors

    def encode_texts(self, texts: list[str], label: str = "infer vectors") -> np.ndarray:
        """Unit vectors of texts, ``(N, D)`` float32; zeros for a text without a known word."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        if self.model_ is None:
            return vectors
        numbers = number_words(texts, self.vocabulary_, learn=False, label="read words")
        few = len(texts) < MIN_PROGRESS_TEXTS // 10
        for row, text in enumerate(track(numbers, label, transient=True, disable=few)):
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
        # Memory to compute in is held here: what gensim allocates itself is freed while it still writes there.
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

    def _train(self, numbers: list[np.ndarray]) -> "GensimDoc2Vec":
        from gensim.models.doc2vec import Doc2Vec as GensimDoc2Vec

        with TrainingTexts(numbers, self.vocabulary_.terms, 1 + self.epochs, "train doc2vec", tagged=True) as texts:
            return GensimDoc2Vec(
                texts,
                vector_size=self.dim,
                window=self.window,
                min_count=self.min_count,
                dm=int(self.distributed_memory),
                negative=self.negative,
                sample=self.sample,
                epochs=self.epochs,
                seed=self.seed,
                workers=1,
            )

    def _warn(self, warning: str) -> None:
        if warning not in self.warnings_:
            self.warnings_ += (warning,)


def start_vector(dim: int, seed: int) -> np.ndarray:
    """Where an inference starts, ``(1, D)`` float32, of the size of gensim's."""
    uniform = np.random.default_rng(seed).random((1, dim)) - 0.5
    return (uniform / dim).astype(np.float32)
