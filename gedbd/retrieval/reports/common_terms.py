"""The terms that many texts contain, whose postings would take long to go through."""

import numpy as np

from gedbd.retrieval.reports.int8 import MAX_CODE, encode, products

MIN_SHARE = 0.1  # of the texts
MAX_TERMS = 128


class CommonTerms:
    """A table of the saturation of each common term in each text, as whole numbers: saturation * 127, rounded.

    Args:
        terms: ``(C,)``, ascending.
        codes: ``(N, C)`` int8.
    """

    def __init__(self, terms: np.ndarray, codes: np.ndarray) -> None:
        self.terms = terms
        self._codes = codes

    @staticmethod
    def chosen(sizes: np.ndarray, num_texts: int) -> np.ndarray:
        """The terms that are common, ascending, from the number of texts ``(T,)`` that contain each."""
        most = np.argsort(-sizes, kind="stable")[:MAX_TERMS]
        return np.sort(most[sizes[most] >= max(MIN_SHARE * num_texts, 1)])

    def scores(self, terms: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
        """Rough scores of all texts for some of the terms.

        Args:
            terms: ``(T,)`` some of the common terms, ascending.
            weights: ``(T,)`` the weight of each.

        Returns:
            ``(N,)``, and how far they are at most from the exact ones.
        """
        row = np.zeros((1, len(self.terms)), dtype=np.float32)
        row[0, np.searchsorted(self.terms, terms)] = weights
        (codes,), (scale,) = encode(row)
        # A saturation is below 1 and half a step off at most; likewise a weight.
        error = float(np.abs(weights).sum()) / (2 * MAX_CODE) + len(terms) * float(scale) / 2
        return products([self._codes], codes) * (scale / MAX_CODE), error
