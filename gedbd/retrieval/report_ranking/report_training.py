"""Replays a tracker's history, and trains rankers of reports on the queries whose duplicates are known."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import TRAIN, VAL, Corpus
from gedbd.io.console import track
from gedbd.retrieval.boosted_trees import BoostedTrees, LabelledLists
from gedbd.retrieval.feature_ranker import ModelOptions
from gedbd.retrieval.growing_arrays import RaggedArray
from gedbd.retrieval.inverted_index import Vocabulary
from gedbd.retrieval.report_ranking.candidate_features import candidate_features
from gedbd.retrieval.report_ranking.feature_store import FeatureEncoder, FeatureStore, ReportFeatures
from gedbd.retrieval.report_ranking.first_stage import (
    FirstStage,
    GrowingGroups,
    KnownGroups,
    QueryScores,
    find_candidates,
)
from gedbd.retrieval.report_ranking.processes import map_in_processes
from gedbd.retrieval.report_ranking.report_ranker import ReportRanker, read_base, with_base
from gedbd.retrieval.report_ranking.term_index import OwnQueries
from gedbd.retrieval.report_ranking.vector_table import ROUNDING, RoughScores

Result = TypeVar("Result")
BLOCK_QUERIES = 64  # reports that are replayed at once
MIN_PARALLEL_QUERIES = 1000  # for fewer, starting processes takes longer than it saves


class Replayed(NamedTuple):
    """The candidates of one report of a history."""

    row: int  # the report
    group: np.ndarray  # ``(C,)`` the candidates: groups as they were known before the report
    best: np.ndarray  # ``(C,)`` the report of each group with the highest sum
    features: np.ndarray  # ``(C, F)``, see ``candidate_features``
    right: np.ndarray  # ``(C,)`` bool: a member of the group is a duplicate of the report


class ReportHistory:
    """The reports of a tracker in chronological order. Later reports are neither candidates nor in word statistics.

    Args:
        features: N reports.
        links: ``(2, L)`` rows of reports that are known to be duplicates, see ``GrowingGroups``.
        group: ``(N,)`` duplicate group of each report, the ground truth.
    """

    def __init__(self, features: ReportFeatures, links: np.ndarray, group: np.ndarray) -> None:
        # One array for each kind of terms is pickled in less time than many.
        nothing = np.empty(0, dtype=np.int32)
        flat = {kind: RaggedArray.of(texts, nothing) for kind, texts in features.terms.items()}
        self.features = replace(features, terms=flat)
        # One store for all rows: the replay of a row looks at the rows before it alone.
        self.store = FeatureStore(features.vectors.shape[1])
        self.store.add(features)
        self._own = {kind: OwnQueries(index) for kind, index in self.store.terms.items()}
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
            rough: ``(row,)`` float32 cosines, which may differ in the last bits; None to compute them.
        """
        query = self.features[row]
        if rough is None:
            rough = self.features.vectors[:row] @ query.vectors[0]
        words = {kind: own(row, query.terms[kind][0]) for kind, own in self._own.items()}
        cosines = RoughScores(rough, error=ROUNDING)
        return find_candidates(QueryScores(self.store, query, self.known_before(row), rough=cosines, words=words))

    def replay_block(self, rows: Sequence[int]) -> list[Replayed]:
        """The candidates of some reports at once; the results do not depend on the block."""
        if not len(rows):
            return []
        vectors = self.features.vectors
        # One product of matrices is much faster than a product for each report.
        rough = vectors[rows] @ vectors[: max(rows)].T
        candidates = [self.find(row, cosines[:row]) for row, cosines in zip(rows, rough, strict=True)]
        features = candidate_features(candidates)
        return [
            Replayed(row, first.group, first.row, table, self._is_right(row, first))
            for row, first, table in zip(rows, candidates, features, strict=True)
        ]

    def _is_right(self, row: int, candidates: FirstStage) -> np.ndarray:
        """Whether each candidate of a report, a group, contains a duplicate of it, ``(C,)`` bool."""
        if not len(candidates.row):
            return np.zeros(0, dtype=bool)
        is_duplicate = self.group[candidates.member] == self.group[row]
        return np.asarray(np.logical_or.reduceat(is_duplicate, np.cumsum(candidates.sizes) - candidates.sizes))

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
        """Applies a function to the candidates of each of some reports, with a progress bar.

        Args:
            compute: The function. It may run in another process: it and its results must be picklable.
            rows: The reports. Ascending rows are fastest.
            label: Label of the progress bar.
            num_processes: Number of processes, which does not change the results. None for one per core, or a single
                one for fewer than ``MIN_PARALLEL_QUERIES`` reports.
        """
        chosen = [int(row) for row in rows]
        if num_processes is None and len(chosen) < MIN_PARALLEL_QUERIES:
            num_processes = 1
        blocks = [chosen[start : start + BLOCK_QUERIES] for start in range(0, len(chosen), BLOCK_QUERIES)]
        computed = map_in_processes(partial(_compute_block, self, compute), blocks, num_processes)
        yield from track(chain.from_iterable(computed), label, len(chosen), "reports")


def _compute_block(history: ReportHistory, compute: Callable[[Replayed], Result], rows: Sequence[int]) -> list[Result]:
    return [compute(replayed) for replayed in history.replay_block(rows)]


def _unchanged(replayed: Replayed) -> Replayed:
    return replayed


MAX_CANDIDATES = 100  # of a training query, in the order of the first stage: those below teach little
MIN_STOPPING_QUERIES = 100  # with fewer, the number of rounds is not chosen by the latest ones
LATEST = 0.2  # share of the training queries, the latest, that choose the number of rounds
PATIENCE = 40
MIN_ROUNDS = 150  # the latest queries alone chose 30 to 110, which ranked validation worse than 150 to 200
SETTINGS: dict[str, Any] = {"feature_fraction": 0.4, "truncation": 20}  # of boosted trees
METRICS = ("ranker_rr@10", "ranker_mrr")


@dataclass(frozen=True)
class RankerOptions(ModelOptions):
    """How a ranker is trained; the values were chosen on the validation splits of Xamarin's and Hadoop's reports."""

    # a ranker that was trained on other trackers, whose scores are further features, see ``read_base``
    base: str | None = None
    default_below: int = 300  # with fewer queries to learn from, nothing is trained: the ranker is the base

    def without_seen(self, reports: pd.DataFrame) -> "RankerOptions":
        """Options without a base that was trained on the reports' own tracker: it knows the duplicates to be found."""
        base = read_base(self.base)
        return replace(self, base=None) if base is not None and base.has_seen(reports) else self

    def settled(self, examples: Sequence[Replayed]) -> "RankerOptions":
        """Options by which any subset of some queries is treated as all of them: trained on, or ranked by the base."""
        is_enough = self.base is None or len(usable_queries(examples)) >= self.default_below
        return replace(self, default_below=0 if is_enough else sys.maxsize)


def usable_queries(examples: Sequence[Replayed]) -> list[Replayed]:
    """The queries to learn from: a duplicate is among their first candidates."""
    return [query for query in examples if query.right[:MAX_CANDIDATES].any()]


def fit_ranker(
    examples: Sequence[Replayed], options: RankerOptions | None = None, extra: tuple[str, ...] = ()
) -> ReportRanker:
    """Trains a ranker; queries whose duplicate is not among the first candidates are left out.

    Boosted trees stop early by time: trees that are trained on the older queries choose the number of rounds on the
    latest ones, and the ranker is then trained on all.

    Raises:
        ValueError: If no example has both a right and a wrong candidate.
    """
    options = options or RankerOptions()
    base = read_base(options.base)
    usable = usable_queries(examples)
    if base is not None and len(usable) < options.default_below:
        return base
    if not any((~query.right[:MAX_CANDIDATES]).any() for query in usable):
        raise ValueError("a ranker of reports needs a query with a duplicate among its candidates to learn from")
    # The base ranks all candidates, as in a search, before the first of them are chosen.
    features = [with_base(query.features, base)[:MAX_CANDIDATES] for query in usable]
    relevance = [query.right[:MAX_CANDIDATES].astype(np.int64) for query in usable]
    rounds = options.rounds
    if options.kind == "boosted" and len(usable) >= MIN_STOPPING_QUERIES:
        first = round(len(usable) * (1 - LATEST))
        older = LabelledLists(features[:first], relevance[:first])
        later = LabelledLists(features[first:], relevance[first:])
        stopped = options.fit(older, 1, later=later, patience=PATIENCE, **SETTINGS)
        assert isinstance(stopped, BoostedTrees)
        rounds = min(rounds, max(MIN_ROUNDS, len(stopped.trees)))
    model = options.fit(LabelledLists(features, relevance), rounds=rounds, **SETTINGS)
    return ReportRanker(model, extra, base)


class RankerOnTop:
    """Ranks the validation queries by the same ranker over the vectors of each epoch.

    The ranker is trained on the training queries over the vectors of the encoder before its training: a trained
    encoder scores the duplicates that it has learned from too high.
    """

    def __init__(
        self, corpus: Corpus, parts: np.ndarray, untrained: np.ndarray, options: RankerOptions | None = None
    ) -> None:
        self.corpus = corpus
        self.parts = parts
        self.untrained = untrained
        self.options = options or RankerOptions(num_seeds=1)
        self._fitted: tuple[ReportHistory, ReportRanker] | None = None

    def metrics(self, vectors: np.ndarray) -> dict[str, float]:
        """RR@10 and MRR by the names ``METRICS``; a query whose duplicate is not a candidate counts as 0.

        Raises:
            ValueError: If the training split has no query to learn from.
        """
        if self._fitted is None:
            untrained = ReportHistory.of_corpus(self.corpus, self.untrained)
            examples = list(untrained.replay(self._queries(untrained, TRAIN), "learn to rank"))
            self._fitted = untrained, fit_ranker(examples, self.options)
        history, ranker = self._fitted
        queries = self._queries(history, VAL)
        replayed = history.with_vectors(vectors).replay(queries, "rank validation")
        ranks = []  # of the first right group; infinite if none is a candidate
        for query in replayed:
            right = query.right[np.argsort(-ranker.scores(query.features), kind="stable")]
            ranks.append(1 + right.argmax() if right.any() else np.inf)
        reciprocal = 1 / np.array(ranks)
        return {"ranker_rr@10": float((reciprocal >= 0.1).mean()), "ranker_mrr": float(reciprocal.mean())}

    def _queries(self, history: ReportHistory, part: int) -> np.ndarray:
        is_in_split = self.parts[history.duplicates] == part
        return np.asarray(history.duplicates[is_in_split])
