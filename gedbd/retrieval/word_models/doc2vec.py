"""Title and body as document vectors, which doc2vec learns from the corpus."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gedbd.encoders.loaded_encoder import unit_rows
from gedbd.io.console import track
from gedbd.retrieval.word_models.gensim_training import (
    MAX_WORDS,
    MIN_PROGRESS_TEXTS,
    GensimModel,
    TrainingTexts,
    number_words,
)

if TYPE_CHECKING:
    pass


@dataclass(kw_only=True, eq=False)
class Doc2Vec(GensimModel):
    """Paragraph vectors (Le and Mikolov, "Distributed Representations of Sentences and Documents", 2014).

    gensim trains on whole documents (title and description) with one worker thread. Titles and descriptions get vectors
    by inference, those of the training documents too: inferred and trained vectors differ, and all are to be compared.
    gensim draws the start of an inference from a hash that differs between processes, so the inference here starts from
    a vector that the seed fixes, the same for all texts. With 100 dimensions, PV-DBOW reads 770,000 words a second in
    training and 530,000 in inference: 20 epochs over 366,000 questions of 80 words take about 13 and 19 minutes.

    Args:
        distributed_memory: Predict a word from its neighbours in the window and the document (PV-DM) instead of from
            the document alone (PV-DBOW).
        epochs: Passes over the corpus, and steps of each inference, which reads 10,000 words of a text at most.

    Attributes:
        model_: gensim's model; None if no word is frequent enough.
    """

    name: ClassVar[str] = "doc2vec"
    distributed_memory: bool = False
    epochs: int = 20

    def training_texts(self, titles: list[str], bodies: list[str]) -> list[str]:
        """Whole documents."""
        return [f"{title}\n{body}" for title, body in zip(titles, bodies, strict=True)]

    def train(self, numbers: list[np.ndarray], has_frequent_word: bool) -> None:
        """Trains the model that infers vectors."""
        from gensim.models.doc2vec import Doc2Vec as GensimDoc2Vec

        self.model_: GensimDoc2Vec | None = None
        if has_frequent_word:
            terms = self.vocabulary_.terms
            with TrainingTexts(numbers, terms, 1 + self.epochs, "train doc2vec", tagged=True) as texts:
                self.model_ = GensimDoc2Vec(texts, dm=int(self.distributed_memory), **self.options())

    def encode_texts(self, texts: list[str]) -> np.ndarray:
        """Unit vectors of texts, ``(N, D)`` float32; zeros for a text without a known word."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        if self.model_ is None:
            return vectors
        numbers = number_words(texts, self.vocabulary_, learn=False)
        few = len(texts) < MIN_PROGRESS_TEXTS // 10
        for row, text in enumerate(track(numbers, "infer vectors", transient=True, disable=few)):
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


def start_vector(dim: int, seed: int) -> np.ndarray:
    """Where an inference starts, ``(1, D)`` float32, of the size of gensim's."""
    uniform = np.random.default_rng(seed).random((1, dim)) - 0.5
    return (uniform / dim).astype(np.float32)
