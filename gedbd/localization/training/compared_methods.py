"""The methods that a run compares: scorers alone, by their best parts, summed, and learned rankers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import GRANULARITIES, ChangeCorpus, Granularity
from gedbd.corpora.relevance import Links
from gedbd.localization.change_ranking.change_training import ChangeRankerScorer, ChangeTrainingOptions, Replay
from gedbd.localization.training.localization_protocol import Level, reports_of
from gedbd.retrieval.linear_ranker import LinearRanker
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs
from gedbd.retrieval.scorers.simple_scorers import Recency

EARLIER_BUGS = "earlier_bugs"
# The scorer of a granularity, not fitted yet, by a seed.
ScorerMaker = Callable[[Level, int], Scorer]
LINEAR = "linear"
RANDOM_CANDIDATES = 2_000  # of a training report: most inducing hunks are below any shortlist
MakeScorer = Callable[[], Scorer]


class RankingMethod(NamedTuple):
    """A way to rank changes.

    Attributes:
        make: Makes its scorer.
        is_random: Whether its result depends on the seed.
    """

    make: ScorerMaker
    is_random: bool


class Age(Recency):
    """log(1 + days between change and report): the oldest change first, which is often the import of a project."""

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 or above."""
        return -super().scores(rows)


class EarlierBugs(Scorer):
    """How many earlier bugs a change is known to have induced when the report is made; reads no content.

    Args:
        links: Inducing changes of reports; a link is known from ``made_at`` on, one without a date never.
        inputs: The reports and changes that the links are of.
    """

    def __init__(self, links: Links, inputs: ScorerInputs) -> None:
        dated = links.table[links.table["made_at"].notna()]
        self.made_at = dated["made_at"].to_numpy(dtype="datetime64[ns]")
        self.documents = dated["document"].to_numpy(dtype=np.int64)
        self.queries = dated["query"].to_numpy(dtype=np.int64)
        self.created_at = inputs.queries["created_at"].to_numpy(dtype="datetime64[ns]")
        self.num_documents = len(inputs.documents)

    def fit(self, inputs: ScorerInputs) -> None:
        """Does nothing."""

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` counts."""
        return np.stack([self._counts(int(row)) for row in rows])

    def _counts(self, row: int) -> np.ndarray:
        is_known = (self.made_at < self.created_at[row]) & (self.queries != row)
        return np.bincount(self.documents[is_known], minlength=self.num_documents).astype(np.float32)


class NewestFirst(Scorer):
    """The places of documents by a fitted scorer: of equal scores, the newer document comes first.

    Many reports name no file and have no stack trace, so that a scorer of these gives all changes the same score. With
    the oldest first, such a scorer would be as good as the age of a change, which finds the import of a project.

    Args:
        scorer: A fitted scorer.
    """

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer

    def fit(self, inputs: ScorerInputs) -> None:
        """Does nothing."""

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` places from 0, the highest for the highest score: scores 5 5 1 give 1 2 0."""
        scores = np.asarray(self.scorer.scores(rows), dtype=np.float32)
        order = np.argsort(scores, axis=1, kind="stable")
        positions = np.empty_like(scores)
        np.put_along_axis(positions, order, np.arange(scores.shape[1], dtype=np.float32)[None], axis=1)
        # NaN is sorted to the end: it would be the best score.
        return np.where(np.isnan(scores), np.nan, positions)


class Shared(Scorer):
    """A scorer that several methods use, fitted once to the same inputs.

    Args:
        make: Makes the scorer, again for other inputs.
    """

    def __init__(self, make: MakeScorer) -> None:
        self.make = make
        self.inputs_: ScorerInputs | None = None

    def fit(self, inputs: ScorerInputs) -> None:
        """Fits a scorer unless the last one was fitted to these very inputs."""
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
    """What is compared.

    Attributes:
        baseline: The scorer that the others are compared with.
        sums: By id, the scorers of a sum of equal weights, standardised over the candidates of a report.
        linear: The scorers of the sum with learned weights; none leaves it out.
        parts: The scorers by which commits are ranked by their best file and by their best hunk too, and files by their
            best hunk.
        only: By scorer, the granularities that it ranks, none to leave it out; of others all. Sums and ``linear`` do
            without it elsewhere.
    """

    baseline: str
    sums: Mapping[str, Sequence[str]] = field(default_factory=dict)
    linear: Sequence[str] = ()
    parts: Sequence[str] = ()
    only: Mapping[str, Sequence[Granularity]] = field(default_factory=dict)

    def check(self, scorers: Mapping[str, object]) -> None:
        """Raises ValueError if an option names a scorer or a granularity that does not exist."""
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
        """The granularities that a scorer ranks, the finest one last."""
        return tuple(granularity for granularity in GRANULARITIES if granularity in self.only.get(name, GRANULARITIES))


def make_methods(
    scorers: Mapping[str, MakeScorer], options: MethodOptions, corpus: ChangeCorpus, granularity: Granularity
) -> dict[str, RankingMethod]:
    """The methods that rank the changes of a granularity, by id.

    Args:
        scorers: By id, what makes a scorer that is not fitted yet.
        options: What is made of them.
        corpus: The history.
        granularity: What is ranked.
    """
    usable = {name: Shared(make) for name, make in scorers.items() if granularity in options.ranked(name)}
    methods = {name: fixed_method(scorer) for name, scorer in usable.items()}
    for name in options.parts:
        for part in parts_of(granularity):
            if part in options.ranked(name):
                scorer = by_best_part(scorers[name](), corpus, granularity, part)
                methods[best_part_id(name, part)] = fixed_method(scorer)
    for name, names in options.sums.items():
        chosen = {scorer_id: usable[scorer_id] for scorer_id in names if scorer_id in usable}
        if chosen:
            methods[name] = fixed_method(LinearRanker(chosen, rounds=0))
    chosen = {scorer_id: usable[scorer_id] for scorer_id in options.linear if scorer_id in usable}
    if chosen:
        methods[LINEAR] = fixed_method(LinearRanker(chosen, random_candidates=RANDOM_CANDIDATES))
    return methods


def parts_of(granularity: Granularity) -> tuple[Granularity, ...]:
    """The granularities of the parts of a change: of a commit its files and hunks."""
    return GRANULARITIES[GRANULARITIES.index(granularity) + 1 :]


def best_part_id(name: str, part: Granularity) -> str:
    """The id of the method that ranks by the best part: ``bm25_diff_best_hunk``."""
    return f"{name}_best_{part}"


def encoded_unit(method: str) -> Granularity:
    """What a method that ranks commits reads one by one, by its id: ``bm25_diff_best_hunk`` reads hunks."""
    parts = [part for part in parts_of("commit") if method.endswith(best_part_id("", part))]
    return parts[0] if parts else "commit"


def by_best_part(scorer: Scorer, corpus: ChangeCorpus, granularity: Granularity, part: Granularity) -> Scorer:
    """A scorer of hunks as one of files or commits, or one of files as one of commits.

    Args:
        scorer: Scores changes of the granularity ``part``.
        corpus: The history.
        granularity: What is to be scored, coarser than ``part``.
        part: See ``scorer``.
    """
    by_part = scorer
    if part == "hunk":
        by_part = BestPart(by_part, corpus.hunks.table, "file")
    return BestPart(by_part, corpus.files.table, "commit") if granularity == "commit" else by_part


def fixed_method(scorer: Scorer) -> RankingMethod:
    """A method without a random seed."""

    def make(level: Level, seed: int) -> Scorer:
        return scorer

    return RankingMethod(make, False)


class BestPart(Scorer):
    """A document scores as its best part: a file as its best hunk, a commit as its best file.

    For commits by their hunks, nest it: ``BestPart(BestPart(scorer, hunks, "file"), files, "commit")``. A document
    without a part scores 1 below the lowest part of all.

    Args:
        scorer: Scores the parts; it is fitted to them. A part of a relevant document counts as relevant.
        parts: The table of the parts, such as ``ChangeCorpus.hunks.table``.
        parent: Its column with the row of the document that each part belongs to.
    """

    def __init__(self, scorer: Scorer, parts: pd.DataFrame, parent: Literal["file", "commit"]) -> None:
        self.scorer = scorer
        self.parts = parts
        self.parent = parent
        self.earlier_only = scorer.earlier_only

    def fit(self, inputs: ScorerInputs) -> None:
        """Fits the scorer of the parts.

        Raises:
            ValueError: If a part belongs to none of the documents.
        """
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
        return best_part_scores(self.scorer.scores(rows), self.parents_, self.num_documents_)


def best_part_scores(scores: np.ndarray, parents: np.ndarray, num_documents: int) -> np.ndarray:
    """The maximum over the parts of each document, ``(B, M) -> (B, N)``.

    Args:
        scores: Scores of M parts.
        parents: ``(M,)`` the document of each part.
        num_documents: Number N of documents; one without a part gets the lowest score of its row less 1.
    """
    lowest = scores.min(axis=1, initial=0.0, keepdims=True) - 1
    best = np.repeat(lowest.astype(scores.dtype), num_documents, axis=1)
    order = np.argsort(parents, kind="stable")
    # Parents [0, 0, 2] begin at places 0 and 2 of the sorted parts.
    documents, starts = np.unique(parents[order], return_index=True)
    if len(documents):
        best[:, documents] = np.maximum.reduceat(scores[:, order], starts, axis=1)
    return best


@dataclass(frozen=True)
class LearntOptions(ChangeTrainingOptions):
    """A learned ranker, see ``ChangeRankerScorer``.

    Attributes:
        seed: Of the first training, to which the seeds of the task are added.
        shuffled: Each report has the text of another one. What such a ranker finds does not depend on the text: it is
            the control of all others.
        tracker: Whether it reads earlier fixes.
        hmcbl: Whether it reads the scores of the trained encoders; left out where none are trained.
    """

    shuffled: bool = False
    tracker: bool = True
    hmcbl: bool = False

    def __post_init__(self) -> None:
        if self.kind not in ("boosted", "linear"):
            raise ValueError(f"task.learnt: kind={self.kind} is unknown: choose boosted or linear")
        if self.shuffled and self.hmcbl:
            raise ValueError("task.learnt: shuffled=true and hmcbl=true: the encoders have read the reports' own texts")


class UnseenScores(Scorer):
    """Scores of a fitted scorer, missing (NaN) for the queries that it was trained on, where they are too good.

    Args:
        scorer: A scorer that is fitted.
        trained_on: ``(T,)`` rows of these queries.
    """

    def __init__(self, scorer: Scorer, trained_on: np.ndarray) -> None:
        self.scorer = scorer
        self.trained_on = trained_on

    def fit(self, inputs: ScorerInputs) -> None:
        """Does nothing."""

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``."""
        scores = np.array(self.scorer.scores(rows), dtype=np.float32)
        scores[np.isin(rows, self.trained_on)] = np.nan
        return scores


class OtherTexts(Scorer):
    """A scorer whose queries are the reports of another corpus.

    Args:
        scorer: A scorer.
        corpus: Its reports are queries, row by row.
    """

    def __init__(self, scorer: Scorer, corpus: ChangeCorpus) -> None:
        self.scorer = scorer
        self.queries = reports_of(corpus).reports

    def fit(self, inputs: ScorerInputs) -> None:
        """Fits the scorer."""
        self.scorer.fit(replace(inputs, queries=self.queries))

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``."""
        return self.scorer.scores(rows)


def with_other_texts(corpus: ChangeCorpus, seed: int = 0) -> ChangeCorpus:
    """A corpus whose reports have each title and description of another one; dates and links stay.

    Args:
        corpus: Two reports or more.
        seed: Of the order in which texts are handed on.
    """
    reports = reports_of(corpus)
    order = np.random.default_rng(seed).permutation(len(reports))
    giver = np.empty_like(order)
    giver[order] = np.roll(order, 1)  # each takes the text of the one before it in this order, so none its own
    texts = reports.reports[["title", "description"]].iloc[giver].reset_index(drop=True)
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

    Args:
        rankers: By id.
        corpus: Reports and changes.
        training: ``(T,)`` rows of the reports whose inducing commits are learned, whatever is ranked.
        hunks: Scores hunks, where these are ranked.
        encoders: Scorers of commits by trained encoders, fitted; none without training.
    """
    chosen = {name: ranker for name, ranker in rankers.items() if encoders or not ranker.hmcbl}
    texts = {False: corpus}
    if any(ranker.shuffled for ranker in chosen.values()):
        texts[True] = with_other_texts(corpus)
    replays = {(shuffled, tracker): Replay(texts[shuffled], tracker) for shuffled in texts for tracker in (True, False)}
    methods = {}
    for name, ranker in chosen.items():
        extra = encoders if ranker.hmcbl else {}
        methods[name] = _method(ranker, replays[ranker.shuffled, ranker.tracker], training, hunks, extra)
    return methods


def _method(
    ranker: LearntOptions, replay: Replay, training: np.ndarray, hunks: Scorer, extra: Mapping[str, Scorer]
) -> RankingMethod:
    def make(level: Level, seed: int) -> Scorer:
        # No two seeds share a training.
        options = replace(ranker, seed=ranker.seed + seed * ranker.num_seeds)
        parts = hunks if level.granularity == "hunk" else None
        scorer = ChangeRankerScorer(replay, level.granularity, options, extra, parts, training)
        return OtherTexts(scorer, replay.corpus) if ranker.shuffled else scorer

    return RankingMethod(make, ranker.kind == "boosted")
