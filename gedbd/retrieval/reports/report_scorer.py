"""The learnt ranker of reports as a scorer."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd

from gedbd.corpora.splits import PARTS, TRAIN, VAL
from gedbd.io.console import item_progress
from gedbd.retrieval.reports.cross_scores import CrossScores, RankedList
from gedbd.retrieval.reports.llm_check import LlmCheck
from gedbd.retrieval.reports.pair_scorer import ReportText
from gedbd.retrieval.reports.report_history import Replayed, ReportHistory
from gedbd.retrieval.reports.report_ranker import SEEN, default_ranker
from gedbd.retrieval.reports.report_training import RankerOptions, fit_ranker
from gedbd.retrieval.scorers.dense_scorer import DenseScorer
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs, linked_groups

BEHIND = " behind"
FOLDS = 2
LOG = logging.getLogger(__name__)


class SecondStage:
    """Orders candidates by a ranker that reads the scores of a cross-encoder or a language model as further features.

    A first ranker chooses the candidates that are scored, the others have NaN there. In training, the candidates of a
    query are ordered by a first ranker, and scored by a cross-encoder, that have not learnt from its group.

    Args:
        cross: The cross-encoder to train; None for none.
        llm: The language model to ask; None for none.
        options: How the rankers are trained; the first ones are trained once, whatever ``num_seeds`` says.

    Attributes:
        first_: The first ranker.
        ranker_: The second one.
    """

    def __init__(self, cross: CrossScores | None, llm: LlmCheck | None, options: RankerOptions) -> None:
        self.cross = cross
        self.llm = llm
        self.options = options

    @property
    def names(self) -> tuple[str, ...]:
        """The features behind ``FEATURES``."""
        return column_names([one.name for one in (self.cross, self.llm) if one is not None])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was found while candidates were scored, in sentences for the user."""
        return () if self.llm is None else self.llm.warnings

    def fit(self, texts: Sequence[ReportText], examples: Sequence[Replayed], group: np.ndarray) -> None:
        """Trains both rankers and the cross-encoder; the language model is asked about the training queries.

        Args:
            texts: Texts of all N reports, by row.
            examples: Replayed reports in the order of time.
            group: ``(N,)`` duplicate group of each report.

        Raises:
            ValueError: If there are too few queries to learn from, or the language model does not answer.
        """
        self.texts_ = texts
        self._known: dict[int, np.ndarray] = {}
        usable = [one for one in examples if one.right.any()]
        first_options = replace(self.options, num_seeds=1)
        self.first_ = fit_ranker(usable, first_options)
        orders = self._held_out_orders(usable, group, first_options)
        lists = _ranked_lists(usable, orders)
        scores: list[list[np.ndarray]] = []
        if self.cross is not None:
            scores.append(self.cross.fit_held_out(texts, lists, group))
        if self.llm is not None:
            LOG.warning("%s", self.llm.announce(len(lists)))
            scores.append(self._ask(self.llm, lists))
        self.ranker_ = fit_ranker(self._extended(usable, orders, scores), self.options, self.names)

    def scores(self, examples: Sequence[Replayed]) -> list[np.ndarray]:
        """Scores of the candidates of each query, ``(C,)``; those of a query are computed once."""
        fresh = [one for one in examples if one.row not in self._known]
        orders = [_best_first(self.first_.scores(one.features)) for one in fresh]
        lists = _ranked_lists(fresh, orders)
        scores: list[list[np.ndarray]] = []
        if self.cross is not None:
            scores.append(self.cross.score_lists(self.texts_, lists))
        if self.llm is not None:
            scores.append(self._ask(self.llm, lists))
        for one in self._extended(fresh, orders, scores):
            self._known[one.row] = self.ranker_.scores(one.features)
        return [self._known[one.row] for one in examples]

    def _held_out_orders(
        self, examples: Sequence[Replayed], group: np.ndarray, options: RankerOptions
    ) -> list[np.ndarray]:
        """Places of the candidates of each query, the best first, by a ranker that has not learnt from its group."""
        rows = np.array([one.row for one in examples], dtype=np.int64)
        fold = fold_of(group[rows], FOLDS)
        orders: list[np.ndarray] = [rows] * len(examples)
        for number in range(FOLDS):
            others = [one for one, own in zip(examples, fold, strict=True) if own != number]
            ranker = fit_ranker(others, options)
            for place in np.flatnonzero(fold == number).tolist():
                orders[place] = _best_first(ranker.scores(examples[place].features))
        return orders

    def _ask(self, llm: LlmCheck, lists: Sequence[RankedList]) -> list[np.ndarray]:
        """The language model's scores of the first candidates of each list."""
        scores = []
        with item_progress("reports") as progress:
            for listed in progress.track(lists, description="ask the language model"):
                first = [self.texts_[row] for row in listed.candidates[: llm.depth].tolist()]
                scores.append(llm.score(self.texts_[listed.query], first))
        return scores

    def _extended(
        self, examples: Sequence[Replayed], orders: Sequence[np.ndarray], scores: Sequence[Sequence[np.ndarray]]
    ) -> list[Replayed]:
        """The examples with the further features; ``scores`` has a list for each scorer."""
        names = [one.name for one in (self.cross, self.llm) if one is not None]
        extended = []
        for place, (one, order) in enumerate(zip(examples, orders, strict=True)):
            own = {name: of_scorer[place] for name, of_scorer in zip(names, scores, strict=True)}
            extended.append(one._replace(features=np.hstack([one.features, pair_columns(order, own)])))
        return extended


def fold_of(group: np.ndarray, num_folds: int) -> np.ndarray:
    """A fold for each of some groups, ``(Q,) -> (Q,)`` from 0; neighbouring groups, of one age, are spread over all."""
    order = np.unique(group, return_inverse=True)[1]
    return np.asarray(order % num_folds)


def _best_first(scores: np.ndarray) -> np.ndarray:
    return np.argsort(-scores, kind="stable")


def _ranked_lists(examples: Sequence[Replayed], orders: Sequence[np.ndarray]) -> list[RankedList]:
    """The reports that stand for the candidates, in the order of a ranker."""
    pairs = zip(examples, orders, strict=True)
    return [RankedList(one.row, one.best[one.right], one.best[order]) for one, order in pairs]


def column_names(scorers: Iterable[str]) -> tuple[str, ...]:
    """The features that scorers of these names give: the score, and how far it is behind the best one."""
    return tuple(f"{name}{kind}" for name in scorers for kind in ("", BEHIND))


def pair_columns(order: np.ndarray, scores: Mapping[str, np.ndarray]) -> np.ndarray:
    """Features of the C candidates of a query, ``(C, F)`` float32 in the order of ``column_names``.

    Args:
        order: ``(C,)`` places of the candidates in the order of the first ranker, the best first.
        scores: Of each scorer its scores in that order, ``(C,)`` or fewer; what lacks a score is NaN, which boosted
            trees take as missing.
    """
    columns = []
    for own in scores.values():
        column = np.full(len(order), np.nan, dtype=np.float32)
        column[order[: len(own)]] = own
        known = column[~np.isnan(column)]
        columns += [column, column - known.max() if len(known) else column]
    return np.stack(columns, axis=1) if columns else np.empty((len(order), 0), dtype=np.float32)


class LearntReports(Scorer):
    """Candidates by the first stage, ordered by a ranker that is trained on earlier queries, or by the default one.

    All reports of a group have the score of the group. Reports that are no candidates score less than all candidates,
    in the order of their cosines.

    Args:
        dense: Its vectors are compared.
        kind: ``boosted`` or ``linear`` learn from the training and validation pairs; ``default`` learns nothing here.
        seed: Of the training.
        num_seeds: See ``RankerOptions``.
        base: Likewise.
        default_below: Likewise.
        cross: A cross-encoder to train, whose scores of the first candidates are further features; None for none.
        llm: Likewise a language model to ask.

    Attributes:
        ranker_: The ranker.
    """

    earlier_only = True

    def __init__(
        self,
        dense: DenseScorer,
        kind: Literal["boosted", "linear", "default"] = "boosted",
        seed: int = 0,
        num_seeds: int = 3,
        base: str | None = None,
        default_below: int = 300,
        cross: CrossScores | None = None,
        llm: LlmCheck | None = None,
    ) -> None:
        if kind not in ("boosted", "linear", "default"):
            raise ValueError(f"kind={kind} of a ranker is unknown: choose boosted, linear or default")
        reads_pairs = cross is not None or llm is not None
        if base is not None and reads_pairs:
            raise ValueError("a base reads neither cross nor llm: leave them out, or base")
        if kind == "default" and reads_pairs:
            raise ValueError("kind=default of a ranker reads no scores of cross and llm: choose boosted or linear")
        self.dense = dense
        self.kind = kind
        self.options: RankerOptions | None = None
        if kind != "default":
            self.options = RankerOptions(kind, seed, num_seeds, base=base, default_below=default_below)
        self.second_stage: SecondStage | None = None
        if reads_pairs and self.options is not None:
            self.second_stage = SecondStage(cross, llm, self.options)

    def fit(self, inputs: ScorerInputs) -> None:
        """Replays the training queries, and those of validation if its labels may be used, and learns from them.

        A trained encoder scores the duplicates that it has learnt from too high: these are replayed with the vectors of
        encoders that have not learnt from them, see ``DenseScorer.vectors_to_learn_from``.

        Raises:
            ValueError: If there is no duplicate to learn from.
        """
        inputs.check_one_table("a ranker of reports")
        unlearnt = {} if self.options is None else self.dense.vectors_to_learn_from(inputs.documents)
        self.dense.fit(inputs)
        self.warnings_ = self.dense.warnings_
        labelled = inputs.labelled
        group = linked_groups(labelled, len(inputs.documents))
        positive = labelled[labelled["label"] == 1]
        links = positive[["query", "document"]].to_numpy(dtype=np.int64).T
        self.history_ = ReportHistory(
            inputs.documents, self.dense.documents_, links if inputs.links is None else inputs.links, group
        )
        if self.options is None:
            self.ranker_ = default_ranker()
        else:
            queries = np.unique(positive["query"])
            is_of_train = np.isin(queries, inputs.train["query"])
            examples = self._replay(queries[is_of_train], unlearnt.get(PARTS[TRAIN]))
            examples += self._replay(queries[~is_of_train], unlearnt.get(PARTS[VAL]))
            self._learn(sorted(examples, key=lambda one: one.row), inputs.documents, self.options)
        if self.ranker_.has_seen(inputs.documents):
            self.warnings_ = (*self.warnings_, f"{SEEN}: these figures say nothing of another tracker")
        self._found_in_training = self.warnings_

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``."""
        replayed = list(self.history_.replay_each(rows.tolist()))
        if self.second_stage is None:
            ranks = [self.ranker_.scores(one.features) for one in replayed]
        else:
            ranks = self.second_stage.scores(replayed)
            self.warnings_ = (*self._found_in_training, *self.second_stage.warnings)
        return np.stack([self._scores(one, own) for one, own in zip(replayed, ranks, strict=True)])

    def first_stage_ranks(self, queries: np.ndarray, relevant: Sequence[np.ndarray]) -> np.ndarray:
        """See ``TwoStageScorer``; ranks count groups."""
        ranks = np.zeros(len(queries), dtype=np.int64)
        for place, (row, wanted) in enumerate(zip(queries.tolist(), relevant, strict=True)):
            members = self.history_.find(row).members
            hits = np.flatnonzero([np.isin(rows, wanted).any() for rows in members])
            if len(hits):
                ranks[place] = hits[0] + 1
        return ranks

    def _replay(self, queries: np.ndarray, vectors: np.ndarray | None = None) -> list[Replayed]:
        """The candidates of some queries by other vectors, if given; see ``ReportHistory.replay``."""
        if not len(queries):
            return []
        history = self.history_ if vectors is None else self.history_.with_vectors(vectors)
        return list(history.replay(queries, "replay training queries"))

    def _learn(self, examples: Sequence[Replayed], documents: pd.DataFrame, options: RankerOptions) -> None:
        if self.second_stage is None:
            self.ranker_ = fit_ranker(examples, options.without_seen(documents))
            return
        reports = zip(documents["title"], documents["description"], strict=True)
        self.second_stage.fit([ReportText(*report) for report in reports], examples, self.history_.group)
        self.ranker_ = self.second_stage.ranker_

    def _scores(self, replayed: Replayed, ranks: np.ndarray) -> np.ndarray:
        """Scores of all reports, ``(N,)``, from those of the candidates of one query."""
        row = replayed.row
        vectors = self.dense.documents_
        # A cosine is between -1 and 1: 2 below the lowest candidate, nothing reaches the candidates.
        scores = np.full(len(vectors), -np.inf, dtype=np.float32)
        scores[:row] = vectors[:row] @ vectors[row] + ranks.min(initial=0) - 2
        scores[replayed.best] = ranks
        members = self.history_.known_before(row).members
        for group, score in zip(replayed.group.tolist(), ranks, strict=True):
            scores[members.get(group, group)] = score
        return scores
