"""Matches of which nobody can say whether they are wrong: they are not marked as duplicates, but may well be."""

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.issue import DUPLICATE

SAME_TITLE = "same title"
UNNAMED_ORIGINAL = "closed as a duplicate, original unknown"


def unknown_reasons(matches: pd.DataFrame, corpus: Corpus) -> np.ndarray:
    """Why it is unknown whether a match is wrong.

    Args:
        matches: ``query`` and ``candidate`` (rows of the reports), and ``right`` (they are marked as duplicates).
        corpus: The reports.

    Returns:
        ``(B,)`` texts: ``UNNAMED_ORIGINAL`` if the query was closed as a duplicate but the export names no report that
        it holds, so that the match may be the original; ``SAME_TITLE`` if both have the same title, where case and
        white space do not count, and an empty title is like no other; empty for a match that is right, or wrong.
    """
    reports = corpus.reports
    query = matches["query"].to_numpy()
    candidate = matches["candidate"].to_numpy()
    titles = reports["title"].str.casefold().str.split().str.join(" ").to_numpy()
    same = (titles[query] == titles[candidate]) & (titles[query] != "")
    closed = reports["resolution"].str.contains(DUPLICATE, case=False, regex=False).to_numpy(dtype=bool)
    unnamed = (closed & ~corpus.relevance.in_group)[query]
    reasons = np.where(unnamed, UNNAMED_ORIGINAL, np.where(same, SAME_TITLE, ""))
    return np.where(matches["right"].to_numpy(), "", reasons)


def unknown_matches(matches: pd.DataFrame, corpus: Corpus) -> np.ndarray:
    """``(B,)`` bool: whether it is unknown if a match is wrong, see ``unknown_reasons``."""
    return np.asarray(unknown_reasons(matches, corpus) != "")
