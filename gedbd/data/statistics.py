"""The numbers that describe a corpus."""

import numpy as np
import pandas as pd

from gedbd.data.corpus import Corpus

Statistic = int | float | pd.Timestamp | None


def describe_corpus(corpus: Corpus) -> dict[str, Statistic]:
    """Count reports, groups and pairs, and measure dates and text.

    Returns:
        Metric to value, null where the tracker has no date or no text. ``pairs`` is the sum of n (n - 1) / 2 over
        groups of n reports; words are parted by white space, and their median is taken over reports with that text.
    """
    sizes = np.unique(corpus.group, return_counts=True)[1].astype(np.int64)
    sizes = sizes[sizes > 1]
    return {
        "reports": len(corpus),
        "without duplicate": len(corpus) - int(sizes.sum()),
        "in a group": int(sizes.sum()),
        "in a group (%)": 100 * float(sizes.sum()) / len(corpus),
        "groups": len(sizes),
        "pairs": int((sizes * (sizes - 1) // 2).sum()),
        "largest group": int(sizes.max(initial=0)),
        "first filed": known(corpus.reports["created_at"].min()),
        "last filed": known(corpus.reports["created_at"].max()),
        "median words of a title": median_words(corpus.reports["title"]),
        "median words of a description": median_words(corpus.reports["description"]),
    }


def known(date: pd.Timestamp) -> pd.Timestamp | None:
    """The date, or null for ``NaT``."""
    return None if pd.isna(date) else date


def median_words(texts: pd.Series) -> float | None:
    """Median number of words of the texts that have any, null where none has."""
    words = texts.str.count(r"\S+")
    words = words[words > 0]
    return float(words.median()) if len(words) else None
