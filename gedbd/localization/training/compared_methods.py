"""The methods that a run compares: scorers alone, by their best parts, and summed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd

from gedbd.corpora.changes import GRANULARITIES, ChangeCorpus, Granularity
from gedbd.localization.training.change_rankings import RankingMethod
from gedbd.localization.training.localization_protocol import Level
from gedbd.retrieval.linear_ranker import LinearRanker
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs

LINEAR = "linear"
RANDOM_CANDIDATES = 2_000  # of a training report: most inducing hunks are below any shortlist
MakeScorer = Callable[[], Scorer]


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
        linear: The scorers of the sum with learnt weights; none leaves it out.
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
                known = ", ".join(scorers)
                raise ValueError(f"task.compared.{option}={unknown[0]} is not among task.scorers: {known}")
        taken = [name for name in (*self.sums, LINEAR) if name in scorers]
        if taken:
            raise ValueError(f"task.scorers.{taken[0]}: {taken[0]} is the name of a sum: choose another one")
        for name, granularities in self.only.items():
            if not set(granularities) <= set(GRANULARITIES):
                known = ", ".join(GRANULARITIES)
                raise ValueError(f"task.compared.only.{name}={list(granularities)}: choose from {known}")

    def ranked(self, name: str) -> tuple[Granularity, ...]:
        """The granularities that a scorer ranks, the finest one last."""
        return tuple(one for one in GRANULARITIES if one in self.only.get(name, GRANULARITIES))


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
        chosen = {one: usable[one] for one in names if one in usable}
        if chosen:
            methods[name] = fixed_method(LinearRanker(chosen, rounds=0))
    chosen = {one: usable[one] for one in options.linear if one in usable}
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
    made = scorer
    if part == "hunk":
        made = BestPart(made, corpus.hunks.table, "file")
    return BestPart(made, corpus.files.table, "commit") if granularity == "commit" else made


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
