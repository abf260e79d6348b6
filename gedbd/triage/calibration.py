"""How sure a match is: a probability, learnt from and calibrated on the tracker's own history.

A logistic regression reads what stands behind the score of a candidate: how far it is ahead of the others, and its
single scores, lexical ones as a share of what a copy of the query would score. It learns on the best candidates of the
training part's replayed reports; isotonic regression on all candidates of the validation part turns its verdict into a
probability.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gedbd.retrieval.features import FEATURES, Candidates

SIGNALS = (
    *("score", "ahead of the next", "ahead of the last"),
    *FEATURES,
    *("share of text", "share of title", "length of text", "length of title"),
)
BINS = 10
SHOWN = 5
LEAST = 1e-6


@dataclass(frozen=True)
class Confidence:
    """From signals to probabilities.

    Attributes:
        weights: ``(S,)`` of the signals of ``signals_of``.
        bias: Added to their sum.
        knots: ``(T,)`` sums at which the probability is known, ascending; between them it is interpolated.
        probabilities: ``(T,)`` at the knots, ascending.
    """

    weights: np.ndarray
    bias: float
    knots: np.ndarray
    probabilities: np.ndarray

    def __call__(self, signals: np.ndarray) -> np.ndarray:
        """``(B, S) -> (B,)``."""
        return np.asarray(np.interp(signals @ self.weights + self.bias, self.knots, self.probabilities))

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON; ``from_dict`` takes them back."""
        return {name: np.asarray(value).tolist() for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Confidence":
        """See ``as_dict``."""
        arrays = {name: np.array(plain[name], dtype=np.float64) for name in ("weights", "knots", "probabilities")}
        return cls(bias=float(plain["bias"]), **arrays)


def signals_of(found: Candidates, self_scores: Sequence[float]) -> np.ndarray:
    """What a verdict is made of, ``(K, S)`` for the K candidates of one query.

    Args:
        found: The best groups, ``SHOWN`` or more if there are so many: by the last of them a verdict is made, and it
            must not depend on how many somebody wants to see.
        self_scores: What copies of the query's text and of its title would score, see ``Lexicon.self_score``.
    """
    score, features = found.score.astype(np.float64), found.features.astype(np.float64)
    best_other = np.full(len(score), score[0] if len(score) else 0.0)
    best_other[:1] = score[1] if len(score) > 1 else score[:1]
    copies = np.broadcast_to(np.asarray(self_scores, dtype=np.float64), (len(score), 2))
    shares = features[:, 1:3] ** 2 / copies.clip(LEAST)
    ahead = [score, score - best_other, score - score[:SHOWN][-1:]]
    return np.column_stack([*ahead, *features.T, *shares.T, *np.log1p(copies).T])


def learn_confidence(
    train: tuple[np.ndarray, np.ndarray], val: tuple[np.ndarray, np.ndarray], seed: int = 0
) -> Confidence:
    """Learns on one part, calibrates on the other.

    Args:
        train: Signals ``(B, S)`` of candidates, and whether each is right, ``(B,)`` bool.
        val: Likewise, of later reports.
        seed: Of the regression.

    Raises:
        ValueError: If one of them has no right candidate, or no wrong one.
    """
    for part, (_, right) in (("training", train), ("validation", val)):
        if not right.any() or right.all():
            which = "right" if not right.any() else "wrong"
            raise ValueError(
                f"no candidate of the {part} part is {which}: there is nothing to tell right from wrong by;"
                " move split.val_from and split.test_from, or gather more duplicates"
            )
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(train[0])
    model = LogisticRegression(max_iter=1000, random_state=seed).fit(scaler.transform(train[0]), train[1])
    weights = model.coef_[0] / scaler.scale_
    bias = float(model.intercept_[0] - weights @ scaler.mean_)
    return Confidence(weights, bias, *calibrate(val[0] @ weights + bias, val[1]))


def calibrate(verdicts: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Knots and probabilities by isotonic regression, ``(B,), (B,) bool -> (T,), (T,)``.

    Each level of the regression is a knot at the mean of its verdicts (centred isotonic regression: Oron and Flournoy,
    2017), so that of two verdicts the higher one has the higher probability. A level is drawn a little towards the
    share of right ones overall, as if it had one candidate more, so that a few lucky ones make no certainty.
    """
    from sklearn.isotonic import IsotonicRegression

    level = IsotonicRegression().fit_transform(verdicts, right.astype(np.float64))
    _, place, sizes = np.unique(level, return_inverse=True, return_counts=True)
    knots = np.bincount(place, verdicts) / sizes
    probabilities = (np.bincount(place, right) + right.mean()) / (sizes + 1)
    return knots, np.maximum.accumulate(probabilities)


def calibration_error(probability: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error over ten bins of equal width (Guo et al., 2017), ``(B,), (B,) -> float``."""
    bins = np.minimum((probability * BINS).astype(int), BINS - 1)
    said, was = np.bincount(bins, probability, BINS), np.bincount(bins, right, BINS)
    return float(np.abs(said - was).sum() / max(len(bins), 1))
