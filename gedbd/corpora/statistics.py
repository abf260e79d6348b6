"""Statistics of a corpus: counts of reports, groups and links, dates, lengths of texts."""

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.relevance import Links
from gedbd.corpora.tags import tags_of

Statistic = int | float | pd.Timestamp | None


def describe_corpus(corpus: Corpus) -> dict[str, Statistic]:
    """Count reports, groups and pairs, and measure dates and text.

    Returns:
        Metric to value, null where the tracker has no date or no text. ``pairs`` is the sum of n (n - 1) / 2 over
        groups of n reports. Words are separated by white space; medians are over the reports that have such a text.
        ``with a web address`` counts the reports whose page is known, ``links: <source>`` the pairs of reports that
        this source links. ``labels`` and ``with a label`` are there only if a report has one.
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
        "first created": date_or_none(corpus.reports["created_at"].min()),
        "last created": date_or_none(corpus.reports["created_at"].max()),
        "median words of a title": median_words(corpus.reports["title"]),
        "median words of a description": median_words(corpus.reports["description"]),
        "with a web address": int((corpus.reports["url"] != "").sum()),
        **count_labels(corpus.reports),
        **count_links(corpus.links),
    }


def count_labels(reports: pd.DataFrame) -> dict[str, Statistic]:
    """Number of different labels, and of reports with one; nothing if no report has a label."""
    if "labels" not in reports:
        return {}
    labels = tags_of(reports.assign(component=""))
    named = {label for own in labels for label in own}
    return {"labels": len(named), "with a label": sum(map(bool, labels))} if named else {}


def count_links(links: Links | None) -> dict[str, Statistic]:
    """Number of linked pairs by source; a pair that is named from both sides, or twice, counts once a source."""
    if links is None:
        return {}
    # A link from 7 to 3 and one from 3 to 7 are one pair (3, 7).
    earlier, later = np.sort(links.pairs, axis=0)
    pairs = pd.DataFrame({"earlier": earlier, "later": later, "source": links.table["source"]}).drop_duplicates()
    return {f"links: {source}": int(count) for source, count in pairs["source"].value_counts().items()}


def date_or_none(date: pd.Timestamp) -> pd.Timestamp | None:
    """The date, or null for ``NaT``."""
    return None if pd.isna(date) else date


def median_words(texts: pd.Series) -> float | None:
    """Median number of words over the texts with at least one word; null if all texts are empty."""
    words = texts.str.count(r"\S+")
    words = words[words > 0]
    return float(words.median()) if len(words) else None
