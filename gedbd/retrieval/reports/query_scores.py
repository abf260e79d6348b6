"""Scores of stored reports for one query."""

from collections.abc import Callable, Mapping

import numpy as np

from gedbd.retrieval.reports.feature_store import TERM_KINDS, FeatureStore
from gedbd.retrieval.reports.report_features import ReportFeatures
from gedbd.retrieval.reports.term_query import TermQuery


class QueryScores:
    """Scores of the first ``count`` reports of a store for one query: cosine, and BM25 of each kind of terms.

    Args:
        store: The stored reports.
        query: One report.
        count: Number n of reports that exist. Only an index without replaced and removed reports can leave out others.
        dense: ``(n,)`` the cosines, where they are known already.
        vector: Waits for the query's vector ``(D,)``, where it is still being computed; None takes that of ``query``.
        words: The query's terms of each kind of ``TERM_KINDS``, where they are known already.

    Attributes:
        count: See there.
        words: The query's terms of each kind of ``TERM_KINDS``.
    """

    def __init__(
        self,
        store: FeatureStore,
        query: ReportFeatures,
        count: int,
        dense: np.ndarray | None = None,
        vector: Callable[[], np.ndarray] | None = None,
        words: Mapping[str, TermQuery] | None = None,
    ) -> None:
        self.count = count
        if words is None:
            words = {kind: store.terms(kind).query(getattr(query.terms, kind)[0], count) for kind in TERM_KINDS}
        self.words = words
        self._vectors = store.vectors
        self._vector = vector or (lambda: query.vectors[0])
        self._dense = dense
        # Zeros, which the system gives without writing them, unlike other values.
        self._cosines = np.zeros(count, dtype=np.float32)
        self._is_known = np.zeros(count, dtype=bool)

    def __call__(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Scores of some reports, ``(R,)``; ``name`` is ``dense`` or a kind of ``TERM_KINDS``."""
        if name != "dense":
            return self.words[name].scores(rows)
        if self._dense is not None:
            return np.asarray(self._dense[rows])
        # A cosine is the same whatever other reports it is computed with: what is computed once is kept.
        fresh = rows[~self._is_known[rows]]
        if len(fresh):
            self._cosines[fresh] = self._vectors.cosines(fresh, self._vector())
            self._is_known[fresh] = True
        return np.asarray(self._cosines[rows])

    def nearest(self, depth: int, allowed: np.ndarray | None) -> np.ndarray:
        """The reports with the highest cosines, the highest first; of equal ones the older report comes first."""
        rows = self._likely(depth, allowed)
        return np.asarray(rows[np.argsort(-self("dense", rows), kind="stable")][:depth])

    def _likely(self, depth: int, allowed: np.ndarray | None) -> np.ndarray:
        """The reports that ``nearest`` finds among others, ascending."""
        dense = self._dense
        if dense is not None:
            rows = np.arange(self.count) if allowed is None else np.flatnonzero(allowed)
            if len(rows) > depth:
                lowest = np.partition(dense[rows], -depth)[-depth]
                rows = rows[dense[rows] >= lowest]
            return rows
        return self._vectors.likely(self._vector(), depth, self.count, allowed)
