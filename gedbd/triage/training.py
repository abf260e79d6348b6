"""Learns to match from a tracker's own history: weights of the scores, and the probability that a match is right."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.splits import PARTS
from gedbd.retrieval.feature_store import Codes, Columns, Numbers, Vocabulary, days_of, form_codes
from gedbd.retrieval.inverted_index import words
from gedbd.retrieval.linear_ranker import LearntFusion
from gedbd.retrieval.scorers import Baseline
from gedbd.retrieval.scorers.fields import FieldAgreement, Recency
from gedbd.retrieval.scorers.lexical import MAX_CHARACTERS, Bm25
from gedbd.triage.backtesting.replay import replay
from gedbd.triage.backtesting.targets import TargetResult, find_target
from gedbd.triage.calibration import SIGNALS, Confidence, learn_confidence

OLDER = "was made by an older version of gedbd: run python -m gedbd.backtest again, then python -m gedbd.index"


@dataclass(frozen=True)
class Matching:
    """What was learnt, in plain numbers, and what the backtest measured.

    Attributes:
        weights: Of the six scores by name.
        confidence: From the signals behind a candidate to a probability.
        targets: The results for all precision targets that the backtest measured, the lowest target first.
        target_precision: The one of them that counts unless another is asked for.
    """

    weights: dict[str, float]
    confidence: Confidence
    targets: tuple[TargetResult, ...]
    target_precision: float

    @property
    def target(self) -> TargetResult:
        """The result for ``target_precision``."""
        return find_target(self.targets, self.target_precision, "target_precision")

    def as_json(self) -> str:
        """See ``from_json``."""
        targets = [asdict(target) for target in self.targets]
        return json.dumps(vars(self) | {"confidence": self.confidence.as_dict(), "targets": targets}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Matching":
        """Takes back what ``as_json`` gave.

        Raises:
            ValueError: If another version of gedbd wrote it.
        """
        plain: dict[str, Any] = json.loads(text)
        if plain.keys() != {field.name for field in fields(cls)}:
            raise ValueError(OLDER)
        confidence = Confidence.from_dict(plain["confidence"])
        targets = tuple(TargetResult(**target) for target in plain["targets"])
        return cls(plain["weights"], confidence, targets, plain["target_precision"])


class Given:
    """Cosines of vectors that are there already, as a baseline."""

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors = vectors

    def fit(self, corpus: Corpus, train: pd.DataFrame) -> None:
        """There is nothing to learn."""

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``."""
        return np.asarray(self.vectors[rows] @ self.vectors.T)


def learn_weights(corpus: Corpus, train: pd.DataFrame, vectors: np.ndarray) -> dict[str, float]:
    """The weights of the baseline ``fusion`` with its six scores; the dense one compares the given vectors.

    Args:
        corpus: The reports.
        train: The pairs of the training part.
        vectors: ``(N, D)`` unit rows.
    """
    features: dict[str, Baseline] = {
        "dense": Given(vectors),
        "bm25": Bm25(square_root=True),
        "bm25_title": Bm25(field="title", square_root=True),
        "component": FieldAgreement("component"),
        "product": FieldAgreement("product"),
        "recency": Recency(),
    }
    fusion = LearntFusion(features)
    fusion.fit(corpus, train)
    return fusion.weights_


def numbers_of(
    reports: pd.DataFrame, vectors: np.ndarray, vocabulary: Vocabulary, codes: tuple[Codes, Codes], learn: bool
) -> Numbers:
    """Reports as numbers.

    Args:
        reports: B rows of a corpus.
        vectors: ``(B, D)`` unit rows.
        vocabulary: Numbers of terms.
        codes: Of products and of components.
        learn: Give numbers to terms and values that were not met before, as when reports are stored.
    """
    text, title = terms_of(reports, vocabulary, learn)
    return Numbers(vectors, text, title, *form_codes(reports, *codes, learn), days_of(reports["created_at"]))


def terms_of(reports: pd.DataFrame, vocabulary: Vocabulary, learn: bool) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Terms of title and description, and of the title alone, of each report; see ``numbers_of``."""
    both = zip(reports["title"], reports["description"], strict=True)
    text = vocabulary(words([f"{title}\n{description[:MAX_CHARACTERS]}" for title, description in both]), learn)
    return text, vocabulary(words(list(reports["title"])), learn)


def replay_parts(
    corpus: Corpus, parts: np.ndarray, vectors: np.ndarray, weights: dict[str, float], most: int
) -> pd.DataFrame:
    """Replays the reports of all parts, as ``gedbd.triage.backtesting.replay`` does, and adds the column ``part``.

    Args:
        corpus: The reports.
        parts: ``(N,)`` part of each.
        vectors: ``(N, D)`` unit rows.
        weights: Of the scores.
        most: Of each part, at most so many reports are replayed, evenly spaced in time.
    """
    numbers = numbers_of(corpus.reports, vectors, Vocabulary(), (Codes(), Codes()), learn=True)
    columns = Columns(vectors.shape[1])
    columns.add(numbers)
    chosen = [evenly(np.flatnonzero(parts == number), most) for number in range(len(PARTS))]
    table = replay(columns, numbers, corpus.group, weights, np.concatenate(chosen))
    return table.assign(part=np.array(PARTS)[parts[table["query"]]])


def learn_probability(replayed: pd.DataFrame, seed: int) -> Confidence:
    """From signals to probabilities, learnt on the replayed training part and calibrated on the validation part."""
    train = replayed[(replayed["part"] == "train") & (replayed["place"] == 1)]
    val = replayed[replayed["part"] == "val"]
    signals = [(mine[list(SIGNALS)].to_numpy(), mine["right"].to_numpy()) for mine in (train, val)]
    return learn_confidence(signals[0], signals[1], seed)


def evenly(rows: np.ndarray, most: int) -> np.ndarray:
    """At most so many of some rows, evenly spaced."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).round().astype(np.int64)]
