"""The probability that the best candidate of a report is right, learnt on a replayed history.

Boosted trees read the features of a candidate, its score and how far it is ahead of the others. Isotonic regression on
later reports turns their output into a probability.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gedbd.retrieval.boosted_trees import BoostedTrees
from gedbd.retrieval.reports.candidate_features import FEATURES
from gedbd.triage.calibration import fit_isotonic

NUM_COMPARED = 5  # candidates of a query that these features depend on
MARGINS = ("score", "ahead of the next", "ahead of the last", "score of the first", "candidates near")
CONFIDENCE_FEATURES = (*MARGINS, *FEATURES)


@dataclass(frozen=True)
class Confidence:
    """From the features of a candidate to the probability that it is right.

    Attributes:
        trees: Read ``CONFIDENCE_FEATURES``.
        knots: ``(T,)`` outputs of the trees at which the probability is known, ascending; between them it is
            interpolated.
        probabilities: ``(T,)`` probabilities at the knots, ascending.
    """

    trees: BoostedTrees
    knots: np.ndarray
    probabilities: np.ndarray

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """``(B, F) -> (B,)``."""
        return np.asarray(np.interp(self.trees.predict(features), self.knots, self.probabilities))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; ``from_dict`` reads them."""
        arrays = {"knots": self.knots.tolist(), "probabilities": self.probabilities.tolist()}
        return {"trees": self.trees.to_text().splitlines(), **arrays}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Confidence":
        """Reads what ``as_dict`` returned."""
        trees = BoostedTrees.from_text("\n".join(plain["trees"]) + "\n")
        if trees.num_features != len(CONFIDENCE_FEATURES):
            raise ValueError(f"the confidence reads {trees.num_features} features; run the backtest again")
        return cls(trees, *(np.array(plain[name], dtype=np.float64) for name in ("knots", "probabilities")))


def confidence_features(features: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The features of candidates of one query in the order of their scores, ``(C, F), (C,) -> (C, M + F)``.

    How many candidates there are beyond ``NUM_COMPARED`` changes nothing.
    """
    if not len(scores):
        return np.empty((0, len(CONFIDENCE_FEATURES)))
    # The best other score is the first one for all candidates but the first, whose best other is the second.
    best_other = np.full(len(scores), scores[0])
    best_other[:1] = scores[1] if len(scores) > 1 else scores[0]
    compared = scores[:NUM_COMPARED]
    near = np.full(len(scores), (compared > scores[0] - 0.5).sum())
    margins = [scores, scores - best_other, scores - compared[-1], np.full(len(scores), scores[0]), near]
    return np.column_stack([*margins, features])


def learn_confidence(train: tuple[np.ndarray, np.ndarray], val: tuple[np.ndarray, np.ndarray], seed: int) -> Confidence:
    """Learns on one part, calibrates on the other.

    Args:
        train: Features ``(B, F)`` of best candidates, and whether each is right, ``(B,)`` bool.
        val: Likewise of candidates of later reports.
        seed: Seed of the trees.

    Raises:
        ValueError: If one of them has no right candidate, or no wrong one.
    """
    from gedbd.retrieval.boosting import fit_classifier

    for part, (_, right) in (("training", train), ("validation", val)):
        if not right.any() or right.all():
            which = "right" if not right.any() else "wrong"
            raise ValueError(
                f"no candidate of the {part} part is {which}: matches cannot be calibrated without both;"
                " move split.val_from and split.test_from, or gather more duplicates"
            )
    trees = fit_classifier(*train, seeds=range(seed, seed + 3))
    return Confidence(trees, *fit_isotonic(trees.predict(val[0]), val[1]))
