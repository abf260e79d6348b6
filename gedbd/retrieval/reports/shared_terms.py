"""The terms that a query shares with other reports."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gedbd.retrieval.reports.feature_store import FeatureStore
from gedbd.retrieval.reports.report_features import ReportFeatures

NUM_ENDINGS = 1 << 13  # of terms, as numbers in binary
SHARED = ("shared", "rarest shared", "share of query", "share of report")


class SharedTerms(NamedTuple):
    """The terms of one kind that a query shares with each of C reports.

    Attributes:
        kind: Of the terms, one of ``TERM_KINDS``.
        own: ``(T,)`` the distinct terms of the query, ascending.
        sizes: ``(C,)`` how many distinct terms each report has.
        number: ``(C,)`` how many of them the query has.
        places: Places in ``own`` of the shared terms, report by report.
    """

    kind: str
    own: np.ndarray
    sizes: np.ndarray
    number: np.ndarray
    places: np.ndarray

    @classmethod
    def of(
        cls, store: FeatureStore, query: ReportFeatures, kind: str, rows: Sequence[int] | np.ndarray
    ) -> "SharedTerms":
        """Compares a query with the reports in some rows by the terms of a kind of ``TERM_KINDS``."""
        own = np.unique(getattr(query.terms, kind)[0])
        lists = store.distinct(kind, rows)
        sizes = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
        flat = np.concatenate([np.empty(0, dtype=np.int32), *lists])
        # Few terms end in the same bits as one of the query, and only these are looked for: to search ``own`` for all
        # of them would take five times as long.
        is_own = np.zeros(NUM_ENDINGS, dtype=bool)
        is_own[own & (NUM_ENDINGS - 1)] = True
        likely = np.flatnonzero(is_own.take(flat & (NUM_ENDINGS - 1)))
        places = own.searchsorted(flat[likely])
        is_shared = own.take(places, mode="clip") == flat[likely] if len(own) else is_own[:0]
        hits = likely[is_shared]
        # How many hits there are up to each report's last term, less those up to the last one of the report before.
        number = np.diff(np.searchsorted(hits, np.cumsum(sizes)), prepend=0)
        return cls(kind, own, sizes, number, places[is_shared])

    def by_report(self) -> list[np.ndarray]:
        """Places in ``own`` of the terms that each report shares, ascending, C arrays."""
        return np.split(self.places, np.cumsum(self.number)[:-1]) if len(self.number) else []

    @property
    def is_equal(self) -> np.ndarray:
        """Where the query and a report have the same terms, and any, ``(C,)`` bool."""
        return np.asarray((self.number == self.sizes) & (self.number == len(self.own)) & (self.number > 0))

    def columns(self, store: FeatureStore, count: int) -> dict[str, np.ndarray]:
        """Features of ``SHARED``: the sum of the shared terms' idf, the rarest one's idf, and shares of either side.

        Only the first ``count`` reports of the store count in idf.
        """
        frequency = getattr(store, self.kind).frequency(self.own, count)
        idf = np.log(1 + (count - frequency + 0.5) / (frequency + 0.5))
        weight = idf[self.places]
        shares = self.number > 0
        shared = np.bincount(np.repeat(np.arange(len(self.sizes)), self.number), weight, len(self.sizes))
        rarest = np.zeros(len(self.sizes))
        if shares.any():
            rarest[shares] = np.maximum.reduceat(weight, (np.cumsum(self.number) - self.number)[shares])
        nothing = np.full(len(self.sizes), np.nan)
        of_report = np.divide(self.number, self.sizes, out=nothing.copy(), where=self.sizes > 0)
        return {
            f"{self.kind} shared": shared,
            f"{self.kind} rarest shared": rarest,
            f"{self.kind} share of query": shared / idf.sum() if len(self.own) else nothing,
            f"{self.kind} share of report": of_report,
        }
