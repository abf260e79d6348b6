"""Texts as numbers of words, and how often each text has each word."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from gedbd.io.progress import track
from gedbd.retrieval.vocabulary import Vocabulary, words
from gedbd.text.cleaning import URL

BLOCK_TEXTS = 1000
MIN_PROGRESS_TEXTS = 20_000
MAX_CHARACTERS = 2000


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
