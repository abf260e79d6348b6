"""How often which words are in which rows, and where each word is."""

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from gedbd.retrieval.growing_arrays import RaggedArray


class WordCounts:
    """Counts of words by row in F fields.

    Args:
        texts: For each row ``(T, 1 + F)`` int32: number of the word, counts in the fields.
    """

    def __init__(self, texts: RaggedArray) -> None:
        self.texts = texts

    @cached_property
    def lengths(self) -> np.ndarray:
        """``(N, F)`` number of words of each row."""
        sums = np.concatenate([np.zeros((1, self.texts.values.shape[1] - 1)), np.cumsum(self.texts.values[:, 1:], 0)])
        return np.asarray(sums[self.texts.starts[1:]] - sums[self.texts.starts[:-1]])

    @cached_property
    def _by_word(self) -> tuple[np.ndarray, np.ndarray]:
        """The places of all values ordered by word, and where each word starts."""
        from scipy.sparse import csr_array

        words = self.texts.values[:, 0]
        num_words = int(words.max(initial=-1)) + 1
        places = np.arange(len(words), dtype=np.int64)
        # The conversion sorts by word and keeps the order of rows; the values carried along are the places.
        table = csr_array((places, words, self.texts.starts), shape=(len(self.texts), num_words)).tocsc()
        return table.data, table.indptr.astype(np.int64)

    @cached_property
    def _row(self) -> np.ndarray:
        """The row of each value."""
        return np.repeat(np.arange(len(self.texts), dtype=np.int64), self.texts.lengths)

    def find(self, word: int, before: int) -> tuple[np.ndarray, np.ndarray]:
        """Those of the first ``before`` rows that contain a word, ``(K,)`` ascending, and counts, ``(K, F)``.

        An unknown word is in none.
        """
        places, starts = self._by_word
        if not 0 <= word < len(starts) - 1:
            return np.empty(0, dtype=np.int64), np.empty((0, self.texts.values.shape[1] - 1))
        found = places[starts[word] : starts[word + 1]]
        rows = self._row[found]
        end = np.searchsorted(rows, before)
        return rows[:end], self.texts.values[found[:end], 1:]


def grouped(owners: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Adds the counts of neighbouring rows of one owner: owners 0 0 4 with counts 1 2 3 give 0 4 and 3 3."""
    first = np.flatnonzero(np.diff(owners, prepend=-1))
    return owners[first], np.add.reduceat(counts, first, axis=0) if len(first) else counts


class Bm25Field:
    """Sums, word by word, the scores of N texts for some queries.

    sum over the words of weight * log(1 + (n - df + .5) / (df + .5)) * tf / (tf + k1 (1 - b + b l / mean l)).

    Args:
        lengths: ``(N,)`` numbers of words of the texts.
        num_texts: Number n of texts that exist.
        queries: For each query the weights of its words.
        k1: How slowly a word's further occurrences cease to count.
        b: How much long texts are punished, from 0 to 1.

    Attributes:
        scores: For each query ``(N,)`` float32.
    """

    def __init__(
        self,
        lengths: np.ndarray,
        num_texts: int,
        queries: Mapping[str, Mapping[str, float]],
        k1: float = 1.5,
        b: float = 0.75,
    ) -> None:
        self._num_texts = num_texts
        mean = max(float(lengths.sum()) / max(num_texts, 1), 1e-9)
        self._norm = k1 * (1 - b + b * lengths / mean)
        self._queries = queries
        self.scores = {name: np.zeros(len(lengths), dtype=np.float32) for name in queries}

    def add(self, word: str, texts: np.ndarray, counts: np.ndarray) -> None:
        """Adds what a word scores.

        Args:
            word: The word.
            texts: ``(T,)`` distinct texts that contain it.
            counts: ``(T,)`` how often, above 0.
        """
        if not len(texts):
            return
        idf = np.log1p((self._num_texts - len(texts) + 0.5) / (len(texts) + 0.5))
        part = idf * counts / (counts + self._norm[texts])
        for name, weights in self._queries.items():
            weight = weights.get(word)
            if weight is not None:
                self.scores[name][texts] += (weight * part).astype(np.float32)
