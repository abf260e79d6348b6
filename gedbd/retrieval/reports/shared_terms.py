"""The terms that a query shares with other reports."""

from typing import NamedTuple

import numpy as np

from gedbd.retrieval.reports.term_index import TermIndex
from gedbd.retrieval.reports.term_query import TermQuery, find_shared

SHARED = ("shared", "rarest shared", "share of query", "share of report")


class SharedTerms(NamedTuple):
    """The terms of one kind that a query shares with each of C reports.

    Attributes:
        query: The query.
        sizes: ``(C,)`` how many distinct terms each report has.
        number: ``(C,)`` how many of them the query has.
        places: Places in ``query.own`` of the shared terms, report by report.
    """

    query: TermQuery
    sizes: np.ndarray
    number: np.ndarray
    places: np.ndarray

    @classmethod
    def of(cls, index: TermIndex, query: TermQuery, rows: np.ndarray) -> "SharedTerms":
        """Compares a query with the texts of an index in some rows."""
        flat, sizes = index.terms_of(rows)
        hits, places = find_shared(query.own, flat)
        # How many hits there are up to each report's last term, less those up to the last one of the report before.
        number = np.diff(np.searchsorted(hits, np.cumsum(sizes)), prepend=0)
        return cls(query, sizes, number, places)

    def by_report(self) -> list[np.ndarray]:
        """Places in ``query.own`` of the terms that each report shares, ascending, C arrays."""
        return np.split(self.places, np.cumsum(self.number)[:-1]) if len(self.number) else []

    @property
    def is_equal(self) -> np.ndarray:
        """Where the query and a report have the same terms, and any, ``(C,)`` bool."""
        return np.asarray((self.number == self.sizes) & (self.number == len(self.query.own)) & (self.number > 0))

    def columns(self, kind: str) -> dict[str, np.ndarray]:
        """Features of ``SHARED``: the sum of the shared terms' idf, the rarest one's idf, and shares of either side."""
        idf = self.query.idf
        weight = idf[self.places]
        shares = self.number > 0
        shared = np.bincount(np.repeat(np.arange(len(self.sizes)), self.number), weight, len(self.sizes))
        rarest = np.zeros(len(self.sizes))
        if shares.any():
            rarest[shares] = np.maximum.reduceat(weight, (np.cumsum(self.number) - self.number)[shares])
        nothing = np.full(len(self.sizes), np.nan)
        of_report = np.divide(self.number, self.sizes, out=nothing.copy(), where=self.sizes > 0)
        return {
            f"{kind} shared": shared,
            f"{kind} rarest shared": rarest,
            f"{kind} share of query": shared / idf.sum() if len(self.query.own) else nothing,
            f"{kind} share of report": of_report,
        }
