"""Trains rankers of reports on the queries of a history whose duplicates are known."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import TRAIN, VAL, Corpus
from gedbd.retrieval.boosted_trees import BoostedTrees, LabelledLists
from gedbd.retrieval.feature_ranker import ModelOptions
from gedbd.retrieval.reports.report_history import Replayed, ReportHistory
from gedbd.retrieval.reports.report_ranker import ReportRanker, read_base, with_base

MAX_CANDIDATES = 100  # of a training query, in the order of the first stage: those below teach little
MIN_STOPPING_QUERIES = 100  # with fewer, the number of rounds is not chosen by the latest ones
LATEST = 0.2  # share of the training queries, the latest, that choose the number of rounds
PATIENCE = 40
MIN_ROUNDS = 150  # the latest queries alone chose 30 to 110, which ranked validation worse than 150 to 200
SETTINGS: dict[str, Any] = {"feature_fraction": 0.4, "truncation": 20}  # of boosted trees
METRICS = ("ranker_rr@10", "ranker_mrr")


@dataclass(frozen=True)
class RankerOptions(ModelOptions):
    """How a ranker is trained; the values were chosen on the validation parts of Xamarin's and Hadoop's reports."""

    # a ranker that was trained on other trackers, whose scores are further features, see ``read_base``
    base: str | None = None
    default_below: int = 300  # with fewer queries to learn from, nothing is trained: the ranker is the base

    def without_seen(self, reports: pd.DataFrame) -> "RankerOptions":
        """Options without a base that was trained on the reports' own tracker: it knows the duplicates to be found."""
        base = read_base(self.base)
        return replace(self, base=None) if base is not None and base.has_seen(reports) else self

    def settled(self, examples: Sequence[Replayed]) -> "RankerOptions":
        """Options by which parts of some queries are treated as all of them: trained on, or left to the base."""
        is_enough = self.base is None or len(usable_queries(examples)) >= self.default_below
        return replace(self, default_below=0 if is_enough else sys.maxsize)


def usable_queries(examples: Sequence[Replayed]) -> list[Replayed]:
    """The queries that teach something: a duplicate is among their first candidates."""
    return [query for query in examples if query.right[:MAX_CANDIDATES].any()]


def fit_ranker(
    examples: Sequence[Replayed], options: RankerOptions | None = None, extra: tuple[str, ...] = ()
) -> ReportRanker:
    """Trains a ranker; queries whose duplicate is not among the candidates teach nothing and are left out.

    Boosted trees stop early by time: trees that are trained on the older queries choose the number of rounds on the
    latest ones, and the ranker is then trained on all.

    Raises:
        ValueError: If no example has a right candidate and a wrong one.
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
    """Ranks the validation queries by one and the same ranker over the vectors of each epoch.

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
        """RR@10 and MRR by the names ``METRICS``; a query whose duplicate is no candidate counts as 0.

        Raises:
            ValueError: If the training part has no query to learn from.
        """
        if self._fitted is None:
            self._fitted = self._fit()
        history, ranker = self._fitted
        queries = self._queries(history, VAL)
        replayed = history.with_vectors(vectors).replay(queries, "rank validation")
        reciprocal = np.array([_reciprocal_rank(ranker, query) for query in replayed])
        return {"ranker_rr@10": float((reciprocal >= 0.1).mean()), "ranker_mrr": float(reciprocal.mean())}

    def _fit(self) -> tuple[ReportHistory, ReportRanker]:
        history = ReportHistory.of_corpus(self.corpus, self.untrained)
        examples = list(history.replay(self._queries(history, TRAIN), "learn to rank"))
        return history, fit_ranker(examples, self.options)

    def _queries(self, history: ReportHistory, part: int) -> np.ndarray:
        is_of_part = self.parts[history.duplicates] == part
        return np.asarray(history.duplicates[is_of_part])


def _reciprocal_rank(ranker: ReportRanker, query: Replayed) -> float:
    """1 / rank of the first right group; 0 if none is a candidate."""
    if not query.right.any():
        return 0.0
    scores = ranker.scores(query.features)
    order = np.argsort(-scores, kind="stable")
    return float(1 / (1 + np.flatnonzero(query.right[order])[0]))
