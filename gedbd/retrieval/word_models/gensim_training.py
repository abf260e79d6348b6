"""What trainings with gensim share: the check that it is installed, its texts, and a progress bar."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import chain
from types import TracebackType

import numpy as np
import pandas as pd
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from scipy.sparse import csr_array

from gedbd.io.console import is_quiet, track
from gedbd.retrieval.vocabulary import Vocabulary, words
from gedbd.text.code_words import URL

BLOCK_TEXTS = 1000
MIN_PROGRESS_TEXTS = 20_000
MAX_CHARACTERS = 2000
MAX_WORDS = 10_000  # gensim ignores what a text has beyond that, without a word
UPDATE_TEXTS = 500  # texts between two steps of the progress bar


def check_gensim() -> None:
    """Raises ValueError if gensim is not installed."""
    if find_spec("gensim") is None:
        raise ValueError("gensim is not installed: pip install 'gedbd[questions]'")


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


def titles_of(table: pd.DataFrame) -> list[str]:
    """The titles of N documents."""
    return [str(text) for text in table["title"]]


def bodies_of(table: pd.DataFrame, max_characters: int = MAX_CHARACTERS) -> list[str]:
    """The beginnings of the descriptions of N documents."""
    return [str(text) for text in table["description"].str[:max_characters]]


def number_words(texts: Sequence[str], vocabulary: Vocabulary, learn: bool, label: str) -> list[np.ndarray]:
    """The words of each text as numbers, without English stop words and URLs.

    Args:
        texts: N texts.
        vocabulary: Gives the numbers.
        learn: Add unknown words to the vocabulary; otherwise they get numbers below 0.
        label: Label of the progress bar.

    Returns:
        N arrays ``(L,)`` int32.
    """
    numbers: list[np.ndarray] = []
    starts = range(0, len(texts), BLOCK_TEXTS)
    for start in track(starts, label, transient=True, disable=len(texts) < MIN_PROGRESS_TEXTS):
        # A block at a time: all words as text take far more memory than as numbers.
        block = [URL.sub(" ", text) for text in texts[start : start + BLOCK_TEXTS]]
        numbers += vocabulary(words(block), learn=learn)
    return numbers


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


def has_frequent_word(numbers: Sequence[np.ndarray], min_count: int) -> bool:
    """Whether a word occurs at least ``min_count`` times."""
    columns = np.fromiter(chain.from_iterable(numbers), dtype=np.int64)
    return bool((np.bincount(columns[columns >= 0]) >= min_count).any()) if len(columns) else False
