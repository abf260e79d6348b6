"""Regressors of log10 hours: those of libraries, trees, ridge regression, blends, and the paper's network."""

import copy
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from torch import Tensor, nn

from gedbd.io.console import track

QUANTILES = 100


class Examples(NamedTuple):
    """Inputs and targets of A anchors: ``x (A, F)`` and ``y (A,)``, log10 of the hours."""

    x: np.ndarray
    y: np.ndarray


class Regressor(Protocol):
    """A model that predicts log10 of the hours."""

    def fit(self, train: Examples, val: Examples) -> None:
        """Fits on ``train``; ``val`` is only for early stopping."""
        ...

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Predicts log10 hours, ``(A, F) -> (A,)``."""
        ...


@dataclass(eq=False)
class LibraryModel:
    """A model with the interface of scikit-learn."""

    model: Any

    def fit(self, train: Examples, val: Examples) -> None:
        """Fits on training examples."""
        self.model.fit(train.x, train.y)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Predicts log10 hours, ``(A, F) -> (A,)``."""
        return np.asarray(self.model.predict(x), dtype=np.float64)


def xgboost(**options: Any) -> LibraryModel:
    """XGBoost (Chen and Guestrin, 2016) with squared error; the options are those of ``XGBRegressor``.

    Raises:
        ValueError: If XGBoost is not installed.
    """
    try:
        from xgboost import XGBRegressor
    except ImportError as error:
        raise ValueError("xgboost is not installed: pip install 'gedbd[questions]'") from error
    return LibraryModel(XGBRegressor(**options, n_jobs=1))


def extra_trees(**options: Any) -> LibraryModel:
    """Extremely randomised trees (Geurts, Ernst and Wehenkel, 2006); missing values become the median.

    The options are those of ``ExtraTreesRegressor``.
    """
    imputer = SimpleImputer(strategy="median", keep_empty_features=True)
    return LibraryModel(make_pipeline(imputer, ExtraTreesRegressor(**options)))


class RankRidge(LibraryModel):
    """Ridge regression on feature quantiles, which bound long tails; missing values become the median.

    Args:
        l2: L2 regularisation.
    """

    def __init__(self, l2: float = 100.0) -> None:
        imputer = SimpleImputer(strategy="median", keep_empty_features=True)
        # By default, quantiles are computed on a random subsample.
        self.quantiles = QuantileTransformer(subsample=None)
        super().__init__(make_pipeline(imputer, self.quantiles, StandardScaler(), Ridge(l2)))

    def fit(self, train: Examples, val: Examples) -> None:
        """Fits on training examples."""
        self.quantiles.n_quantiles = min(QUANTILES, len(train.y))
        super().fit(train, val)


@dataclass(eq=False)
class GradientBoosting:
    """The mean of scikit-learn's histogram gradient boosting models with different seeds."""

    trees: int = 250  # number of trees of each model
    lr: float = 0.04  # learning rate
    max_leaves: int = 4  # maximum number of leaves of a tree
    min_samples_leaf: int = 20  # minimum number of rows of a leaf
    max_features: float = 0.5  # fraction of the features to sample for a split
    l2: float = 1.0  # L2 regularisation
    repeats: int = 5  # number of models
    seed: int = 0  # seed of the first model

    def __post_init__(self) -> None:
        self.options = {
            "max_iter": self.trees,
            "learning_rate": self.lr,
            "max_leaf_nodes": self.max_leaves,
            "min_samples_leaf": self.min_samples_leaf,
            "max_features": self.max_features,
            "l2_regularization": self.l2,
            "early_stopping": False,
        }

    def fit(self, train: Examples, val: Examples) -> None:
        """Fits on training examples."""
        # scikit-learn cannot bin features that are always missing, such as tags.
        self.has_values_ = ~np.isnan(train.x).all(axis=0)
        known = train.x[:, self.has_values_]
        seeds = range(self.seed, self.seed + self.repeats)
        self.boostings_ = [
            HistGradientBoostingRegressor(**self.options, random_state=seed).fit(known, train.y) for seed in seeds
        ]

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Predicts log10 hours, ``(A, F) -> (A,)``."""
        known = x[:, self.has_values_]
        return np.asarray(np.mean([boosting.predict(known) for boosting in self.boostings_], axis=0))


class Blend:
    """The mean prediction of several models; raises ValueError if there is no model."""

    def __init__(self, models: Mapping[str, Regressor]) -> None:
        if not models:
            raise ValueError("task.methods: a blend has no models: name at least one under model.models")
        self.models = dict(models)

    def fit(self, train: Examples, val: Examples) -> None:
        """Fits on training examples."""
        for model in self.models.values():
            model.fit(train, val)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Predicts log10 hours, ``(A, F) -> (A,)``."""
        return np.asarray(np.mean([model.predict(x) for model in self.models.values()], axis=0))


class PairNetwork(nn.Module):
    """``t = tanhshrink(w [f(anchor); g(master)] + b)`` with ``tanhshrink(x) = x - tanh(x)``.

    ``f`` and ``g`` are stacks of linear layers with ReLU; each has weights of its own, as in equations 2 and 3 of Hazra
    et al., 2023; the rest is equation 4.

    Args:
        dim: Size D of a question's vector.
        hidden: Sizes of the layers of each stack.
    """

    def __init__(self, dim: int, hidden: Sequence[int]) -> None:
        super().__init__()
        sizes = [dim, *hidden]
        self.anchor = _layers(sizes)
        self.master = _layers(sizes)
        self.last = nn.Linear(2 * sizes[-1], 1)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, 2D) -> (B,)`` log10 of the hours; the first D columns are the anchor's."""
        anchor, master = x.chunk(2, dim=1)
        joint = torch.cat([self.anchor(anchor), self.master(master)], dim=1)
        return nn.functional.tanhshrink(self.last(joint)).squeeze(1)


def _layers(sizes: list[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers)


@dataclass(eq=False)
class Mlp:
    """Trains ``PairNetwork`` by the L1 loss and Adam; keeps the weights of the epoch with the best validation loss."""

    # sizes of the layers over each question; 256 and 64 in the paper, with the tag network 512 and 64
    hidden: Sequence[int]
    batch_size: int = 64  # batch size; 64 in the paper
    lr: float = 2e-5  # learning rate; 2e-5 in the paper
    max_epochs: int = 500  # maximum number of epochs; the paper gives none
    patience: int = 20  # epochs without a better validation loss before training stops
    seed: int = 0  # seed of the initial weights and the batches

    def fit(self, train: Examples, val: Examples) -> None:
        """Fits on training examples; the best epoch is ``best_epoch_``."""
        x = torch.from_numpy(train.x).float()
        y = torch.from_numpy(train.y).float()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.network_ = PairNetwork(x.shape[1] // 2, self.hidden)
            self._train(x, y, val)

    def _train(self, x: Tensor, y: Tensor, val: Examples) -> None:
        optimizer = torch.optim.Adam(self.network_.parameters(), lr=self.lr)
        best = float("inf")
        weights = copy.deepcopy(self.network_.state_dict())
        self.best_epoch_ = 0
        for epoch in track(range(1, self.max_epochs + 1), "train MLP"):
            for rows in torch.randperm(len(x)).split(self.batch_size):  # type: ignore[no-untyped-call]
                optimizer.zero_grad()
                loss = nn.functional.l1_loss(self.network_(x[rows]), y[rows])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            error = float(np.abs(self.predict(val.x) - val.y).mean())
            if error < best:
                best = error
                weights = copy.deepcopy(self.network_.state_dict())
                self.best_epoch_ = epoch
            if epoch - self.best_epoch_ >= self.patience:
                break
        self.network_.load_state_dict(weights)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Predicts log10 hours, ``(A, F) -> (A,)``."""
        with torch.no_grad():
            return self.network_(torch.from_numpy(x).float()).double().numpy()  # type: ignore[no-any-return]
