"""The terms that many texts contain, whose postings would take long to go through."""

import numpy as np

MIN_SHARE = 0.1  # of the texts
MAX_TERMS = 128
BLOCK = 65_536  # texts whose sums stay in the processor's cache


class CommonTerms:
    """A table of the saturation of each common term in each text, see ``Postings``.

    Args:
        terms: ``(C,)``, ascending.
        saturation: ``(C, N)`` float32.
    """

    def __init__(self, terms: np.ndarray, saturation: np.ndarray) -> None:
        self.terms = terms
        self._saturation = saturation

    @staticmethod
    def chosen(sizes: np.ndarray, num_texts: int) -> np.ndarray:
        """The terms that are common, ascending, from the number of texts ``(T,)`` that contain each."""
        most = np.argsort(-sizes, kind="stable")[:MAX_TERMS]
        return np.sort(most[sizes[most] >= max(MIN_SHARE * num_texts, 1)])

    def add_scores(self, terms: np.ndarray, weights: np.ndarray, total: np.ndarray) -> None:
        """Adds what some of the terms, with weights ``(T,)``, score in each text to ``total (N, ...)`` float32."""
        from scipy.linalg.blas import saxpy

        columns = [self._saturation[place] for place in np.searchsorted(self.terms, terms)]
        for start in range(0, self._saturation.shape[1], BLOCK):
            part = slice(start, min(start + BLOCK, self._saturation.shape[1]))
            for column, weight in zip(columns, weights.tolist(), strict=True):
                saxpy(column[part], total[part], a=weight)  # in place: total += weight * column
