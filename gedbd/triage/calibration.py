"""Calibrates matches: the probability that a match is right, learned from the tracker's own history.

A logistic regression reads the *match features* of a candidate: how far its score is ahead of the others', and its
single scores, the lexical ones as a share of what a copy of the query would score. It learns on the best candidates of
the training part's replayed reports. Isotonic regression on all candidates of the validation part turns its output into
a probability.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gedbd.retrieval.features import FEATURES, Candidates

MATCH_FEATURES = (
    *("score", "ahead of the next", "ahead of the last"),
    *FEATURES,
    *("share of text", "share of title", "length of text", "length of title"),
)
NUM_BINS = 10
NUM_COMPARED = 5  # candidates of a query that match features depend on
MIN_SELF_SCORE = 1e-6  # avoids division by zero for a query without words


@dataclass(frozen=True)
class Calibrator:
    """From match features to probabilities.

    Attributes:
        weights: ``(F,)`` weights of the features of ``match_features``.
        bias: Added to their sum.
        knots: ``(T,)`` sums at which the probability is known, ascending; between them it is interpolated.
        probabilities: ``(T,)`` probabilities at the knots, ascending.
    """

    weights: np.ndarray
    bias: float
    knots: np.ndarray
    probabilities: np.ndarray

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """``(B, F) -> (B,)``."""
        return np.asarray(np.interp(features @ self.weights + self.bias, self.knots, self.probabilities))

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON; ``from_dict`` reads them."""
        return {name: np.asarray(value).tolist() for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Calibrator":
        """Reads what ``as_dict`` returned."""
        arrays = {name: np.array(plain[name], dtype=np.float64) for name in ("weights", "knots", "probabilities")}
        return cls(bias=float(plain["bias"]), **arrays)


def match_features(candidates: Candidates, self_scores: Sequence[float]) -> np.ndarray:
    """The features of K candidates of one query, in the order of ``MATCH_FEATURES``, ``(K, F)``.

    Args:
        candidates: The best groups, ``NUM_COMPARED`` or more if there are as many. How many more there are changes
            nothing: the probability of a match must not depend on how many matches are asked for.
        self_scores: What copies of the query's text and of its title would score, see ``InvertedIndex.self_score``.
    """
    score = candidates.score.astype(np.float64)
    features = candidates.features.astype(np.float64)
    # The best other score is the first one for all candidates but the first, whose best other is the second.
    best_other = np.full(len(score), score[0] if len(score) else 0.0)
    best_other[:1] = score[1] if len(score) > 1 else score[:1]
    last = score[:NUM_COMPARED][-1:]
    copies = np.broadcast_to(np.asarray(self_scores, dtype=np.float64), (len(score), 2))
    # Columns 1 and 2 are the roots of the BM25 scores of text and title.
    shares = features[:, 1:3] ** 2 / copies.clip(MIN_SELF_SCORE)
    return np.column_stack([score, score - best_other, score - last, features, shares, np.log1p(copies)])


def learn_calibrator(
    train: tuple[np.ndarray, np.ndarray], val: tuple[np.ndarray, np.ndarray], seed: int = 0
) -> Calibrator:
    """Learns on one part, calibrates on the other.

    Args:
        train: Match features ``(B, F)`` of candidates, and whether each is right, ``(B,)`` bool.
        val: Likewise, of later reports.
        seed: Seed of the regression.

    Raises:
        ValueError: If one of them has no right candidate, or no wrong one.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    for part, (_, right) in (("training", train), ("validation", val)):
        if not right.any() or right.all():
            which = "right" if not right.any() else "wrong"
            raise ValueError(
                f"no candidate of the {part} part is {which}: matches cannot be calibrated without both;"
                " move split.val_from and split.test_from, or gather more duplicates"
            )
    scaler = StandardScaler().fit(train[0])
    model = LogisticRegression(max_iter=1000, random_state=seed).fit(scaler.transform(train[0]), train[1])
    # w . (x - mean) / scale + c as one dot product: the weights are w / scale, and the bias is c - weights . mean.
    weights = model.coef_[0] / scaler.scale_
    bias = float(model.intercept_[0] - weights @ scaler.mean_)
    return Calibrator(weights, bias, *fit_isotonic(val[0] @ weights + bias, val[1]))


def fit_isotonic(outputs: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Knots and probabilities by isotonic regression, ``(B,), (B,) bool -> (T,), (T,)``.

    Each level of the regression is a knot at the mean of its outputs (centred isotonic regression: Oron and Flournoy,
    2017), so that of two outputs the higher one has the higher probability. A level is drawn towards the overall share
    of right candidates, as if it had one candidate more, so that a few right ones do not make a certainty.
    """
    from sklearn.isotonic import IsotonicRegression

    level = IsotonicRegression().fit_transform(outputs, right.astype(np.float64))
    _, place, sizes = np.unique(level, return_inverse=True, return_counts=True)
    knots = np.bincount(place, outputs) / sizes
    probabilities = (np.bincount(place, right) + right.mean()) / (sizes + 1)
    return knots, np.maximum.accumulate(probabilities)


def calibration_error(probability: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error over ten bins of equal width (Guo et al., 2017), ``(B,), (B,) -> float``.

    torchmetrics' ``BinaryCalibrationError`` has bin edges in single precision, so that 0.3 falls into the bin below,
    gives a probability of 1 a bin of its own, and returns NaN for no reports.
    """
    bins = np.minimum((probability * NUM_BINS).astype(int), NUM_BINS - 1)
    expected = np.bincount(bins, probability, NUM_BINS)
    observed = np.bincount(bins, right, NUM_BINS)
    return float(np.abs(expected - observed).sum() / max(len(bins), 1))
