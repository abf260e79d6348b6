"""Multinomial logistic regression with the penalty that is best on validation."""

import copy
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

STRENGTHS = (0.001, 0.01, 0.1)
MAX_ITERATIONS = 200


class Examples(NamedTuple):
    """Rows to learn from or to choose by: ``x (Q, F)``, dense or sparse, and ``y (Q,)`` whole numbers."""

    x: Any
    y: np.ndarray


class Probe(NamedTuple):
    """A fitted classifier.

    Attributes:
        scaler: Makes the mean of each feature 0 and its spread 1; None for sparse features.
        model: scikit-learn's classifier.
        accuracy: Its accuracy on validation.
    """

    scaler: Any
    model: Any
    accuracy: float

    def predict(self, x: Any) -> np.ndarray:
        """The most probable class of each row, ``(Q, F) -> (Q,)``."""
        return np.asarray(self.model.predict(_scaled(self.scaler, x)))

    def scores(self, x: Any) -> np.ndarray:
        """Log odds of the second of two classes, ``(Q, F) -> (Q,)``."""
        return np.asarray(self.model.decision_function(_scaled(self.scaler, x)))


def fit_probe(train: Examples, val: Examples, strengths: Sequence[float] = STRENGTHS) -> Probe:
    """Fits one classifier for each penalty and keeps the one with the best accuracy on validation.

    A fit ends after ``MAX_ITERATIONS`` iterations, converged or not: weak penalties converge slowly, and validation
    tells whether that matters.

    Args:
        train: What the classifier learns from.
        val: What the penalty is chosen by; of equal ones the strongest penalty is kept.
        strengths: Inverse penalties C: the classifier minimizes C times the sum of the log losses + |w|^2 / 2.
    """
    from scipy.sparse import issparse
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = None if issparse(train.x) else StandardScaler().fit(train.x)
    train_x = _scaled(scaler, train.x)
    val_x = _scaled(scaler, val.x)
    # With warm_start each fit starts from the weights of the stronger penalty before, which are near.
    model = LogisticRegression(max_iter=MAX_ITERATIONS, warm_start=True)
    best: Probe | None = None
    for strength in sorted(strengths):
        model.set_params(C=strength)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(train_x, train.y)
        right = float((model.predict(val_x) == val.y).mean())
        if best is None or right > best.accuracy:
            best = Probe(scaler, copy.deepcopy(model), right)
    assert best is not None
    return best


def _scaled(scaler: Any, x: Any) -> Any:
    return x if scaler is None else scaler.transform(x)
