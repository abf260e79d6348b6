"""The learnt rankers of changes as methods of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gedbd.corpora.changes import ChangeCorpus
from gedbd.localization.change_ranking.change_scorer import LearntChanges, Replay
from gedbd.localization.change_ranking.change_training import ChangeTrainingOptions
from gedbd.localization.training.change_rankings import RankingMethod
from gedbd.localization.training.localization_protocol import Level, reports_of
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs


@dataclass(frozen=True)
class LearntOptions(ChangeTrainingOptions):
    """A learnt ranker, see ``LearntChanges``.

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
        found = np.array(self.scorer.scores(rows), dtype=np.float32)
        found[np.isin(rows, self.trained_on)] = np.nan
        return found


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
    """The learnt rankers as methods, by id; they share the features of the reports.

    Args:
        rankers: By id.
        corpus: Reports and changes.
        training: ``(T,)`` rows of the reports whose inducing commits are learnt, whatever is ranked.
        hunks: Scores hunks, where these are ranked.
        encoders: Scorers of commits by trained encoders, fitted; none without training.
    """
    chosen = {name: ranker for name, ranker in rankers.items() if encoders or not ranker.hmcbl}
    texts = {False: corpus}
    if any(ranker.shuffled for ranker in chosen.values()):
        texts[True] = with_other_texts(corpus)
    replays = {(shuffled, tracker): Replay(texts[shuffled], tracker) for shuffled in texts for tracker in (True, False)}
    found = {}
    for name, ranker in chosen.items():
        extra = encoders if ranker.hmcbl else {}
        found[name] = _method(ranker, replays[ranker.shuffled, ranker.tracker], training, hunks, extra)
    return found


def _method(
    ranker: LearntOptions, replay: Replay, training: np.ndarray, hunks: Scorer, extra: Mapping[str, Scorer]
) -> RankingMethod:
    def make(level: Level, seed: int) -> Scorer:
        # No two seeds share a training.
        options = replace(ranker, seed=ranker.seed + seed * ranker.num_seeds)
        parts = hunks if level.granularity == "hunk" else None
        scorer = LearntChanges(replay, level.granularity, options, extra, parts, training)
        return OtherTexts(scorer, replay.corpus) if ranker.shuffled else scorer

    return RankingMethod(make, ranker.kind == "boosted")
