"""Duplicate links and the groups they make."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


class Relevance(Protocol):
    """What a ranking should find. Queries and documents may be rows of one table or of two."""

    def relevant(self, row: int) -> np.ndarray:
        """Rows of the documents that are relevant to a query row, ascending."""
        ...


@dataclass(frozen=True)
class Links:
    """Relevance as single links from a query row to a document row: ``table`` has ``query`` and ``document``."""

    table: pd.DataFrame
    num_queries: int
    num_documents: int

    def relevant(self, row: int) -> np.ndarray:
        """Documents that are linked to a query, ascending."""
        return np.unique(self.table.loc[self.table["query"] == row, "document"].to_numpy(dtype=np.int64))


@dataclass(frozen=True)
class Groups:
    """Relevance as an equivalence: all documents of a group are relevant to each other. ``group (N,)``."""

    group: np.ndarray

    def relevant(self, row: int) -> np.ndarray:
        """The other members of a document's group, ascending."""
        members = np.flatnonzero(self.group == self.group[row])
        return np.asarray(members[members != row])


def read_links(ids: pd.Series, duplicates: pd.Series, sources: pd.Series) -> tuple[pd.DataFrame, list[str]]:
    """Turn the ids named as duplicates into links between positions; drop those that lead nowhere or to itself.

    Args:
        ids: ``(N,)`` report ids in chronological order, indexed by row in the source.
        duplicates: ``(N,)`` ids separated by ``;``, same index.
        sources: ``(N,)`` where each of these ids comes from, separated likewise; one for all of them suffices.

    Returns:
        L links from ``report``, the position that names, to ``duplicate``, the one that is named, and their
        ``source``; and notices about dropped links.
    """
    named = duplicates.str.split(";").explode().str.strip()
    source = np.array(spread(duplicates, sources), dtype=object)[(named != "").to_numpy()]
    named = named[named != ""]
    start = pd.Series(np.arange(len(ids)), index=ids.index).loc[named.index].to_numpy()
    end = named.map(pd.Series(np.arange(len(ids)), index=ids.to_numpy())).fillna(-1).to_numpy().astype(np.int64)
    unknown, to_itself = end < 0, end == start
    dropped = {
        "duplicate links to a report that is not in the file": unknown,
        "duplicate links from a report to itself": to_itself,
    }
    notices = []
    for remark, where in dropped.items():
        if where.any():
            row, first = min(zip(named.index[where], named[where], strict=True), key=lambda pair: pair[0])
            notices.append(
                f"{remark}: {where.sum():,}, dropped; the reports are kept "
                f"(first: report {ids[row]} names {first}, row {row})"
            )
    kept = ~(unknown | to_itself)
    return pd.DataFrame({"report": start[kept], "duplicate": end[kept], "source": source[kept]}), notices


def spread(duplicates: pd.Series, sources: pd.Series) -> list[str]:
    """One source for each id of ``duplicates``, in their order."""
    lists = [given.split(";") for given in sources]
    counts = [named.count(";") + 1 for named in duplicates]
    return [one for given, count in zip(lists, counts, strict=True) for one in (given * count)[:count]]


def find_groups(links: np.ndarray, num_reports: int) -> np.ndarray:
    """Number each report by its group's master.

    Args:
        links: ``(2, L)`` positions in chronological order.
        num_reports: N.

    Returns:
        ``(N,)`` int64: the lowest position in the connected component of each report.
    """
    component = components(links, num_reports, "weak")
    _, master = np.unique(component, return_index=True)
    return np.asarray(master[component], dtype=np.int64)


def circle_notices(links: np.ndarray, ids: pd.Series) -> list[str]:
    """Count the circles: sets of two or more reports that name each other, directly or by way of others."""
    component = components(links, len(ids), "strong")
    circles = np.flatnonzero(np.bincount(component) > 1)
    if not len(circles):
        return []
    members = np.flatnonzero(component == component[np.isin(component, circles).argmax()])
    first = ", ".join(ids.iloc[members[:5]])
    return [f"circles of duplicate links: {len(circles):,}, each taken as one group (first: reports {first})"]


def components(links: np.ndarray, num_reports: int, connection: str) -> np.ndarray:
    """``(N,)`` component of each report, following links both ways (``weak``) or as they point (``strong``)."""
    graph = coo_array((np.ones(links.shape[1], dtype=bool), (links[0], links[1])), shape=(num_reports, num_reports))
    _, component = connected_components(graph.tocsr(), directed=True, connection=connection)
    return np.asarray(component)
