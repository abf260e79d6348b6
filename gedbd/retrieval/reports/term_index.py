"""An inverted index of reports, which can be edited and deleted."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gedbd.retrieval.growing import GrowingArray, TermLists
from gedbd.retrieval.inverted_index import InvertedIndex, State
from gedbd.retrieval.postings import CommonTerms, Postings
from gedbd.retrieval.reports.row_map import RowMap
from gedbd.retrieval.reports.term_query import IndexedTexts, TermQuery, find_shared

SHARED = ("shared", "rarest shared", "share of query", "share of report")


class TermIndex(InvertedIndex):
    """An inverted index that can also score some texts alone, and whose texts can be replaced and removed.

    Texts have rows 0..N-1. An index with replaced or removed texts answers, to the bit, as one that never had them.

    Attributes:
        common: The common terms of the first texts, if these are in files.
        lists: The distinct terms of each text.
        rows: Where the texts of the rows are. A text that is replaced is removed, added and gets another place here.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lists = TermLists.empty()
        self.rows = RowMap()
        self.common: CommonTerms | None = None

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray], mean: float) -> "TermIndex":
        """An index of texts that are in arrays, which may be files.

        Args:
            arrays: ``lengths (N,)``; ``list starts``, ``list terms`` and ``list counts`` of ``TermLists``; ``terms``,
                ``starts``, ``rows`` and ``saturation`` of ``Postings``; ``common terms`` and ``common saturation`` of
                ``CommonTerms``.
            mean: The mean length with which the saturation was computed.
        """
        index = cls()
        lengths = arrays["lengths"]
        index._lengths = GrowingArray.copy_of(lengths)
        index._num_fixed = len(lengths)
        index.lists = TermLists(arrays["list starts"], arrays["list terms"], arrays["list counts"])
        if len(arrays["common terms"]):
            index.common = CommonTerms(arrays["common terms"], arrays["common saturation"])
        counts = np.empty(0, dtype=np.float32)  # those of the lists are enough
        fixed = Postings(arrays["terms"], arrays["starts"], arrays["rows"], counts, arrays["saturation"], mean)
        num_terms = float(lengths.sum(dtype=np.float64))
        _, large, small = index._state.parts
        index._state = index._state._replace(
            lengths=lengths, num_texts=len(lengths), num_terms=num_terms, parts=(fixed, large, small)
        )
        return index

    def __len__(self) -> int:
        return self._state.num_texts

    def __copy__(self) -> "TermIndex":
        other = super().__copy__()
        assert isinstance(other, TermIndex)
        other.lists = self.lists.__copy__()
        return other

    def add(self, texts: Sequence[np.ndarray]) -> None:
        """Adds texts at the end; see ``InvertedIndex.add``."""
        self.lists.add(texts)
        super().add(texts)

    def terms_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The distinct terms of some texts, one text after the other, and how many each has, ``(R,)``."""
        where, sizes = self.lists.find(self.rows.places(rows))
        return self.lists.terms(where), sizes

    def remove(self, places: np.ndarray) -> None:
        """Leaves the texts in some places out of all counts."""
        state = self._state
        where, _ = self.lists.find(places)
        terms, counts = self.lists.terms(where), self.lists.counts(where)
        texts = np.split(np.repeat(terms, counts.astype(np.int64)), np.cumsum(state.lengths[places])[:-1].astype(int))
        gone = Postings.of(dict(zip(places.tolist(), texts, strict=True)), state.lengths, state.mean)
        self._state = state._replace(
            num_texts=state.num_texts - len(places),
            num_terms=state.num_terms - float(state.lengths[places].sum(dtype=np.float64)),
            removed=state.removed.joined(gone, state.lengths, state.mean),
        )

    def scores(self, terms: np.ndarray, before: int | None = None) -> np.ndarray:
        """BM25 of all texts; see ``InvertedIndex.scores``."""
        count = len(self) if before is None else min(before, len(self))
        return self.query(terms, before).scores(np.arange(count))

    def query(self, terms: np.ndarray, before: int | None = None) -> TermQuery:
        """A query, see ``TermQuery``."""
        state, before = self.until(before)
        return TermQuery(IndexedTexts(self.lists, self.rows, self.common), terms, state, before)

    def until(self, before: int | None) -> tuple[State, int | None]:
        """See ``InvertedIndex.until``."""
        if self.rows.is_identity:
            return self._state.until(before)
        if before is not None and before < len(self):
            raise ValueError("an index with replaced or removed texts cannot leave out the last ones")
        return self._state, None


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
