"""Relevance: which documents answer a query, as groups of duplicates or as single links."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Relevance(Protocol):
    """What a ranking should find. Queries and documents may be rows of one table or of two."""

    def relevant(self, row: int) -> np.ndarray:
        """Rows of the documents that are relevant to a query row, ascending."""
        ...


@dataclass(frozen=True)
class Links:
    """Relevance as single links from a query row to a document row."""

    # L rows with ``query`` and ``document`` (int64 row numbers), ``source`` (what states the link: ``dupe_of``,
    # ``comment``, ...) and ``made_at`` (UTC, ``NaT`` where unknown)
    table: pd.DataFrame
    num_queries: int  # number of rows in the table of queries
    num_documents: int  # number of rows in the table of documents; equal to ``num_queries`` if both are one table

    def __len__(self) -> int:
        return len(self.table)

    @property
    def pairs(self) -> np.ndarray:
        """``(2, L)`` query and document rows."""
        return self.table[["query", "document"]].to_numpy(dtype=np.int64).T

    def relevant(self, row: int) -> np.ndarray:
        """Documents that are linked to a query, ascending."""
        return np.unique(self._by_query[[row]].indices)

    def between(self, first: int, stop: int) -> "Links":
        """The links within one table between its rows from ``first``, which becomes row 0, to before ``stop``."""
        rows = self.table[["query", "document"]]
        kept = self.table[((rows >= first) & (rows < stop)).all(axis=1)].reset_index(drop=True)
        kept = kept.assign(query=kept["query"] - first, document=kept["document"] - first)
        return Links(kept, stop - first, stop - first)

    @cached_property
    def _by_query(self) -> "csr_array":
        from scipy.sparse import coo_array

        ones = np.ones(len(self), dtype=bool)
        return coo_array((ones, tuple(self.pairs)), shape=(self.num_queries, self.num_documents)).tocsr()


@dataclass(frozen=True)
class Groups:
    """Relevance as an equivalence: all documents of a group are relevant to each other."""

    # ``(N,)`` int64. A group is a connected component of duplicate links; its number is the row of its master, the
    # oldest member. A document without a link is a group of its own.
    group: np.ndarray

    @classmethod
    def from_links(cls, links: Links) -> "Groups":
        """The connected components of links within one table."""
        return cls(find_groups(links.pairs, links.num_documents))

    @property
    def sizes(self) -> np.ndarray:
        """``(N,)`` number of members of each document's group."""
        _, inverse, counts = np.unique(self.group, return_inverse=True, return_counts=True)
        return np.asarray(counts[inverse])

    @property
    def in_group(self) -> np.ndarray:
        """``(N,)`` bool: documents with at least one duplicate."""
        return np.asarray(self.sizes > 1)

    def relevant(self, row: int) -> np.ndarray:
        """The other members of a document's group, ascending."""
        number = self.group[row]
        # Rows sorted by group: those of group 3 in [0, 3, 3, 7] lie between the insertion points of 3 and 4.
        first, last = np.searchsorted(self._sorted_group, [number, number + 1])
        members = self._order[first:last]
        return np.asarray(members[members != row])

    def between(self, first: int, stop: int) -> "Groups":
        """The groups of some documents, see ``Links``; one that loses its master is numbered by its oldest member."""
        _, masters, inverse = np.unique(self.group[first:stop], return_index=True, return_inverse=True)
        return Groups(masters[inverse].astype(np.int64))

    @cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(self.group, kind="stable")

    @cached_property
    def _sorted_group(self) -> np.ndarray:
        return np.asarray(self.group[self._order])


def resolve_links(ids: pd.Series, id_links: pd.DataFrame) -> tuple[Links, tuple[str, ...]]:
    """Converts links between ids to links between rows; drops those to unknown documents or from a document to itself.

    Args:
        ids: ``(N,)`` ids in chronological order, indexed by row in the source file.
        id_links: Links with ``id``, ``duplicate_id``, ``source`` and ``made_at``; each ``id`` is among ``ids``.

    Returns:
        The links, ordered by query row, and warnings about dropped links.
    """
    # Ids that are not in the file get row -1.
    position = pd.Series(np.arange(len(ids)), index=ids.to_numpy())
    query = id_links["id"].map(position).to_numpy(dtype=np.int64)
    document = id_links["duplicate_id"].map(position).fillna(-1).to_numpy(dtype=np.int64)
    table = id_links.assign(query=query, document=document).sort_values("query", kind="stable", ignore_index=True)
    unknown = table["document"] < 0
    to_itself = table["document"] == table["query"]
    warnings = [
        *_dropped_warning("duplicate links to a report that is not in the file", table[unknown], ids),
        *_dropped_warning("duplicate links from a report to itself", table[to_itself], ids),
    ]
    unknown_ids = table["duplicate_id"][unknown]
    if 10 * len(unknown_ids) > len(table) and not _shapes(unknown_ids) & _shapes(ids):
        unknown_id = unknown_ids.iloc[0]
        known_id = ids.iloc[0]
        warnings.append(
            f"more than a tenth of the links name no report: ids of the file are like {known_id!r}, not {unknown_id!r}"
        )
    kept = table.loc[~(unknown | to_itself), ["query", "document", "source", "made_at"]].reset_index(drop=True)
    return Links(kept, len(ids), len(ids)), tuple(warnings)


def _shapes(ids: pd.Series) -> set[str]:
    """The patterns of ids: ``AB-0`` for AB-12."""
    return set(ids.str.replace(r"\d+", "0", regex=True))


def _dropped_warning(label: str, dropped: pd.DataFrame, ids: pd.Series) -> list[str]:
    """A warning that counts dropped links and names the first of them in the source file."""
    if dropped.empty:
        return []
    source_rows = ids.index.to_numpy()[dropped["query"]]
    first = dropped.iloc[int(source_rows.argmin())]
    return [
        f"{label}: {len(dropped):,}, dropped; the reports are kept "
        f"(first: report {first['id']} names {first['duplicate_id']}, row {source_rows.min()})"
    ]


def find_groups(links: np.ndarray, num_documents: int) -> np.ndarray:
    """Numbers each document by the master of its group.

    Args:
        links: ``(2, L)`` rows in chronological order.
        num_documents: N.

    Returns:
        ``(N,)`` int64: the lowest row in each document's connected component.
    """
    component = components(links, num_documents, "weak")
    # The first row of each component is its oldest document.
    _, master = np.unique(component, return_index=True)
    return np.asarray(master[component], dtype=np.int64)


def circle_warnings(links: np.ndarray, ids: pd.Series) -> list[str]:
    """Counts circles: sets of two or more reports that name each other, directly or through others."""
    # A circle is a strongly connected component of the directed links.
    component = components(links, len(ids), "strong")
    circles = np.flatnonzero(np.bincount(component) > 1)
    if not len(circles):
        return []
    oldest = np.isin(component, circles).argmax()
    members = np.flatnonzero(component == component[oldest])
    first = ", ".join(ids.iloc[members[:5]])
    return [f"cycles of duplicate links: {len(circles):,}, each treated as one group (first: reports {first})"]


def components(links: np.ndarray, num_documents: int, connection: str) -> np.ndarray:
    """``(N,)`` component of each document, following links both ways (``weak``) or as they point (``strong``)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(links.shape[1], dtype=bool)
    graph = coo_array((ones, (links[0], links[1])), shape=(num_documents, num_documents))
    _, component = connected_components(graph.tocsr(), directed=True, connection=connection)
    return np.asarray(component)
