"""The numbers that describe a corpus."""

import numpy as np
import pandas as pd

from gedbd.corpora.documents import Corpus

Statistic = int | float | pd.Timestamp | None


def describe_corpus(corpus: Corpus) -> dict[str, Statistic]:
    """Count reports, groups and pairs, and measure dates and text.

    Returns:
        Metric to value, null where the tracker has no date or no text. ``pairs`` is the sum of n (n - 1) / 2 over
        groups of n reports; words are parted by white space, and their median is taken over reports with that text.
        ``with a web address`` counts reports whose page is known, ``links: <source>`` pairs of reports that are tied by
        that source, where the reader tells it.
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
        "first created": known(corpus.reports["created_at"].min()),
        "last created": known(corpus.reports["created_at"].max()),
        "median words of a title": median_words(corpus.reports["title"]),
        "median words of a description": median_words(corpus.reports["description"]),
        "with a web address": int((corpus.reports["url"] != "").sum()),
        **count_links(corpus.links),
    }


def count_links(links: pd.DataFrame | None) -> dict[str, Statistic]:
    """Number of tied pairs by source; a pair that is named from both sides, or twice, counts once a source."""
    if links is None:
        return {}
    ends = np.sort(links[["report", "duplicate"]].to_numpy(), axis=1)
    pairs = pd.DataFrame({"one": ends[:, 0], "other": ends[:, 1], "source": links["source"]}).drop_duplicates()
    return {f"links: {source}": int(count) for source, count in pairs["source"].value_counts().items()}


def known(date: pd.Timestamp) -> pd.Timestamp | None:
    """The date, or null for ``NaT``."""
    return None if pd.isna(date) else date


def median_words(texts: pd.Series) -> float | None:
    """Median number of words of the texts that have any, null where none has."""
    words = texts.str.count(r"\S+")
    words = words[words > 0]
    return float(words.median()) if len(words) else None
