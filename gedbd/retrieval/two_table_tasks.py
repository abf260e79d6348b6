"""Ranking tasks over any two tables: published candidate sets, and documents created before the query."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gedbd.corpora.relevance import Relevance
from gedbd.retrieval.ranking_tasks import TOP_K


@dataclass(frozen=True)
class CandidateSets:
    """A published set of candidates for every query; ranks count documents.

    Attributes:
        queries: ``(Q,)`` rows of the query table.
        candidate_sets: For each query the rows of its candidates, ascending.
        relevance: Which documents are relevant.
        top_k: Ranks K at which metrics are computed.
        name: Id of the protocol.
    """

    queries: np.ndarray
    candidate_sets: Sequence[np.ndarray]
    relevance: Relevance
    top_k: tuple[int, ...] = TOP_K
    name: str = "candidate_sets"

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def against(self) -> str:
        """What queries are ranked against, in words."""
        return "the candidates of each"

    @property
    def needed(self) -> np.ndarray:
        """The candidates of all queries."""
        return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *self.candidate_sets]))

    def candidates(self, index: int) -> np.ndarray:
        """The published set."""
        return self.candidate_sets[index]

    def relevant(self, index: int) -> np.ndarray:
        """All relevant documents, in the set or not."""
        return self.relevance.relevant(int(self.queries[index]))

    def unit(self, rows: np.ndarray) -> np.ndarray:
        """Documents."""
        return rows


@dataclass(frozen=True)
class EarlierDocuments:
    """Queries ranked against the documents of another table that were created before them; ranks count documents.

    Attributes:
        queries: ``(Q,)`` rows of the query table.
        num_earlier: ``(Q,)`` number of documents created before each query: candidates are rows 0..num_earlier-1.
        relevance: Which documents are relevant.
        top_k: Ranks K at which metrics are computed.
        name: Id of the protocol.
    """

    queries: np.ndarray
    num_earlier: np.ndarray
    relevance: Relevance
    top_k: tuple[int, ...] = TOP_K
    name: str = "earlier_documents"

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def against(self) -> str:
        """What queries are ranked against, in words."""
        return "all earlier documents"

    @property
    def needed(self) -> np.ndarray:
        """All documents created before the last query."""
        return np.arange(self.num_earlier.max(initial=0))

    def candidates(self, index: int) -> np.ndarray:
        """The earlier documents."""
        return np.arange(self.num_earlier[index])

    def relevant(self, index: int) -> np.ndarray:
        """The relevant documents that were created before the query."""
        # No ranking can find a later document, and it would lower the average precision of all of them.
        rows = self.relevance.relevant(int(self.queries[index]))
        return np.asarray(rows[rows < self.num_earlier[index]])

    def unit(self, rows: np.ndarray) -> np.ndarray:
        """Documents."""
        return rows


def count_earlier(created_at: pd.Series, before: pd.Series) -> np.ndarray:
    """How many documents were created before each query, ``(Q,)``; all N where either table lacks dates.

    Args:
        created_at: ``(N,)`` creation dates of the documents, ascending.
        before: ``(Q,)`` creation dates of the queries.
    """
    if created_at.isna().any() or before.isna().any():
        return np.full(len(before), len(created_at), dtype=np.int64)
    # "left": a document of the same moment is not earlier.
    return np.asarray(created_at.searchsorted(before, side="left"), dtype=np.int64)
