"""The learnt rankers of changes as methods of a run."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gedbd.corpora.changes import ChangeCorpus
from gedbd.retrieval.changes.replay import Replay
from gedbd.retrieval.changes.scorer import LearntChanges
from gedbd.retrieval.changes.training import Kind, TrainingOptions
from gedbd.retrieval.scorers.scorer import Scorer, ScorerInputs
from gedbd.tasks.localization.protocol import Level
from gedbd.tasks.localization.rankings import Method


@dataclass(frozen=True)
class LearntOptions:
    """A learnt ranker, see ``LearntChanges``.

    Attributes:
        kind: ``boosted`` or ``linear``.
        content_free: Whether it reads features whose value does not depend on the text of the report.
        tracker: Whether it reads earlier fixes.
        hmcbl: Whether it reads the scores of the trained encoders; left out where none are trained.
        num_seeds: Boosted trees are the mean of so many trainings.
        rounds: Trees of each training.
    """

    kind: Kind = "boosted"
    content_free: bool = True
    tracker: bool = True
    hmcbl: bool = False
    num_seeds: int = 3
    rounds: int = 150

    def __post_init__(self) -> None:
        if self.kind not in ("boosted", "linear"):
            raise ValueError(f"task.learnt: kind={self.kind} is unknown: choose boosted or linear")


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


def learnt_methods(
    rankers: Mapping[str, LearntOptions],
    corpus: ChangeCorpus,
    training: np.ndarray,
    hunks: Scorer,
    encoders: Mapping[str, Scorer],
) -> dict[str, Method]:
    """The learnt rankers as methods, by id; they share the features of the reports.

    Args:
        rankers: By id.
        corpus: Reports and changes.
        training: ``(T,)`` rows of the reports whose inducing commits are learnt, whatever is ranked.
        hunks: Scores hunks, where these are ranked.
        encoders: Scorers of commits by trained encoders, fitted; none without training.
    """
    chosen = {name: ranker for name, ranker in rankers.items() if encoders or not ranker.hmcbl}
    replays = {tracker: Replay(corpus, tracker) for tracker in (True, False)}
    found = {}
    for name, ranker in chosen.items():
        extra = encoders if ranker.hmcbl else {}
        found[name] = _method(ranker, replays[ranker.tracker], training, hunks, extra)
    return found


def _method(
    ranker: LearntOptions, replay: Replay, training: np.ndarray, hunks: Scorer, extra: Mapping[str, Scorer]
) -> Method:
    def make(level: Level, seed: int) -> Scorer:
        options = TrainingOptions(
            kind=ranker.kind,
            content_free=ranker.content_free,
            seed=seed * ranker.num_seeds,  # so that no two seeds share a training
            num_seeds=ranker.num_seeds,
            rounds=ranker.rounds,
        )
        parts = hunks if level.granularity == "hunk" else None
        return LearntChanges(replay, level.granularity, options, extra, parts, training)

    return Method(make, ranker.kind == "boosted")
