"""Calibration: from outputs of a model to probabilities, and how far these are from what is observed."""

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

NUM_BINS = 10
SHIFT_DEVIATION = 1.0  # standard deviation of the prior of a shift


def fit_isotonic(
    outputs: np.ndarray, right: np.ndarray, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Knots and probabilities by isotonic regression, ``(B,), (B,) bool -> (T,), (T,)``.

    ``weight (B,)`` says how many candidates each stands for; None for 1.

    Each level of the regression is a knot at the mean of its outputs (centred isotonic regression: Oron and Flournoy,
    2017), so that of two outputs the higher one has the higher probability. A level is drawn towards the overall share
    of right candidates, as if it had one candidate more, so that a few right ones do not make a certainty.
    """
    from sklearn.isotonic import IsotonicRegression

    weight = np.ones(len(outputs)) if weight is None else weight
    level = IsotonicRegression().fit_transform(outputs, right.astype(np.float64), sample_weight=weight)
    _, place = np.unique(level, return_inverse=True)
    sizes = np.bincount(place, weight)
    knots = np.bincount(place, outputs * weight) / sizes
    probabilities = (np.bincount(place, right * weight) + np.average(right, weights=weight)) / (sizes + 1)
    return knots, np.maximum.accumulate(probabilities)


def fit_shift(probability: np.ndarray, right: np.ndarray, weight: np.ndarray) -> float:
    """What is to be added to the log odds of probabilities that were learnt on other trackers, to fit a tracker's own.

    The maximum a posteriori estimate with a normal prior around 0. One parameter moves all probabilities up or down,
    and leaves their order as it is: a few duplicates tell how frequent they are, and little else.

    Args:
        probability: ``(B,)`` of the best match of each report, above 0 and below 1.
        right: ``(B,)`` bool, whether it is right.
        weight: ``(B,)`` how many reports each stands for.
    """
    odds = logit(probability)

    def slope(shift: float) -> float:
        """Of the logarithm of the posterior; it falls everywhere."""
        return float((weight * (right - expit(odds + shift))).sum() - shift / SHIFT_DEVIATION**2)

    # At the ends the prior outweighs all reports, each of which adds less than its weight.
    end = SHIFT_DEVIATION**2 * weight.sum() + 1.0
    return float(brentq(slope, -end, end))


def calibration_error(probability: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error over ten bins of equal width (Guo et al., 2017), ``(B,), (B,) -> float``.

    torchmetrics' ``BinaryCalibrationError`` has bin edges in single precision, so that 0.3 falls into the bin below,
    gives a probability of 1 a bin of its own, and returns NaN for no reports.
    """
    bins = np.minimum((probability * NUM_BINS).astype(int), NUM_BINS - 1)
    expected = np.bincount(bins, probability, NUM_BINS)
    observed = np.bincount(bins, right, NUM_BINS)
    return float(np.abs(expected - observed).sum() / max(len(bins), 1))
