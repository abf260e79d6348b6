"""What models that gensim trains share: options, vectors of title and description, texts, and a progress bar."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from types import TracebackType
from typing import ClassVar

import numpy as np
import pandas as pd
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gedbd.io.console import is_quiet, track
from gedbd.retrieval.vocabulary import Vocabulary, words
from gedbd.text.code_words import URL

BLOCK_TEXTS = 1000
MIN_PROGRESS_TEXTS = 20_000
MAX_CHARACTERS = 2000
MAX_WORDS = 10_000  # gensim ignores what a text has beyond that, without a word
UPDATE_TEXTS = 500  # texts between two steps of the progress bar


@dataclass(kw_only=True, eq=False)
class GensimModel(ABC):
    """Learns vectors of words or documents from the texts of a corpus, with gensim.

    Args:
        dim: Size D of a vector.
        window: Words on each side that are read with a word.
        min_count: Words that are rarer in the whole corpus are ignored.
        negative: Words drawn as negatives for each word.
        sample: Words that are a larger share of all words are read less often; 0 reads all.
        epochs: Passes over the corpus.
        max_characters: Length that descriptions are cut to.
        seed: Seed of the training.

    Attributes:
        vocabulary_: Numbers of the words.
        warnings_: What was found while fitting and encoding.
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
            ``(N, 2D)`` float32: the unit vector of the title, then that of the description; zeros for one without a
            known word.
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
        """What gensim is trained with.

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
    """Texts of words for gensim, which reads them once for each epoch, with a progress bar over all passes.

    A text beyond gensim's limit of 10,000 words is given in pieces.

    Args:
        numbers: N texts of word numbers.
        terms: The word of each number.
        passes: How often gensim will read the texts: once for the vocabulary and once an epoch.
        label: Label of the progress bar.
        tagged: Give each text with its number, as Doc2Vec wants it.
    """

    def __init__(
        self, numbers: Sequence[np.ndarray], terms: Sequence[str], passes: int, label: str, tagged: bool = False
    ) -> None:
        self.numbers = numbers
        self.terms = terms
        self.tagged = tagged
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, transient=True, disable=is_quiet())
        self._bar = self._progress.add_task(label, total=passes * len(numbers))

    def __enter__(self) -> "TrainingTexts":
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def __iter__(self) -> Iterator[object]:
        from gensim.models.doc2vec import TaggedDocument

        for row, text in enumerate(self.numbers):
            for start in range(0, max(1, len(text)), MAX_WORDS):
                words = [self.terms[number] for number in text[start : start + MAX_WORDS].tolist()]
                yield TaggedDocument(words, [row]) if self.tagged else words
            if (row + 1) % UPDATE_TEXTS == 0:
                self._progress.advance(self._bar, UPDATE_TEXTS)


def number_words(texts: Sequence[str], vocabulary: Vocabulary, learn: bool) -> list[np.ndarray]:
    """The words of each text as numbers, without English stop words and URLs.

    Args:
        texts: N texts.
        vocabulary: Gives the numbers.
        learn: Add unknown words to the vocabulary; otherwise they get numbers below 0.

    Returns:
        N arrays ``(L,)`` int32.
    """
    numbers: list[np.ndarray] = []
    starts = range(0, len(texts), BLOCK_TEXTS)
    for start in track(starts, "read words", transient=True, disable=len(texts) < MIN_PROGRESS_TEXTS):
        # A block at a time: all words as text take far more memory than as numbers.
        block = [URL.sub(" ", text) for text in texts[start : start + BLOCK_TEXTS]]
        numbers += vocabulary(words(block), learn=learn)
    return numbers
