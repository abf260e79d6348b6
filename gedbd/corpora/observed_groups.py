"""Label scarcity: the fraction of the training groups that training may see."""

from dataclasses import dataclass

import numpy as np

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.splits import TRAIN


@dataclass(frozen=True)
class Labels:
    """Keeps the labels of a fraction of the training groups and hides those of the others.

    Reports of hidden groups stay nodes of the graph and candidates of the ranking, and may be drawn as negatives, each
    as a singleton. Validation and test keep all labels. Of two fractions with one seed, the groups of the smaller are
    among those of the larger.

    Args:
        fraction: Fraction of the groups with at least two reports in the training part, rounded up.
        seed: Determines which groups.
    """

    fraction: float = 1.0
    seed: int = 0

    def observed(self, corpus: Corpus, parts: np.ndarray) -> np.ndarray:
        """The groups that training may see, ``(N,)``, numbered as in the corpus.

        Args:
            corpus: The reports.
            parts: ``(N,)`` part of each report.

        Raises:
            ValueError: If the fraction is not above 0 and at most 1, or the split has no part but training.
        """
        if not 0 < self.fraction <= 1:
            raise ValueError(f"labels.fraction={self.fraction} must be above 0 and at most 1")
        if self.fraction < 1 and (parts == TRAIN).all():
            raise ValueError(
                f"labels.fraction={self.fraction} needs reports outside training, which split=pair does not have:"
                " choose another split"
            )
        masters, sizes = np.unique(corpus.group[parts == TRAIN], return_counts=True)
        masters = masters[sizes > 1]
        kept = int(np.ceil(self.fraction * len(masters)))
        # One permutation for all fractions: a larger one keeps a longer beginning of it.
        dropped = np.random.default_rng(self.seed).permutation(masters)[kept:]
        # A group may reach into validation and test, where its number stays.
        hidden = (parts == TRAIN) & np.isin(corpus.group, dropped)
        return np.where(hidden, np.arange(len(corpus)), corpus.group)
