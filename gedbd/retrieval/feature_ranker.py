"""Rankers of the candidates of a query by their features: boosted trees, or a weighted sum."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np

from gedbd.retrieval.boosted_trees import BoostedTrees, LabelledLists, fit_boosted_trees

FORMAT = 1  # version of the text of rankers
L2 = 0.01  # of a weighted sum
Ranker = TypeVar("Ranker")


class RankingModel(Protocol):
    """Scores the candidates of one query."""

    kind: ClassVar[str]  # ``boosted`` or ``linear``

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Scores, ``(C, F) -> (C,)``."""
        ...

    def contributions(self, features: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Contributions of the features to the scores of candidates, and a constant, ``(C, F), (R,) -> (R, F + 1)``.

        ``rows`` selects candidates; None for all. A row sums to the score.
        """
        ...

    def to_text(self) -> str:
        """The model as text."""
        ...


class WeightedFeatures:
    """A weighted sum of features, standardised over the candidates of the query; missing values count as the mean."""

    kind: ClassVar[str] = "linear"

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = weights

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Scores, ``(C, F) -> (C,)``."""
        return np.asarray(standardised(features) @ self.weights)

    def contributions(self, features: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """The summands of each score, and the constant 0, ``(C, F), (R,) -> (R, F + 1)``."""
        summands = np.column_stack([standardised(features) * self.weights, np.zeros(len(features))])
        return summands if rows is None else summands[rows]

    def to_text(self) -> str:
        """The weights as JSON."""
        return json.dumps({"weights": self.weights.tolist()}) + "\n"

    @classmethod
    def from_text(cls, text: str) -> "WeightedFeatures":
        """Reads the model that ``to_text`` wrote; raises ValueError if the weights are not finite."""
        weights = np.array(json.loads(text)["weights"], dtype=np.float64)
        if weights.ndim != 1 or not np.isfinite(weights).all():
            raise ValueError("the weights are not a list of numbers")
        return cls(weights)


MODELS: dict[str, Callable[[str], RankingModel]] = {
    "boosted": BoostedTrees.from_text,
    "linear": WeightedFeatures.from_text,
}


def standardised(features: np.ndarray) -> np.ndarray:
    """Features with mean 0 and deviation 1 over the candidates, ``(C, F)``; 0 if equal or missing."""
    values = features.astype(np.float64)
    is_missing = np.isnan(values)
    count = np.maximum((~is_missing).sum(axis=0), 1)
    values = np.where(is_missing, 0, values)
    centred = np.where(is_missing, 0, values - values.sum(axis=0) / count)
    deviation = np.sqrt((centred**2).sum(axis=0) / count)
    # Not "> 0", as the mean of equal numbers may be rounded.
    differs = deviation > 1e-6 * np.abs(values).max(axis=0, initial=1e-30)
    return np.asarray(np.where(differs, centred, 0) / np.maximum(deviation, 1e-30))


@dataclass(frozen=True)
class ModelOptions:
    """How the models of a ranker are trained."""

    kind: Literal["boosted", "linear"] = "boosted"  # ``boosted`` trees (LambdaMART), or a ``linear`` sum
    seed: int = 0  # seed of all random choices
    num_seeds: int = 3  # number of seeds over which boosted trees are averaged
    rounds: int = 250  # maximum number of trees of each training
    num_leaves: int = 15  # maximum number of leaves of a tree

    def fit(self, lists: LabelledLists, num_seeds: int | None = None, **settings: Any) -> RankingModel:
        """Trains a model.

        ``num_seeds`` replaces the attribute; ``settings`` are arguments of ``fit_boosted_trees``, which a linear sum
        ignores.
        """
        if self.kind == "linear":
            return fit_weighted_sum(lists.features, lists.relevance)
        options = {"rounds": self.rounds, "num_leaves": self.num_leaves}
        seeds = range(self.seed, self.seed + (self.num_seeds if num_seeds is None else num_seeds))
        return fit_boosted_trees(lists, seeds=seeds, **(options | settings))


def fit_weighted_sum(features: Sequence[np.ndarray], relevance: Sequence[np.ndarray]) -> WeightedFeatures:
    """Weights that maximise the softmax probability of the relevant candidates, see ``learn_weights``."""
    length = max(len(labels) for labels in relevance)
    lists = np.full((len(features), length, features[0].shape[1]), np.nan)
    is_relevant = np.zeros((len(features), length), dtype=bool)
    for query, (table, labels) in enumerate(zip(features, relevance, strict=True)):
        lists[query, : len(labels)] = standardised(table)
        is_relevant[query, : len(labels)] = labels > 0
    return WeightedFeatures(learn_weights(lists, is_relevant, L2))


def learn_weights(lists: np.ndarray, relevant: np.ndarray, l2: float) -> np.ndarray:
    """Weights that minimise -log P(relevant), P the softmax over each list, ``(Q, S, F), (Q, S) -> (F,)``."""
    from scipy.optimize import minimize
    from scipy.special import log_softmax, logsumexp

    # Padding is NaN in all features.
    absent = np.isnan(lists[:, :, 0])
    features = np.nan_to_num(lists).astype(np.float64)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        logits = np.where(absent, -np.inf, features @ weights)
        log_all = log_softmax(logits, axis=1)
        log_relevant = np.where(relevant, log_all, -np.inf)
        total = logsumexp(log_relevant, axis=1)
        # -d(-log P) / d(logit): the softmax over the relevant positions less that over the list.
        logit_gradient = np.exp(log_relevant - total[:, None]) - np.exp(log_all)
        gradient = -np.einsum("qs,qsf->f", logit_gradient, features) / len(features) + 2 * l2 * weights
        return float(-total.mean() + l2 * weights @ weights), gradient

    return np.asarray(minimize(loss, np.zeros(features.shape[2]), jac=True, method="L-BFGS-B").x)


@lru_cache(maxsize=4)  # an index that is opened again reuses its model
def _read_model(kind: str, text: str) -> RankingModel:
    return MODELS[kind](text)


class FeatureRanker:
    """Scores the candidates of a query by named features; scores are comparable within a query only."""

    def __init__(self, names: Sequence[str], model: RankingModel) -> None:
        self.names = tuple(names)
        self.model = model

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Scores of candidates, ``(C, F) -> (C,)``; higher is better."""
        return self.model.predict(features) if len(features) else np.empty(0)

    def contributions(self, features: np.ndarray, rows: np.ndarray | None = None) -> list[dict[str, float]]:
        """Contributions of the features to the scores of candidates, by name, which sum to the score less a constant.

        ``rows`` selects candidates; None for all.
        """
        if not len(features):
            return []
        shares = self.model.contributions(features, rows)
        return [dict(zip(self.names, row[:-1].tolist(), strict=True)) for row in shares]

    def as_dict(self) -> dict[str, Any]:
        """The ranker as plain values, for JSON."""
        return {"kind": self.model.kind, "features": list(self.names), "model": self.model.to_text().splitlines()}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "FeatureRanker":
        """Builds the ranker of ``as_dict``; raises ValueError, TypeError or LookupError if it is damaged."""
        ranker = cls(plain["features"], _read_model(plain["kind"], "\n".join(plain["model"]) + "\n"))
        ranker.scores(np.zeros((1, len(ranker.names)), dtype=np.float32))  # checks the number of features
        return ranker


def ranker_text(content: Mapping[str, object]) -> str:
    """A ranker as text, each model as a list of lines."""
    return json.dumps({"format": FORMAT, **content}, indent=0) + "\n"


def read_ranker(text: str, name: str, build: Callable[[dict[str, Any]], Ranker]) -> Ranker:
    """Builds the ranker that ``ranker_text`` wrote; raises ValueError if the text is damaged or of another version."""
    try:
        content = json.loads(text)
        if content["format"] != FORMAT:
            raise ValueError(f"it is not of format {FORMAT}")
        return build(content)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ValueError(f"{name}: {error}; it is damaged or of another version: train it again") from error
