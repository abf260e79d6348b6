"""Ranking tasks over any two tables, or one: given candidate sets, and documents created before the query."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gedbd.corpora.relevance import Relevance
from gedbd.retrieval.protocol_words import ProtocolWords, generic_words
from gedbd.retrieval.ranking_tasks import TOP_K

CANDIDATE_SETS_WORDS = generic_words("candidate_sets")
EARLIER_DOCUMENTS_WORDS = generic_words("earlier_documents")


@dataclass(frozen=True)
class CandidateSets:
    """A set of candidates for every query; ranks count documents, or groups where these are given.

    Attributes:
        queries: ``(Q,)`` rows of the query table.
        candidate_sets: For each query the rows of its candidates, ascending.
        relevance: Which documents are relevant.
        top_k: Ranks K at which metrics are computed.
        name: Id of the protocol.
        group: ``(N,)`` group of every document. Then queries and documents are rows of one table, only earlier
            documents are relevant, and ranks count groups.
        words: See ``RankingTask``.
        warnings: See ``RankingTask``.
    """

    queries: np.ndarray
    candidate_sets: Sequence[np.ndarray]
    relevance: Relevance
    top_k: tuple[int, ...] = TOP_K
    name: str = "candidate_sets"
    group: np.ndarray | None = None
    words: ProtocolWords = CANDIDATE_SETS_WORDS
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def mean_candidates(self) -> float:
        """Mean size of the candidate sets; 0 without queries."""
        return float(np.mean([len(rows) for rows in self.candidate_sets])) if len(self) else 0.0

    @property
    def against(self) -> str:
        """What queries are ranked against, in words."""
        return f"the candidates of each, {self.mean_candidates:,.0f} on average"

    @property
    def needed(self) -> np.ndarray:
        """The candidates of all queries, and the queries where they are documents of the same table."""
        queries = np.empty(0, dtype=np.int64) if self.group is None else self.queries
        return np.unique(np.concatenate([queries, *self.candidate_sets]))

    def candidates(self, index: int) -> np.ndarray:
        """The set of the query."""
        return self.candidate_sets[index]

    def relevant(self, index: int) -> np.ndarray:
        """All relevant documents, in the set or not; in one table only those before the query."""
        query = int(self.queries[index])
        rows = self.relevance.relevant(query)
        return rows if self.group is None else np.asarray(rows[rows < query])

    def unit(self, rows: np.ndarray) -> np.ndarray:
        """Documents or groups."""
        return rows if self.group is None else np.asarray(self.group[rows])


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
    words: ProtocolWords = EARLIER_DOCUMENTS_WORDS
    warnings: tuple[str, ...] = ()

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
