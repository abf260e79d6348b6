"""The model of triage beside an encoder: a ranker of candidates, and the probability that a match is right."""

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
    """The best K candidates of a query, best first.

    Attributes:
        position: ``(K,)`` position among all candidates.
        score: ``(K,)`` score.
        probability: ``(K,)`` probability that each is right.
    """

    position: np.ndarray
    score: np.ndarray
    probability: np.ndarray


@dataclass(frozen=True)
class TriageModel:
    """Ranker and probabilities, learned from a tracker's history, with the results of the backtest.

    Attributes:
        ranker: Ranker of the candidates of a report.
        confidence: Maps the features of a candidate to a probability.
        targets: Results for all measured precision targets, lowest first; empty without a backtest.
        target_precision: The default precision target.
        list_targets: As ``targets``, for lists of the best matches; also empty if an older backtest has none.
    """

    ranker: ReportRanker
    confidence: MatchProbability
    targets: tuple[TargetResult, ...]
    target_precision: float
    list_targets: tuple[TargetResult, ...] = ()

    @property
    def target(self) -> TargetResult:
        """The result for ``target_precision``; its status is ``not measured`` without a backtest."""
        if not self.targets:
            return TargetResult(self.target_precision, None, NOT_MEASURED)
        return find_target(self.targets, self.target_precision, "target_precision")

    @property
    def list_target(self) -> TargetResult:
        """The result of lists for ``target_precision``."""
        if not self.list_targets:
            return TargetResult(self.target_precision, None, NOT_MEASURED)
        return find_target(self.list_targets, self.target_precision, "target_precision")

    def best(self, features: np.ndarray, top_k: int) -> BestCandidates:
        """The best ``max(top_k, NUM_COMPARED)`` candidates of a query, or all of them; ``features`` are ``(C, F)``."""
        scores = self.ranker.scores(features)
        position = np.argsort(-scores, kind="stable")[: max(top_k, NUM_COMPARED)]
        probability = self.confidence(confidence_features(features[position], scores[position]))
        return BestCandidates(position, scores[position], probability)

    @property
    def has_default_confidence(self) -> bool:
        """Whether the probabilities are the default ones, learned on other trackers."""
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
            ValueError: If it is damaged, or of another version of gedbd; names the source.
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
    """The model of a tracker without a backtest, learned from other trackers, without automatic suggestions."""
    return TriageModel(default_ranker(), default_confidence(), (), DEFAULT_TARGET)
