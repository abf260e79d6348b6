"""The learned ranker of reports as a scorer, with or without a second stage that a language model scores."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gedbd.corpora.corpus import PARTS, TRAIN, VAL
from gedbd.retrieval.report_ranking.llm_check import LlmCheck, RankedList, ReportText
from gedbd.retrieval.report_ranking.report_ranker import SEEN, default_ranker
from gedbd.retrieval.report_ranking.report_training import RankerOptions, Replayed, ReportHistory, fit_ranker
from gedbd.retrieval.scorers.dense_scorer import DenseScorer
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs, linked_groups

LLM_FEATURES = ("llm", "llm behind")  # the score, and its distance to the best one
FOLDS = 2


@dataclass(eq=False)
class SecondStage:
    """Orders candidates by a ranker that reads the scores of a language model as further features.

    A first ranker chooses the candidates to score; others get NaN. In training, the first ranker that orders the
    candidates of a query has not learned from its group.
    """

    llm: LlmCheck  # its scores are the features ``LLM_FEATURES``
    options: RankerOptions  # how the rankers are trained; the first ones use one seed, whatever ``num_seeds`` is

    def fit(self, texts: Sequence[ReportText], examples: Sequence[Replayed], group: np.ndarray) -> None:
        """Trains both rankers.

        Raises:
            ValueError: If there are too few queries to learn from, or the language model does not answer.
        """
        self.texts_ = texts
        self._known: dict[int, np.ndarray] = {}
        usable = [query for query in examples if query.right.any()]
        first_options = replace(self.options, num_seeds=1)
        self.first_ = fit_ranker(usable, first_options)
        # The candidates of each query are ordered by a ranker that has not learned from its group.
        rows = np.array([query.row for query in usable], dtype=np.int64)
        # Neighbouring groups, which are of similar age, are spread over all folds.
        fold = np.unique(group[rows], return_inverse=True)[1] % FOLDS
        orders = [rows] * len(usable)
        for number in range(FOLDS):
            ranker = fit_ranker(
                [query for query, query_fold in zip(usable, fold, strict=True) if query_fold != number], first_options
            )
            for index in np.flatnonzero(fold == number).tolist():
                orders[index] = _best_first(ranker.scores(usable[index].features))
        lists = _ranked_lists(usable, orders)
        self.llm.announce(len(lists))
        scores = self.llm.score_lists(texts, lists)
        self.ranker_ = fit_ranker(self._extended(usable, orders, scores), self.options, LLM_FEATURES)

    def scores(self, examples: Sequence[Replayed]) -> list[np.ndarray]:
        """Scores of the candidates of each query, ``(C,)``; those of a query are computed once."""
        fresh = [query for query in examples if query.row not in self._known]
        orders = [_best_first(self.first_.scores(query.features)) for query in fresh]
        lists = _ranked_lists(fresh, orders)
        scores = self.llm.score_lists(self.texts_, lists)
        for query in self._extended(fresh, orders, scores):
            self._known[query.row] = self.ranker_.scores(query.features)
        return [self._known[query.row] for query in examples]

    def _extended(
        self, examples: Sequence[Replayed], orders: Sequence[np.ndarray], scores: Sequence[np.ndarray]
    ) -> list[Replayed]:
        """The examples with the further features."""
        extended = []
        for query, order, values in zip(examples, orders, scores, strict=True):
            columns = pair_columns(order, values)
            extended.append(query._replace(features=np.hstack([query.features, columns])))
        return extended


def _best_first(scores: np.ndarray) -> np.ndarray:
    return np.argsort(-scores, kind="stable")


def _ranked_lists(examples: Sequence[Replayed], orders: Sequence[np.ndarray]) -> list[RankedList]:
    """The best reports of the candidates, in the order of a ranker."""
    pairs = zip(examples, orders, strict=True)
    return [RankedList(query.row, query.best[order]) for query, order in pairs]


def pair_columns(order: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Features of the C candidates of a query, ``(C, 2)`` float32 in the order of ``LLM_FEATURES``.

    Args:
        order: ``(C,)`` places of the candidates in the order of the first ranker, the best first.
        scores: Scores in that order, ``(C,)`` or fewer; candidates without a score get NaN, a missing value for boosted
            trees.
    """
    column = np.full(len(order), np.nan, dtype=np.float32)
    column[order[: len(scores)]] = scores
    known = column[~np.isnan(column)]
    return np.stack([column, column - known.max() if len(known) else column], axis=1)


class LearntReports(Scorer):
    """Candidates by the first stage, ordered by a ranker that is trained on earlier queries, or by the default one.

    All reports of a group have the score of the group. Other reports score less than all candidates,
    in the order of their cosines.

    ``conf/baseline.yaml`` describes the options of ``boosted``; some are those of ``RankerOptions``.
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
        llm: LlmCheck | None = None,
    ) -> None:
        if kind not in ("boosted", "linear", "default"):
            raise ValueError(f"kind={kind} of a ranker is unknown: choose boosted, linear or default")
        if base is not None and llm is not None:
            raise ValueError("a base reads no scores of llm: leave llm out, or base")
        if kind == "default" and llm is not None:
            raise ValueError("kind=default of a ranker reads no scores of llm: choose boosted or linear")
        self.dense = dense
        self.kind = kind
        self.options: RankerOptions | None = None
        self.second_stage: SecondStage | None = None
        if kind != "default":
            self.options = RankerOptions(kind, seed, num_seeds, base=base, default_below=default_below)
            if llm is not None:
                self.second_stage = SecondStage(llm, self.options)

    def fit(self, inputs: ScorerInputs) -> None:
        """Replays the training queries, and those of validation if its labels may be used, and learns from them.

        A trained encoder scores the duplicates that it has learned from too high: these are replayed with the vectors
        of encoders that have not learned from them, see ``DenseScorer.vectors_to_learn_from``.

        Raises:
            ValueError: If there is no duplicate to learn from.
        """
        inputs.check_one_table("a ranker of reports")
        untrained_vectors = {} if self.options is None else self.dense.vectors_to_learn_from(inputs.documents)
        self.dense.fit(inputs)
        self.warnings_ = self.dense.warnings_
        labelled = inputs.labelled
        group = linked_groups(labelled, len(inputs.documents))
        positive = labelled[labelled["label"] == 1]
        links = positive[["query", "document"]].to_numpy(dtype=np.int64).T
        self.history_ = ReportHistory.of_reports(
            inputs.documents, self.dense.documents_, links if inputs.links is None else inputs.links, group
        )
        if self.options is None:
            self.ranker_ = default_ranker()
        else:
            queries = np.unique(positive["query"])
            is_training = np.isin(queries, inputs.train["query"])
            examples = self._replay(queries[is_training], untrained_vectors.get(PARTS[TRAIN]))
            examples += self._replay(queries[~is_training], untrained_vectors.get(PARTS[VAL]))
            examples.sort(key=lambda query: query.row)
            if self.second_stage is None:
                self.ranker_ = fit_ranker(examples, self.options.without_seen(inputs.documents))
            else:
                reports = zip(inputs.documents["title"], inputs.documents["description"], strict=True)
                self.second_stage.fit([ReportText(*report) for report in reports], examples, group)
                self.ranker_ = self.second_stage.ranker_
        if self.ranker_.has_seen(inputs.documents):
            self.warnings_ = (*self.warnings_, f"{SEEN}: these figures say nothing about other trackers")
        self._training_warnings = self.warnings_

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``."""
        replayed = self.history_.replay_block(rows.tolist())
        if self.second_stage is None:
            ranks = [self.ranker_.scores(query.features) for query in replayed]
        else:
            ranks = self.second_stage.scores(replayed)
            self.warnings_ = (*self._training_warnings, *self.second_stage.llm.warnings)
        return np.stack([self._scores(query, of_query) for query, of_query in zip(replayed, ranks, strict=True)])

    def first_stage_ranks(self, queries: np.ndarray, relevant: Sequence[np.ndarray]) -> np.ndarray:
        """The rank of the first relevant group in the order of the first stage, 0 if there is none, ``(Q,)``.

        ``queries (Q,)`` are their rows, and ``relevant`` those of the relevant documents of each.
        """
        ranks = np.zeros(len(queries), dtype=np.int64)
        for position, (row, wanted) in enumerate(zip(queries.tolist(), relevant, strict=True)):
            members = self.history_.find(row).members
            hits = np.flatnonzero([np.isin(rows, wanted).any() for rows in members])
            if len(hits):
                ranks[position] = hits[0] + 1
        return ranks

    def _replay(self, queries: np.ndarray, vectors: np.ndarray | None = None) -> list[Replayed]:
        """The candidates of some queries by other vectors, if given; see ``ReportHistory.replay``."""
        if not len(queries):
            return []
        history = self.history_ if vectors is None else self.history_.with_vectors(vectors)
        return list(history.replay(queries, "replay training queries"))

    def _scores(self, replayed: Replayed, ranks: np.ndarray) -> np.ndarray:
        """Scores of all reports, ``(N,)``, from those of the candidates of one query."""
        row = replayed.row
        vectors = self.dense.documents_
        # Cosines are at most 1: shifted to 2 below the lowest candidate, they stay below all candidates.
        scores = np.full(len(vectors), -np.inf, dtype=np.float32)
        scores[:row] = vectors[:row] @ vectors[row] + ranks.min(initial=0) - 2
        scores[replayed.best] = ranks
        members = self.history_.known_before(row).members
        for group, score in zip(replayed.group.tolist(), ranks, strict=True):
            scores[members.get(group, group)] = score
        return scores
