"""A tracker's history: the candidates of every report, as if it had just come in."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.io.console import item_progress
from gedbd.io.processes import map_in_processes
from gedbd.retrieval.growing_arrays import RaggedArray
from gedbd.retrieval.inverted_index import IndexState, join_runs, length_norm
from gedbd.retrieval.reports.candidate_features import candidate_features
from gedbd.retrieval.reports.feature_store import FeatureStore
from gedbd.retrieval.reports.first_stage import FirstStage, QueryScores, find_candidates
from gedbd.retrieval.reports.known_groups import GrowingGroups, KnownGroups
from gedbd.retrieval.reports.report_features import FeatureEncoder, ReportFeatures
from gedbd.retrieval.reports.term_index import TermIndex, TermQuery
from gedbd.retrieval.reports.vector_table import ROUNDING, RoughScores
from gedbd.retrieval.vocabulary import Vocabulary

Result = TypeVar("Result")
BLOCK_QUERIES = 64  # reports that are replayed at once
MIN_PARALLEL_QUERIES = 1000  # to start processes for fewer takes longer than they save


class Replayed(NamedTuple):
    """The candidates of one report of a history.

    Attributes:
        row: The report.
        group: ``(C,)`` the candidates: groups as they were known before the report.
        best: ``(C,)`` the report of each group that speaks most for it.
        features: ``(C, F)``, see ``candidate_features``.
        right: ``(C,)`` bool: a member of the group is a duplicate of the report.
    """

    row: int
    group: np.ndarray
    best: np.ndarray
    features: np.ndarray
    right: np.ndarray


class ReportHistory:
    """The reports of a tracker in the order of time. No later report is a candidate, nor counts in word statistics.

    Args:
        features: N reports.
        links: ``(2, L)`` rows of reports that are known to be duplicates, see ``GrowingGroups``.
        group: ``(N,)`` duplicate group of each, which says what is right.
    """

    def __init__(self, features: ReportFeatures, links: np.ndarray, group: np.ndarray) -> None:
        # One array for each kind of terms is pickled in less time than many.
        nothing = np.empty(0, dtype=np.int32)
        flat = {kind: RaggedArray.of(texts, nothing) for kind, texts in features.terms.items()}
        self.features = replace(features, terms=flat)
        # One store for all rows: the replay of a row looks at the rows before it alone.
        self.store = FeatureStore(features.vectors.shape[1])
        self.store.add(features)
        self.terms = {kind: ReplayedTerms.of(index) for kind, index in self.store.terms.items()}
        self.group = group
        self._growing = GrowingGroups(links, len(features))

    @classmethod
    def of_reports(
        cls, reports: pd.DataFrame, vectors: np.ndarray, links: np.ndarray, group: np.ndarray
    ) -> "ReportHistory":
        """The history of a table of N reports with ``(N, D)`` unit rows."""
        return cls(FeatureEncoder(Vocabulary()).encode(reports, vectors, learn=True), links, group)

    @classmethod
    def of_corpus(cls, corpus: Corpus, vectors: np.ndarray) -> "ReportHistory":
        """The history of a corpus; without known links, reports are linked to the master of their group."""
        if corpus.links is not None:
            links = corpus.links.pairs
        else:
            rows = np.flatnonzero(corpus.group != np.arange(len(corpus)))
            links = np.stack([rows, corpus.group[rows]])
        return cls.of_reports(corpus.reports, vectors, links, corpus.group)

    def with_vectors(self, vectors: np.ndarray) -> "ReportHistory":
        """The same history with other vectors, ``(N, D)`` unit rows."""
        other = copy(self)
        other.features = replace(self.features, vectors=vectors)
        other.store = self.store.with_vectors(vectors)
        return other

    def __len__(self) -> int:
        return len(self.group)

    @property
    def duplicates(self) -> np.ndarray:
        """Rows of the reports that have an earlier duplicate, ascending."""
        return np.flatnonzero(self.group < np.arange(len(self)))

    def known_before(self, row: int) -> KnownGroups:
        """The groups that are known before a report."""
        return self._growing.before(row)

    def find(self, row: int, rough: np.ndarray | None = None) -> FirstStage:
        """The candidates of a report, without their features.

        Args:
            row: The report.
            rough: ``(row,)`` float32 its cosines, whose last bits may be others; None to compute them.
        """
        query = self.features[row]
        if rough is None:
            rough = self.features.vectors[:row] @ query.vectors[0]
        words = {kind: terms.query(row, query.terms[kind][0]) for kind, terms in self.terms.items()}
        cosines = RoughScores(rough, error=ROUNDING)
        return find_candidates(QueryScores(self.store, query, self.known_before(row), rough=cosines, words=words))

    def replay_block(self, rows: Sequence[int]) -> list[Replayed]:
        """The candidates of some reports at once; each is what it is in any other block."""
        vectors = self.features.vectors
        # One product of matrices takes a fraction of the time of a product for each report.
        rough = vectors[rows] @ vectors[: max(rows)].T
        found = [self.find(row, own[:row]) for row, own in zip(rows, rough, strict=True)]
        features = candidate_features(found)
        return [
            Replayed(row, one.group, one.row, own, self._is_right(row, one))
            for row, one, own in zip(rows, found, features, strict=True)
        ]

    def _is_right(self, row: int, found: FirstStage) -> np.ndarray:
        """Whether each candidate of a report, a group, has a duplicate of it, ``(C,)`` bool."""
        if not len(found.row):
            return np.zeros(0, dtype=bool)
        is_duplicate = self.group[found.member] == self.group[row]
        return np.asarray(np.logical_or.reduceat(is_duplicate, np.cumsum(found.sizes) - found.sizes))

    def replay(
        self, rows: Iterable[int], label: str = "replay", num_processes: int | None = None
    ) -> Iterator[Replayed]:
        """The candidates of some reports, with a progress bar; see ``replay_with``."""
        return self.replay_with(_unchanged, rows, label, num_processes)

    def replay_with(
        self,
        compute: Callable[[Replayed], Result],
        rows: Iterable[int],
        label: str = "replay",
        num_processes: int | None = None,
    ) -> Iterator[Result]:
        """What is computed of the candidates of each of some reports, with a progress bar.

        Args:
            compute: Computes it, in another process perhaps: it and its results can be pickled.
            rows: The reports. The work is quickest if they ascend.
            label: Of the progress bar.
            num_processes: They share the work; the results are the same to the bit for any number. None for as many as
                there are cores, and for one if there are fewer than ``MIN_PARALLEL_QUERIES`` reports.
        """
        chosen = [int(row) for row in rows]
        if num_processes is None and len(chosen) < MIN_PARALLEL_QUERIES:
            num_processes = 1
        with item_progress("reports") as progress:
            results = self._results(compute, chosen, num_processes)
            yield from progress.track(results, total=len(chosen), description=label)

    def _results(
        self, compute: Callable[[Replayed], Result], rows: Sequence[int], num_processes: int | None
    ) -> Iterator[Result]:
        blocks = [rows[start : start + BLOCK_QUERIES] for start in range(0, len(rows), BLOCK_QUERIES)]
        for results in map_in_processes(_BlockReplay(self, compute), blocks, num_processes):
            yield from results

    def replay_each(self, rows: Sequence[int]) -> Iterator[Replayed]:
        """The candidates of some reports, without a progress bar."""
        for start in range(0, len(rows), BLOCK_QUERIES):
            yield from self.replay_block(rows[start : start + BLOCK_QUERIES])


@dataclass(frozen=True)
class _BlockReplay(Generic[Result]):
    """Replays reports, and computes something of the candidates of each."""

    history: ReportHistory
    compute: Callable[[Replayed], Result]

    def __call__(self, rows: Sequence[int]) -> list[Result]:
        return [self.compute(one) for one in self.history.replay_block(rows)]


def _unchanged(replayed: Replayed) -> Replayed:
    return replayed


class ReplayedTerms(NamedTuple):
    """The terms of the N texts of an index, and the texts with each of the V terms.

    How many earlier texts contain a term of a text is where the text comes among those with the term: a query need not
    look for it.

    Attributes:
        term_index: The index.
        state: What the index holds.
        starts: ``(N + 1,)``: the distinct terms of text i, ascending, have the places ``starts[i]`` to
            ``starts[i + 1]``.
        terms: ``(P,)`` int32 the terms.
        counts: ``(P,)`` float32, how often the text contains each.
        earlier: ``(P,)`` int32, how many earlier texts contain each.
        total: ``(N + 1,)`` how many terms the texts before each have in all.
        first: ``(V + 1,)``: the texts with term t have the places ``first[t]`` to ``first[t + 1]``.
        rows: ``(P,)`` int32 the texts with the first term, ascending, those with the second, and so on.
        saturation: ``(P,)`` float32, see ``Postings``.
    """

    term_index: TermIndex
    state: IndexState
    starts: np.ndarray
    terms: np.ndarray
    counts: np.ndarray
    earlier: np.ndarray
    total: np.ndarray
    first: np.ndarray
    rows: np.ndarray
    saturation: np.ndarray

    @classmethod
    def of(cls, index: TermIndex) -> "ReplayedTerms":
        """Those of an index without replaced and removed texts."""
        state, _ = index.until(None)
        where, sizes = index.lists.find(np.arange(len(index)))
        terms, counts = index.lists.terms.take(where), index.lists.counts.take(where)
        order = np.argsort(terms, kind="stable")
        number = np.bincount(terms)
        first = _sums(number)
        earlier = np.empty(len(terms), dtype=np.int32)
        # Two texts with term 3 and three with term 5 are 0 1 and 0 1 2.
        earlier[order] = np.arange(len(terms)) - np.repeat(first[:-1], number)
        rows = np.repeat(np.arange(len(index), dtype=np.int32), sizes)[order]
        norm = length_norm(state.lengths, state.mean)[rows]
        saturation = (counts[order] / (norm + counts[order])).astype(np.float32)
        total = _sums(state.lengths.astype(np.int64))
        return cls(index, state, _sums(sizes), terms, counts, earlier, total, first, rows, saturation)

    def query(self, row: int, terms: np.ndarray) -> TermQuery:
        """Text ``row``, which has some ``terms (L,)`` in this order, as a query for the texts before it."""
        return _ReplayedQuery(self, row, terms)


class _ReplayedQuery(TermQuery):
    """A text of an index as a query for the texts before it, which finds what another ``TermQuery`` finds."""

    def __init__(self, replayed: ReplayedTerms, row: int, terms: np.ndarray) -> None:
        self._replayed = replayed
        places = slice(*replayed.starts[row : row + 2].tolist())
        own, times = replayed.terms[places], replayed.counts[places].astype(np.int64)
        order, frequency = np.searchsorted(own, terms), replayed.earlier[places].astype(np.int64)
        state = replayed.state._replace(num_texts=row, num_terms=float(replayed.total[row]))
        # The saturation was computed with the mean length of all texts.
        super().__init__(replayed.term_index, state, row, order, own, times, frequency, [replayed.state.mean])

    def _sum_terms(self) -> np.ndarray:
        """See ``TermQuery``."""
        from scipy.sparse import csc_array

        starts = self._replayed.first[self.own]
        columns = (self._replayed.rows, self._replayed.saturation)
        rows, values = join_runs(columns, starts, starts + self.frequency)
        # A column for each term. There is no table of common terms here, whose many texts take this product less time.
        ends = np.zeros(1 + len(starts), dtype=np.int32)
        np.cumsum(self.frequency, out=ends[1:])
        entries: Any = values
        shape = (len(self._state.lengths), len(starts))
        return np.asarray(csc_array((entries, rows, ends), shape=shape) @ self._weights)


def _sums(values: np.ndarray) -> np.ndarray:
    """The sums of the first 0, 1, ... values, ``(N,) -> (N + 1,)``."""
    return np.concatenate([[0], np.cumsum(values)])
