"""Anchors: the later documents of duplicate pairs, and the hours until their links were made.

Hazra et al. (2023, arXiv 2309.05035) assume that a pair is proposed as soon as its later question, the anchor, is
posted. The target is log10 of the hours from then until the link.
"""

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus


def find_anchors(corpus: Corpus, min_minutes: float) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The anchors of a corpus with their first link.

    Args:
        corpus: N dated documents and their links.
        min_minutes: Shorter times count as this long, so that the logarithm of a second does not dominate.

    Returns:
        One row an anchor, in the order of their rows: ``anchor`` and ``master`` (rows of the corpus), ``made_at``
        (UTC), ``hours``, ``target`` (log10 of the hours) and ``group``; and warnings that count what is left out.

    Raises:
        ValueError: If there is no link, no link or no document is dated, or no link was made after its anchor.
    """
    if not corpus.documents.has_dates:
        raise ValueError(f"{corpus.name} has no dates of creation: name their column with dataset.columns.created_at=")
    if corpus.links is None or corpus.links.table.empty:
        raise ValueError(f"{corpus.name} has no duplicate links: there is no time of a confirmation to learn from")
    if corpus.links.table["made_at"].isna().all():
        raise ValueError(
            f"{corpus.name}: none of its {len(corpus.links):,} duplicate links says when it was made: with dataset=csv"
            " name the column of the time of resolution by dataset.columns.resolved_at="
        )
    dated = corpus.links.table[corpus.links.table["made_at"].notna()]
    table = _with_hours(corpus, dated)
    after = table[table["hours"] > 0].sort_values(["made_at", "master"], kind="stable")
    # Of several links of an anchor, the first one made confirms it.
    first = after.drop_duplicates("anchor").sort_values("anchor", ignore_index=True)
    if first.empty:
        raise ValueError(f"{corpus.name}: no duplicate link was made after its later document: check the dates")
    short = first["hours"] < min_minutes / 60
    first["hours"] = first["hours"].clip(lower=min_minutes / 60)
    counts = {
        "duplicate links without a date": len(corpus.links.table) - len(dated),
        "duplicate links made before their later document": len(table) - len(after),
        "further links of the same anchor": len(after) - len(first),
    }
    warnings = [f"{what}: {count:,}, left out" for what, count in counts.items() if count]
    if short.any():
        warnings.append(f"links made within {min_minutes:g} min: {short.sum():,}, counted as {min_minutes:g} min")
    return first.assign(target=np.log10(first["hours"]), group=corpus.group[first["anchor"]]), tuple(warnings)


def _with_hours(corpus: Corpus, links: pd.DataFrame) -> pd.DataFrame:
    """Links as anchors, the later document of each, and masters, with the hours between anchor and link."""
    ends = links[["query", "document"]].to_numpy()
    anchor = ends.max(axis=1)
    made_at = links["made_at"].reset_index(drop=True)
    created_at = corpus.reports["created_at"].iloc[anchor].reset_index(drop=True)
    hours = (made_at - created_at).dt.total_seconds() / 3600
    return pd.DataFrame({"anchor": anchor, "master": ends.min(axis=1), "made_at": made_at, "hours": hours})


def known_before(anchors: pd.DataFrame, moment: pd.Timestamp) -> np.ndarray:
    """``(A,)`` bool: anchors whose link had been made before a moment; the others could not be learnt from then."""
    return np.asarray(anchors["made_at"] < moment)
