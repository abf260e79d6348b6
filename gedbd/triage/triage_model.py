"""Trains what triage needs on a tracker's own history: weights of the scores, and probabilities of matches."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.splits import PARTS
from gedbd.retrieval.feature_store import FeatureStore
from gedbd.retrieval.features import feature_scorers
from gedbd.retrieval.linear_ranker import LinearRanker
from gedbd.retrieval.report_features import FeatureEncoder
from gedbd.retrieval.scorers.scorer import ScorerInputs
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.triage.backtesting.replay import replay
from gedbd.triage.backtesting.targets import TargetResult, find_target
from gedbd.triage.calibration import MATCH_FEATURES, Calibrator, learn_calibrator

OLDER = "was made by an older version of gedbd: run python -m gedbd.backtest again, then python -m gedbd.index"


@dataclass(frozen=True)
class TriageModel:
    """What was learned from a tracker's history, in plain numbers, and what the backtest measured.

    Attributes:
        weights: Weight of each of the six scores, by name.
        calibrator: From the match features of a candidate to a probability.
        targets: The results for all precision targets that the backtest measured, the lowest target first.
        target_precision: The precision target that applies unless another is asked for.
    """

    weights: dict[str, float]
    calibrator: Calibrator
    targets: tuple[TargetResult, ...]
    target_precision: float

    @property
    def target(self) -> TargetResult:
        """The result for ``target_precision``."""
        return find_target(self.targets, self.target_precision, "target_precision")

    def as_json(self) -> str:
        """The model as JSON; ``from_json`` reads it."""
        targets = [asdict(target) for target in self.targets]
        return json.dumps(vars(self) | {"calibrator": self.calibrator.as_dict(), "targets": targets}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "TriageModel":
        """Reads what ``as_json`` returned.

        Raises:
            ValueError: If another version of gedbd wrote it.
        """
        plain: dict[str, Any] = json.loads(text)
        if plain.keys() != {field.name for field in fields(cls)}:
            raise ValueError(OLDER)
        calibrator = Calibrator.from_dict(plain["calibrator"])
        targets = tuple(TargetResult(**target) for target in plain["targets"])
        return cls(plain["weights"], calibrator, targets, plain["target_precision"])


def learn_weights(corpus: Corpus, train: pd.DataFrame, vectors: np.ndarray) -> dict[str, float]:
    """The weights of a linear ranker over the six scores; the dense one compares the given vectors.

    Args:
        corpus: The reports.
        train: The pairs of the training part.
        vectors: ``(N, D)`` unit rows.
    """
    ranker = LinearRanker(feature_scorers(vectors))
    ranker.fit(ScorerInputs.of_reports(corpus.reports, train))
    return ranker.weights_


def replay_parts(
    corpus: Corpus, parts: np.ndarray, vectors: np.ndarray, weights: dict[str, float], max_reports: int
) -> pd.DataFrame:
    """Replays the reports of all parts, as ``gedbd.triage.backtesting.replay`` does, and adds the column ``part``.

    Args:
        corpus: The reports.
        parts: ``(N,)`` part of each.
        vectors: ``(N, D)`` unit rows.
        weights: Weight of each score, by name.
        max_reports: Number of reports of each part that are replayed, evenly spaced in time.
    """
    # One store for all rows: the replay of a row looks at the rows before it alone.
    features = FeatureEncoder.of(Vocabulary()).encode(corpus.reports, vectors, learn=True)
    store = FeatureStore(vectors.shape[1])
    store.add(features)
    chosen = [evenly_spaced(np.flatnonzero(parts == number), max_reports) for number in range(len(PARTS))]
    table = replay(store, features, corpus.group, weights, np.concatenate(chosen))
    return table.assign(part=np.array(PARTS)[parts[table["query"]]])


def learn_probability(replayed: pd.DataFrame, seed: int) -> Calibrator:
    """Learns probabilities on the replayed training part and calibrates them on the validation part."""
    # Only the best candidate of a report is ever suggested: the regression learns on these.
    train = replayed[(replayed["part"] == "train") & (replayed["place"] == 1)]
    val = replayed[replayed["part"] == "val"]
    names = list(MATCH_FEATURES)
    return learn_calibrator(
        (train[names].to_numpy(), train["right"].to_numpy()), (val[names].to_numpy(), val["right"].to_numpy()), seed
    )


def evenly_spaced(rows: np.ndarray, max_rows: int) -> np.ndarray:
    """At most ``max_rows`` of some rows, evenly spaced: two of ``[3, 4, 5]`` are ``[3, 5]``."""
    if len(rows) <= max_rows:
        return rows
    return rows[np.linspace(0, len(rows) - 1, max_rows).round().astype(np.int64)]
