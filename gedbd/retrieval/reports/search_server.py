"""What a search asks of a search server that holds the reports, where they are too many for one machine to compare."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

MAX_EXCLUDED = 100  # a search that leaves out more reports, by its filters, compares all reports here


class WeightedTerms(NamedTuple):
    """A query for terms.

    Attributes:
        terms: ``(T,)`` distinct numbers of terms, 0 or above.
        weights: ``(T,)`` float32: what a term adds to the score of a text, divided by its saturation in the text, see
            ``Postings``.
        depth: Number of texts to find.
    """

    terms: np.ndarray
    weights: np.ndarray
    depth: int


class SearchServer(Protocol):
    """Finds likely candidates among the first texts of a store, those in its files; their exact scores are ours.

    What it finds may lack a few of the best, and it may lag behind: reports that were added or replaced since the files
    were made are compared here.

    Attributes:
        num_places: How many texts the files have.
    """

    num_places: int

    def best(self, queries: Mapping[str, WeightedTerms]) -> dict[str, np.ndarray] | None:
        """The places of the texts with the highest scores for each kind of terms; None if it does not answer."""
        ...

    def nearest(self, vector: np.ndarray, depth: int) -> np.ndarray | None:
        """The places of the vectors with the highest cosines with ``(D,)``; None if it does not answer."""
        ...


def num_excluded(allowed: np.ndarray | None) -> int:
    """How many reports may not be found, by a mask of those that may."""
    return 0 if allowed is None else len(allowed) - int(np.count_nonzero(allowed))
