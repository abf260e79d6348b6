"""What triage needs beside an encoder: a ranker of candidates, and the probability that a match is right."""

import json
from dataclasses import asdict, dataclass, fields
from typing import NamedTuple

import numpy as np

from gedbd.evaluation.thresholds import NOT_MEASURED, TargetResult, find_target
from gedbd.experiments.run_folder import MATCHING
from gedbd.retrieval.reports.report_ranker import ReportRanker, default_ranker
from gedbd.triage.confidence import NUM_COMPARED, MatchProbability, confidence_features, default_confidence

OLDER = "was written by an older version of gedbd: run gedbd backtest again, then gedbd index"
DEFAULT_TARGET = 0.7


class BestCandidates(NamedTuple):
    """The best K candidates of a query, the best first.

    Attributes:
        place: ``(K,)`` where each is among all candidates.
        score: ``(K,)`` the ranker's score.
        probability: ``(K,)`` that it is right.
    """

    place: np.ndarray
    score: np.ndarray
    probability: np.ndarray


@dataclass(frozen=True)
class TriageModel:
    """What was learned from a tracker's history, and what the backtest measured.

    Attributes:
        ranker: Orders the candidates of a report.
        confidence: From the features of a candidate to a probability.
        targets: The results for all precision targets that the backtest measured, the lowest target first;
            empty without a backtest.
        target_precision: The precision target that applies unless another is asked for.
        list_targets: As ``targets``, for lists of the best matches; empty also if an older backtest measured none.
    """

    ranker: ReportRanker
    confidence: MatchProbability
    targets: tuple[TargetResult, ...]
    target_precision: float
    list_targets: tuple[TargetResult, ...] = ()

    @property
    def target(self) -> TargetResult:
        """The result for ``target_precision``; one of status ``not measured`` without a backtest."""
        if not self.targets:
            return TargetResult(self.target_precision, None, NOT_MEASURED)
        return find_target(self.targets, self.target_precision, "target_precision")

    @property
    def list_target(self) -> TargetResult:
        """The same for lists."""
        if not self.list_targets:
            return TargetResult(self.target_precision, None, NOT_MEASURED)
        return find_target(self.list_targets, self.target_precision, "target_precision")

    def best(self, features: np.ndarray, top_k: int) -> BestCandidates:
        """The best ``max(top_k, NUM_COMPARED)`` candidates of a query, or all of them; ``features`` are ``(C, F)``."""
        scores = self.ranker.scores(features)
        place = np.argsort(-scores, kind="stable")[: max(top_k, NUM_COMPARED)]
        probability = self.confidence(confidence_features(features[place], scores[place]))
        return BestCandidates(place, scores[place], probability)

    @property
    def has_default_confidence(self) -> bool:
        """Whether the probabilities are those that come with the default ranker, learnt on other trackers."""
        return np.array_equal(self.confidence.knots, default_confidence().knots)

    def as_json(self) -> str:
        """The model as JSON; ``from_json`` reads it."""
        plain = {
            "ranker": self.ranker.to_text(),
            "confidence": self.confidence.as_dict(),
            "targets": [asdict(target) for target in self.targets],
            "list_targets": [asdict(target) for target in self.list_targets],
            "target_precision": self.target_precision,
        }
        return json.dumps(plain, indent=1)

    @classmethod
    def from_json(cls, text: str, source: str) -> "TriageModel":
        """Reads what ``as_json`` returned.

        Raises:
            ValueError: If it is damaged, or another version of gedbd wrote it; names the source.
        """
        try:
            plain = {"list_targets": []} | json.loads(text)
            if plain.keys() != {field.name for field in fields(cls)}:
                raise ValueError(OLDER)
            targets, list_targets = (
                tuple(TargetResult(**target) for target in plain[key]) for key in ("targets", "list_targets")
            )
            ranker = ReportRanker.from_text(plain["ranker"])
            confidence = MatchProbability.from_dict(plain["confidence"])
            return cls(ranker, confidence, targets, plain["target_precision"], list_targets)
        except json.JSONDecodeError as error:
            raise ValueError(f"{source}: {MATCHING} is damaged: it is not JSON ({error})") from error
        except ValueError as error:
            raise ValueError(f"{source} {error}") from error
        except (AttributeError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"{source}: {MATCHING} is damaged: {type(error).__name__} at {error}") from error


def default_model() -> TriageModel:
    """The model of a tracker without a backtest: learnt from other trackers, so without automatic suggestions."""
    return TriageModel(default_ranker(), default_confidence(), (), DEFAULT_TARGET)
