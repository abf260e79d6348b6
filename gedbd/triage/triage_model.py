"""What triage needs beside an encoder: a ranker of candidates, and the probability that a match is right."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from gedbd.retrieval.reports.ranker import ReportRanker
from gedbd.triage.backtesting.targets import TargetResult, find_target
from gedbd.triage.confidence import MatchProbability

OLDER = "was made by an older version of gedbd: run python -m gedbd.backtest again, then python -m gedbd.index"


@dataclass(frozen=True)
class TriageModel:
    """What was learned from a tracker's history, and what the backtest measured.

    Attributes:
        ranker: Orders the candidates of a report.
        confidence: From the features of a candidate to a probability.
        targets: The results for all precision targets that the backtest measured, the lowest target first.
        target_precision: The precision target that applies unless another is asked for.
    """

    ranker: ReportRanker
    confidence: MatchProbability
    targets: tuple[TargetResult, ...]
    target_precision: float

    @property
    def target(self) -> TargetResult:
        """The result for ``target_precision``."""
        return find_target(self.targets, self.target_precision, "target_precision")

    def as_json(self) -> str:
        """The model as JSON; ``from_json`` reads it."""
        plain = {
            "ranker": self.ranker.to_text(),
            "confidence": self.confidence.as_dict(),
            "targets": [asdict(target) for target in self.targets],
            "target_precision": self.target_precision,
        }
        return json.dumps(plain, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "TriageModel":
        """Reads what ``as_json`` returned.

        Raises:
            ValueError: If another version of gedbd wrote it.
        """
        plain: dict[str, Any] = json.loads(text)
        if plain.keys() != {field.name for field in fields(cls)}:
            raise ValueError(OLDER)
        targets = tuple(TargetResult(**target) for target in plain["targets"])
        ranker = ReportRanker.from_text(plain["ranker"])
        return cls(ranker, MatchProbability.from_dict(plain["confidence"]), targets, plain["target_precision"])
