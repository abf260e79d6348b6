"""Regressors that vary less than boosted trees on few anchors, and the mean of several."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gedbd.tasks.confirmation.models import Examples, Regressor

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

QUANTILES = 100


class RankRidge:
    """Ridge regression on the quantile of each feature among the training anchors.

    Quantiles keep long tails, and values beyond those of training, from dominating. A missing value counts as the
    median.

    Args:
        l2: Regularisation of the weights.
    """

    def __init__(self, l2: float = 100.0) -> None:
        self.l2 = l2

    def fit(self, train: Examples, val: Examples) -> None:
        """See ``Regressor``."""
        from sklearn.impute import SimpleImputer
        from sklearn.linear_model import Ridge
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import QuantileTransformer, StandardScaler

        self.pipeline_: Pipeline = make_pipeline(
            SimpleImputer(strategy="median", keep_empty_features=True),
            QuantileTransformer(
                n_quantiles=min(QUANTILES, len(train.y)), subsample=None
            ),  # of all, not of a random part
            StandardScaler(),
            Ridge(self.l2),
        )
        self.pipeline_.fit(train.x, train.y)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """See ``Regressor``."""
        return np.asarray(self.pipeline_.predict(x))


class ExtraTrees:
    """Extremely randomised trees (Geurts, Ernst and Wehenkel, 2006). A missing value counts as the median.

    Args:
        trees: Number of trees.
        min_samples_leaf: Training rows of a leaf at least.
        max_features: Share of the features that a split may choose from.
        seed: Draws features and thresholds.
    """

    def __init__(self, trees: int = 300, min_samples_leaf: int = 10, max_features: float = 0.4, seed: int = 0) -> None:
        self.options = {
            "n_estimators": trees,
            "min_samples_leaf": min_samples_leaf,
            "max_features": max_features,
            "random_state": seed,
        }

    def fit(self, train: Examples, val: Examples) -> None:
        """See ``Regressor``."""
        from sklearn.ensemble import ExtraTreesRegressor
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline

        self.pipeline_: Pipeline = make_pipeline(
            SimpleImputer(strategy="median", keep_empty_features=True), ExtraTreesRegressor(**self.options)
        )
        self.pipeline_.fit(train.x, train.y)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """See ``Regressor``."""
        return np.asarray(self.pipeline_.predict(x))


class Blend:
    """The mean of what several models predict.

    Args:
        models: Models by name.

    Raises:
        ValueError: If there is no model.
    """

    def __init__(self, models: Mapping[str, Regressor]) -> None:
        if not models:
            raise ValueError("task.methods: a blend has no models: name at least one under model.models")
        self.models = dict(models)

    def fit(self, train: Examples, val: Examples) -> None:
        """See ``Regressor``."""
        for model in self.models.values():
            model.fit(train, val)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """See ``Regressor``."""
        return np.asarray(np.mean([model.predict(x) for model in self.models.values()], axis=0))
