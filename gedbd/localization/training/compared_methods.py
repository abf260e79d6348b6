"""The methods that a run compares: scorers, their best parts and sums, and learned rankers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import GRANULARITIES, ChangeCorpus, Granularity
from gedbd.corpora.relevance import Links
from gedbd.localization.change_ranking.change_training import (
    ChangeRankerScorer,
    ChangeTrainingOptions,
    Replay,
    reports_of,
)
from gedbd.localization.training.localization_data import Level
from gedbd.retrieval.linear_ranker import LinearRanker
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs
from gedbd.retrieval.scorers.simple_scorers import Recency

EARLIER_BUGS = "earlier_bugs"
LINEAR = "linear"
RANDOM_CANDIDATES = 2_000  # of a training report, because most inducing hunks rank below any shortlist
MakeScorer = Callable[[], Scorer]


class RankingMethod(NamedTuple):
    """A method to rank changes."""

    make: Callable[[Level, int], Scorer]  # returns an unfitted scorer for a granularity and a seed
    is_random: bool  # whether its result depends on the seed


class Age(Recency):
    """log(1 + days between change and report): ranks the oldest change, often the import of a project, first."""

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 or above."""
        return -super().scores(rows)


class EarlierBugs(Scorer):
    """Number of bugs known, at the time of the report, to come from a change; reads no content.

    A link from a report to an inducing change is known from ``made_at`` on, and never without a date.
    """

    def __init__(self, links: Links, inputs: ScorerInputs) -> None:
        dated = links.table[links.table["made_at"].notna()]
        self.made_at = dated["made_at"].to_numpy(dtype="datetime64[ns]")
        self.documents = dated["document"].to_numpy(dtype=np.int64)
        self.queries = dated["query"].to_numpy(dtype=np.int64)
        self.created_at = inputs.queries["created_at"].to_numpy(dtype="datetime64[ns]")
        self.num_documents = len(inputs.documents)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` counts."""
        return np.stack([self._counts(int(row)) for row in rows])

    def _counts(self, row: int) -> np.ndarray:
        is_known = (self.made_at < self.created_at[row]) & (self.queries != row)
        return np.bincount(self.documents[is_known], minlength=self.num_documents).astype(np.float32)


class NewestFirst(Scorer):
    """Ranks documents by a fitted scorer, newer documents first among ties.

    A scorer of file names or stack traces gives all changes the same score if a report has none. With the oldest first,
    it would then be as good as ``Age``.
    """

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` ranks in ascending order of score, from 0: scores 5 5 1 give 1 2 0."""
        scores = np.asarray(self.scorer.scores(rows), dtype=np.float32)
        order = np.argsort(scores, axis=1, kind="stable")
        positions = np.empty_like(scores)
        np.put_along_axis(positions, order, np.arange(scores.shape[1], dtype=np.float32)[None], axis=1)
        # NaN, sorted to the end, would be the best score.
        return np.where(np.isnan(scores), np.nan, positions)


class Shared(Scorer):
    """A scorer shared by several methods, fitted once to the same inputs."""

    def __init__(self, make: MakeScorer) -> None:
        self.make = make
        self.inputs_: ScorerInputs | None = None

    def fit(self, inputs: ScorerInputs) -> None:
        """Fits a scorer unless the last one was fitted to the same inputs."""
        if self.inputs_ is inputs:
            return
        self.scorer_ = self.make()
        self.scorer_.fit(inputs)
        self.inputs_ = inputs
        self.warnings_ = self.scorer_.warnings_

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``."""
        return self.scorer_.scores(rows)


@dataclass(frozen=True)
class MethodOptions:
    """Options of the compared methods."""

    baseline: str  # the scorer that the others are compared with
    # scorers of each sum with equal weights by id, standardised over the candidates of a report
    sums: Mapping[str, Sequence[str]] = field(default_factory=dict)
    linear: Sequence[str] = ()  # scorers of the sum with learned weights; empty for none
    # scorers that also rank commits by their best file and best hunk, and files by their best hunk
    parts: Sequence[str] = ()
    # granularities that a scorer ranks, by id; all by default, and none if empty. Sums and ``linear`` omit the scorer
    # at other granularities
    only: Mapping[str, Sequence[Granularity]] = field(default_factory=dict)

    def check(self, scorers: Mapping[str, object]) -> None:
        """Raises ValueError for unknown scorers or granularities."""
        named = {"baseline": [self.baseline], "linear": self.linear, "parts": self.parts, "only": list(self.only)}
        named |= {f"sums.{name}": names for name, names in self.sums.items()}
        for option, names in named.items():
            unknown = [name for name in names if name not in scorers]
            if unknown:
                choices = ", ".join(scorers)
                raise ValueError(f"task.compared.{option}={unknown[0]} is not among task.scorers: {choices}")
        taken = [name for name in (*self.sums, LINEAR) if name in scorers]
        if taken:
            raise ValueError(f"task.scorers.{taken[0]}: {taken[0]} is the name of a sum: choose another one")
        for name, granularities in self.only.items():
            if not set(granularities) <= set(GRANULARITIES):
                choices = ", ".join(GRANULARITIES)
                raise ValueError(f"task.compared.only.{name}={list(granularities)}: choose from {choices}")

    def ranked(self, name: str) -> tuple[Granularity, ...]:
        """The granularities that a scorer ranks, finest last."""
        return tuple(granularity for granularity in GRANULARITIES if granularity in self.only.get(name, GRANULARITIES))


def make_methods(
    scorers: Mapping[str, MakeScorer], options: MethodOptions, corpus: ChangeCorpus, granularity: Granularity
) -> dict[str, RankingMethod]:
    """The methods that rank the changes of a granularity, by id; ``scorers`` return an unfitted scorer."""
    usable = {name: Shared(make) for name, make in scorers.items() if granularity in options.ranked(name)}
    methods = {name: fixed_method(scorer) for name, scorer in usable.items()}
    for name in options.parts:
        for part in parts_of(granularity):
            if part in options.ranked(name):
                scorer = by_best_part(scorers[name](), corpus, granularity, part)
                methods[best_part_id(name, part)] = fixed_method(scorer)
    for name, names in options.sums.items():
        terms = {scorer_id: usable[scorer_id] for scorer_id in names if scorer_id in usable}
        if terms:
            methods[name] = fixed_method(LinearRanker(terms, rounds=0))
    terms = {scorer_id: usable[scorer_id] for scorer_id in options.linear if scorer_id in usable}
    if terms:
        methods[LINEAR] = fixed_method(LinearRanker(terms, random_candidates=RANDOM_CANDIDATES))
    return methods


def parts_of(granularity: Granularity) -> tuple[Granularity, ...]:
    """The finer granularities: file and hunk for commits."""
    return GRANULARITIES[GRANULARITIES.index(granularity) + 1 :]


def best_part_id(name: str, part: Granularity) -> str:
    """The id of the method that ranks by the best part: ``bm25_diff_best_hunk``."""
    return f"{name}_best_{part}"


def encoded_unit(method: str) -> Granularity:
    """The granularity of the texts that a method of commits reads, by its id: ``bm25_diff_best_hunk`` reads hunks."""
    parts = [part for part in parts_of("commit") if method.endswith(best_part_id("", part))]
    return parts[0] if parts else "commit"


def by_best_part(scorer: Scorer, corpus: ChangeCorpus, granularity: Granularity, part: Granularity) -> Scorer:
    """Turns a scorer of hunks into one of files or commits, or a scorer of files into one of commits."""
    by_part = scorer
    if part == "hunk":
        by_part = BestPart(by_part, corpus.hunks.table, "file")
    return BestPart(by_part, corpus.files.table, "commit") if granularity == "commit" else by_part


def fixed_method(scorer: Scorer) -> RankingMethod:
    """A method without a random seed."""
    return RankingMethod(lambda level, seed: scorer, False)


class BestPart(Scorer):
    """A document scores as its best part: a file as its best hunk, a commit as its best file.

    For commits by their hunks, nest it: ``BestPart(BestPart(scorer, hunks, "file"), files, "commit")``. A document
    without a part scores 1 below the lowest score of all parts.

    ``scorer`` is fitted to the table ``parts``, such as ``ChangeCorpus.hunks.table``, where those of relevant documents
    count as relevant; ``parent`` is the column with the row of each part's document.
    """

    def __init__(self, scorer: Scorer, parts: pd.DataFrame, parent: Literal["file", "commit"]) -> None:
        self.scorer = scorer
        self.parts = parts
        self.parent = parent
        self.earlier_only = scorer.earlier_only

    def fit(self, inputs: ScorerInputs) -> None:
        """Fits the scorer of the parts; raises ValueError if a part belongs to no document."""
        self.parents_ = self.parts[self.parent].to_numpy(dtype=np.int64)
        self.num_documents_ = len(inputs.documents)
        if len(self.parents_) and not 0 <= self.parents_.min() <= self.parents_.max() < self.num_documents_:
            raise ValueError(
                f"BestPart: the column {self.parent!r} names rows beyond the {self.num_documents_:,} documents"
            )
        parents = pd.DataFrame({"document": self.parents_, "part": np.arange(len(self.parents_))})
        pairs = inputs.train.merge(parents, on="document").drop(columns="document")
        train = pairs.rename(columns={"part": "document"})
        self.scorer.fit(ScorerInputs(self.parts, inputs.queries, train))
        self.warnings_ = self.scorer.warnings_

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``."""
        scores = self.scorer.scores(rows)  # (B, M), of the parts
        lowest = scores.min(axis=1, initial=0.0, keepdims=True) - 1
        best = np.repeat(lowest.astype(scores.dtype), self.num_documents_, axis=1)
        order = np.argsort(self.parents_, kind="stable")
        # Parents [0, 0, 2] start at positions 0 and 2 of the sorted parts.
        documents, starts = np.unique(self.parents_[order], return_index=True)
        if len(documents):
            best[:, documents] = np.maximum.reduceat(scores[:, order], starts, axis=1)
        return best


@dataclass(frozen=True)
class LearntOptions(ChangeTrainingOptions):
    """Options of a learned ranker, see ``ChangeRankerScorer``; the seeds of the task are added to ``seed``."""

    shuffled: bool = False  # whether each report has the text of another one, as a control that cannot use the text
    tracker: bool = True  # whether it reads earlier fixes
    hmcbl: bool = False  # whether it reads the scores of the trained encoders; omitted if none are trained

    def __post_init__(self) -> None:
        if self.kind not in ("boosted", "linear"):
            raise ValueError(f"task.learnt: kind={self.kind} is unknown: choose boosted or linear")
        if self.shuffled and self.hmcbl:
            raise ValueError("task.learnt: shuffled=true and hmcbl=true: the encoders have read the reports' own texts")


class UnseenScores(Scorer):
    """Scores of a fitted scorer; NaN for the queries ``trained_on (T,)``, whose scores are biased."""

    def __init__(self, scorer: Scorer, trained_on: np.ndarray) -> None:
        self.scorer = scorer
        self.trained_on = trained_on

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``."""
        scores = np.array(self.scorer.scores(rows), dtype=np.float32)
        scores[np.isin(rows, self.trained_on)] = np.nan
        return scores


def with_other_texts(corpus: ChangeCorpus, seed: int = 0) -> ChangeCorpus:
    """A corpus in which each report has title and description of another random one; dates and links stay."""
    reports = reports_of(corpus)
    order = np.random.default_rng(seed).permutation(len(reports))
    source = np.empty_like(order)
    source[order] = np.roll(order, 1)  # each gets the text of the previous report in this order
    texts = reports.reports[["title", "description"]].iloc[source].reset_index(drop=True)
    documents = replace(reports.documents, table=reports.reports.assign(**texts))
    return replace(corpus, reports=replace(reports, documents=documents))


def learnt_methods(
    rankers: Mapping[str, LearntOptions],
    corpus: ChangeCorpus,
    training: np.ndarray,
    hunks: Scorer,
    encoders: Mapping[str, Scorer],
) -> dict[str, RankingMethod]:
    """The learned rankers as methods, by id; they share the features of the reports.

    ``training (T,)`` are the rows of the training reports at every granularity, ``hunks`` is the scorer of hunks for
    their ranking, and ``encoders`` are fitted scorers of commits by trained encoders; empty without training.
    """
    usable = {name: ranker for name, ranker in rankers.items() if encoders or not ranker.hmcbl}
    texts = {False: corpus}
    if any(ranker.shuffled for ranker in usable.values()):
        texts[True] = with_other_texts(corpus)
    replays = {(shuffled, tracker): Replay(texts[shuffled], tracker) for shuffled in texts for tracker in (True, False)}
    methods = {}
    for name, ranker in usable.items():
        extra = encoders if ranker.hmcbl else {}
        methods[name] = _method(ranker, replays[ranker.shuffled, ranker.tracker], training, hunks, extra)
    return methods


def _method(
    ranker: LearntOptions, replay: Replay, training: np.ndarray, hunks: Scorer, extra: Mapping[str, Scorer]
) -> RankingMethod:
    def make(level: Level, seed: int) -> Scorer:
        # Seeds of different trainings do not overlap.
        options = replace(ranker, seed=ranker.seed + seed * ranker.num_seeds)
        parts = hunks if level.granularity == "hunk" else None
        return ChangeRankerScorer(replay, level.granularity, options, extra, parts, training)

    return RankingMethod(make, ranker.kind == "boosted")
