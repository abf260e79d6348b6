"""Ranks candidates a second time: models that read two reports at once score the first ones of another ranker."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gedbd.io.progress import item_progress
from gedbd.retrieval.reports.cross_scores import CrossScores, RankedList
from gedbd.retrieval.reports.history import Replayed
from gedbd.retrieval.reports.llm_check import LlmCheck
from gedbd.retrieval.reports.pair_scorer import ReportText
from gedbd.retrieval.reports.training import RankerOptions, fit_ranker

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
