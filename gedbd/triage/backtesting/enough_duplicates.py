"""Says in two sentences whether a corpus has enough duplicates to measure on it."""

import numpy as np

from gedbd.corpora.corpus import Corpus
from gedbd.evaluation.thresholds import duplicates_needed

LOWEST_TARGET = 0.5  # precision of suggestions
CONFIDENCE = 0.9
# Where these parts of a history begin.
VALIDATION = 0.6
TEST = 0.8


def verdict(corpus: Corpus) -> str:
    """How many reports repeat an earlier one, and what that allows to measure."""
    size = len(corpus)
    rows = np.flatnonzero(corpus.group < np.arange(size))
    count = f"{corpus.name}: {len(rows):,} of {size:,} reports repeat an earlier one ({len(rows) / size:.1%})."
    if not len(rows):
        return (
            f"{count} Nothing can be measured or learnt without a known duplicate: gedbd index searches with the"
            " default ranker, and suggests nothing."
        )
    validation = int(((rows >= int(VALIDATION * size)) & (rows < int(TEST * size))).sum())
    test = int((rows >= int(TEST * size)).sum())
    needed = duplicates_needed(LOWEST_TARGET, CONFIDENCE)
    parts = f"The newest fifth of the reports holds {test:,} of them, the fifth before it {validation:,}"
    if validation < needed or not test:
        return (
            f"{count} {parts}: too few for a threshold of suggestions, which needs {needed:,} in the latter. Search"
            " works with the default ranker."
        )
    return f"{count} {parts}: enough for gedbd backtest to look for a threshold of suggestions and to measure them."
