"""BM25 of several queries at once over one field of what is searched."""

from collections.abc import Mapping

import numpy as np


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
