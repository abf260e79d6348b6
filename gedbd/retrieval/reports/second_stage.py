"""Candidates that are ranked a second time, with scores of models that read a new report and a candidate together."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from gedbd.retrieval.reports.report_history import Replayed
from gedbd.retrieval.reports.report_training import RankerOptions, fit_ranker

MAX_CHARACTERS = 2000
BEHIND = " behind"
FOLDS = 2


class ReportText(NamedTuple):
    """The text of a report."""

    title: str
    description: str

    def joined(self, max_characters: int = MAX_CHARACTERS) -> str:
        """Title and description with a line break between, the description cut to ``max_characters``."""
        return f"{self.title.strip()}\n{self.description[:max_characters].strip()}".strip()


class RankedList(NamedTuple):
    """A query, and how another ranker orders its candidates.

    Attributes:
        query: Its row.
        relevant: ``(R,)`` rows of the earlier reports of its group, where they are known.
        candidates: ``(C,)`` rows of the candidates, the best first.
    """

    query: int
    relevant: np.ndarray
    candidates: np.ndarray


class ReportPairScorer(Protocol):
    """Scores the first candidates of a query; too slow for all of them.

    Attributes:
        name: Name of the score, such as ``cross``.
    """

    name: str

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was found while candidates were scored, in sentences for the user."""
        ...

    def fit_held_out(
        self, texts: Sequence[ReportText], lists: Sequence[RankedList], groups: np.ndarray
    ) -> list[np.ndarray]:
        """Learns from training queries, and scores them by what has not learnt from their groups.

        Args:
            texts: Texts of all N reports, by row.
            lists: Training queries in the order of time.
            groups: ``(N,)`` group of each report.

        Returns:
            See ``score_lists``.
        """
        ...

    def score_lists(self, texts: Sequence[ReportText], lists: Sequence[RankedList]) -> list[np.ndarray]:
        """For each list the scores of its candidates, ``(C,)`` float32; NaN for those that have none."""
        ...


class SecondStage:
    """Orders candidates by a ranker that reads the scores of a cross-encoder or a language model as further features.

    A first ranker chooses the candidates that are scored, the others have NaN there. In training, the candidates of a
    query are ordered by a first ranker, and scored by a cross-encoder, that have not learnt from its group.

    Args:
        scorers: Their scores are the features.
        options: How the rankers are trained; the first ones are trained once, whatever ``num_seeds`` says.

    Attributes:
        names: The features behind ``FEATURES``.
        first_: The first ranker.
        ranker_: The second one.
    """

    def __init__(self, scorers: Sequence[ReportPairScorer], options: RankerOptions) -> None:
        self.scorers = scorers
        self.options = options
        self.names = column_names([scorer.name for scorer in scorers])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was found while candidates were scored, in sentences for the user."""
        return tuple(warning for scorer in self.scorers for warning in scorer.warnings)

    def fit(self, texts: Sequence[ReportText], examples: Sequence[Replayed], group: np.ndarray) -> None:
        """Trains both rankers and the scorers.

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
        # The candidates of each query are ordered by a ranker that has not learnt from its group.
        rows = np.array([one.row for one in usable], dtype=np.int64)
        fold = fold_of(group[rows], FOLDS)
        orders = [rows] * len(usable)
        for number in range(FOLDS):
            ranker = fit_ranker([one for one, own in zip(usable, fold, strict=True) if own != number], first_options)
            for place in np.flatnonzero(fold == number).tolist():
                orders[place] = _best_first(ranker.scores(usable[place].features))
        lists = _ranked_lists(usable, orders)
        scores = [scorer.fit_held_out(texts, lists, group) for scorer in self.scorers]
        self.ranker_ = fit_ranker(self._extended(usable, orders, scores), self.options, self.names)

    def scores(self, examples: Sequence[Replayed]) -> list[np.ndarray]:
        """Scores of the candidates of each query, ``(C,)``; those of a query are computed once."""
        fresh = [one for one in examples if one.row not in self._known]
        orders = [_best_first(self.first_.scores(one.features)) for one in fresh]
        lists = _ranked_lists(fresh, orders)
        scores = [scorer.score_lists(self.texts_, lists) for scorer in self.scorers]
        for one in self._extended(fresh, orders, scores):
            self._known[one.row] = self.ranker_.scores(one.features)
        return [self._known[one.row] for one in examples]

    def _extended(
        self, examples: Sequence[Replayed], orders: Sequence[np.ndarray], scores: Sequence[Sequence[np.ndarray]]
    ) -> list[Replayed]:
        """The examples with the further features; ``scores`` has a list for each scorer."""
        extended = []
        for place, (one, order) in enumerate(zip(examples, orders, strict=True)):
            columns = pair_columns(order, [of_scorer[place] for of_scorer in scores])
            extended.append(one._replace(features=np.hstack([one.features, columns])))
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


def pair_columns(order: np.ndarray, scores: Sequence[np.ndarray]) -> np.ndarray:
    """Features of the C candidates of a query, ``(C, F)`` float32 in the order of ``column_names``.

    Args:
        order: ``(C,)`` places of the candidates in the order of the first ranker, the best first.
        scores: Of each scorer its scores in that order, ``(C,)`` or fewer; what lacks a score is NaN, which boosted
            trees take as missing.
    """
    columns = []
    for own in scores:
        column = np.full(len(order), np.nan, dtype=np.float32)
        column[order[: len(own)]] = own
        known = column[~np.isnan(column)]
        columns += [column, column - known.max() if len(known) else column]
    return np.stack(columns, axis=1) if columns else np.empty((len(order), 0), dtype=np.float32)
