"""A tracker's history: the candidates of every report, as if it had just come in."""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.io.progress import item_progress
from gedbd.retrieval.reports.candidate_features import candidate_features
from gedbd.retrieval.reports.candidate_graph import graph_features
from gedbd.retrieval.reports.feature_store import FeatureStore
from gedbd.retrieval.reports.first_stage import FirstStage, find_candidates
from gedbd.retrieval.reports.known_groups import GrowingGroups, KnownGroups
from gedbd.retrieval.reports.report_features import FeatureEncoder
from gedbd.retrieval.scorers.cosine import BLOCK_QUERIES, block_cosines
from gedbd.retrieval.vocabulary import Vocabulary


class Replayed(NamedTuple):
    """The candidates of one report of a history.

    Attributes:
        row: The report.
        group: ``(C,)`` the candidates: groups as they were known before the report.
        best: ``(C,)`` the report of each group that speaks most for it.
        features: ``(C, F)``, see ``candidate_features``; behind them those of ``graph_features``, if asked for.
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
        reports: N reports.
        vectors: ``(N, D)`` unit rows.
        links: ``(2, L)`` rows of reports that are known to be duplicates, see ``GrowingGroups``.
        group: ``(N,)`` duplicate group of each, which says what is right.
        graph: Add the features of the graph among the candidates.
    """

    def __init__(
        self, reports: pd.DataFrame, vectors: np.ndarray, links: np.ndarray, group: np.ndarray, graph: bool = False
    ) -> None:
        self.features = FeatureEncoder.of(Vocabulary()).encode(reports, vectors, learn=True)
        # One store for all rows: the replay of a row looks at the rows before it alone.
        self.store = FeatureStore(vectors.shape[1])
        self.store.add(self.features)
        self.group = group
        self.graph = graph
        self._growing = GrowingGroups(links, len(reports))

    @classmethod
    def of_corpus(cls, corpus: Corpus, vectors: np.ndarray) -> "ReportHistory":
        """The history of a corpus; without known links, reports are linked to the master of their group."""
        if corpus.links is not None:
            links = corpus.links.pairs
        else:
            rows = np.flatnonzero(corpus.group != np.arange(len(corpus)))
            links = np.stack([rows, corpus.group[rows]])
        return cls(corpus.reports, vectors, links, corpus.group)

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

    def find(self, row: int, dense: np.ndarray | None = None) -> FirstStage:
        """The candidates of a report, without their features; ``dense (row,)``, if known, are its cosines."""
        return find_candidates(self.store, self.features[row], self.known_before(row), dense=dense)

    def replay_one(self, row: int, dense: np.ndarray | None = None) -> Replayed:
        """The candidates of a report, see ``find``."""
        found = self.find(row, dense)
        features = candidate_features(self.store, self.features[row], found)
        if self.graph:
            features = np.hstack([features, graph_features(self.store, self.features[row], found)])
        return Replayed(row, found.group, found.row, features, self._is_right(row, found.members))

    def _is_right(self, row: int, members: Sequence[np.ndarray]) -> np.ndarray:
        """Whether each of some groups, with its ``members``, has a duplicate of a report, ``(C,)`` bool."""
        if not members:
            return np.zeros(0, dtype=bool)
        sizes = np.array([len(rows) for rows in members])
        is_duplicate = self.group[np.concatenate(members)] == self.group[row]
        return np.asarray(np.logical_or.reduceat(is_duplicate, np.cumsum(sizes) - sizes))

    def replay(self, rows: Iterable[int], label: str = "replay") -> Iterator[Replayed]:
        """The candidates of some reports, with a progress bar; see ``replay_each``."""
        chosen = [int(row) for row in rows]
        with item_progress("reports") as progress:
            yield from progress.track(self.replay_each(chosen), total=len(chosen), description=label)

    def replay_each(self, rows: Sequence[int]) -> Iterator[Replayed]:
        """The candidates of some reports, by cosines of many reports at once, which differ in their last bits."""
        for start in range(0, len(rows), BLOCK_QUERIES):
            block = rows[start : start + BLOCK_QUERIES]
            vectors = self.features.vectors
            dense = block_cosines(vectors[: max(block)], vectors[block])
            for row, own in zip(block, dense, strict=True):
                yield self.replay_one(row, own[:row])
