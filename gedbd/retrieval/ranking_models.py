"""The models of rankers, and rankers as text: boosted trees, or a weighted sum."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from gedbd.retrieval.boosted_trees import BoostedTrees

if TYPE_CHECKING:
    from gedbd.retrieval.boosting import LabelledLists

FORMAT = 1  # of rankers
L2 = 0.01  # of a weighted sum


class RankingModel(Protocol):
    """Scores the candidates of one query."""

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Scores, ``(C, F) -> (C,)``."""
        ...

    def contributions(self, features: np.ndarray) -> np.ndarray:
        """What each feature adds, and a constant, ``(C, F) -> (C, F + 1)``; a row sums to the score."""
        ...

    def to_text(self) -> str:
        """The model as text."""
        ...


class WeightedFeatures:
    """A sum of features, each standardised over the candidates of the query; a missing value counts as the mean.

    Args:
        weights: ``(F,)``.
    """

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = weights

    def predict(self, features: np.ndarray) -> np.ndarray:
        """See ``RankingModel``."""
        return np.asarray(standardised(features) @ self.weights)

    def contributions(self, features: np.ndarray) -> np.ndarray:
        """See ``RankingModel``; the constant is 0."""
        return np.column_stack([standardised(features) * self.weights, np.zeros(len(features))])

    def to_text(self) -> str:
        """See ``RankingModel``."""
        return json.dumps({"weights": self.weights.tolist()}) + "\n"

    @classmethod
    def from_text(cls, text: str) -> "WeightedFeatures":
        """The sum that ``to_text`` was called on.

        Raises:
            ValueError: If the text is damaged.
        """
        try:
            weights = np.array(json.loads(text)["weights"], dtype=np.float64)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ValueError("weighted sum: no weights in JSON; train it again") from error
        if weights.ndim != 1 or not np.isfinite(weights).all():
            raise ValueError("weighted sum: the weights are not a list of numbers; train it again")
        return cls(weights)


def standardised(features: np.ndarray) -> np.ndarray:
    """Features with mean 0 and deviation 1 over the candidates, ``(C, F)``; equal or missing ones are 0."""
    values = features.astype(np.float64)
    is_missing = np.isnan(values)
    count = np.maximum((~is_missing).sum(axis=0), 1)
    values = np.where(is_missing, 0, values)
    centred = np.where(is_missing, 0, values - values.sum(axis=0) / count)
    deviation = np.sqrt((centred**2).sum(axis=0) / count)
    # Not "is 0": the mean of equal numbers may round to another number.
    return np.asarray(
        np.where(deviation > 1e-6 * np.abs(values).max(axis=0, initial=1e-30), centred, 0)
        / np.maximum(deviation, 1e-30)
    )


@dataclass(frozen=True)
class ModelOptions:
    """How the models of a ranker are trained.

    Attributes:
        kind: ``boosted`` trees (LambdaMART), or a ``linear`` sum.
        seed: Of all that is drawn.
        num_seeds: Boosted trees are the mean of so many trainings.
        rounds: Trees of each training, at most.
        num_leaves: Leaves of a tree.
        num_threads: Threads; the trees are the same for the same number.
    """

    kind: Literal["boosted", "linear"] = "boosted"
    seed: int = 0
    num_seeds: int = 3
    rounds: int = 250
    num_leaves: int = 15
    num_threads: int = 1

    def fit_boosted(self, lists: "LabelledLists", num_seeds: int, **settings: Any) -> BoostedTrees:
        """Boosted trees, see ``fit_boosted_trees`` for the further settings."""
        from gedbd.retrieval.boosting import fit_boosted_trees

        options = {"rounds": self.rounds, "num_leaves": self.num_leaves, "num_threads": self.num_threads}
        return fit_boosted_trees(lists, seeds=range(self.seed, self.seed + num_seeds), **(options | settings))


def fit_weighted_sum(features: Sequence[np.ndarray], relevance: Sequence[np.ndarray]) -> WeightedFeatures:
    """Weights that maximise the softmax probability of the relevant candidates (``linear_ranker.learn_weights``)."""
    from gedbd.retrieval.linear_ranker import learn_weights

    length = max(len(labels) for labels in relevance)
    lists = np.full((len(features), length, features[0].shape[1]), np.nan)
    is_relevant = np.zeros((len(features), length), dtype=bool)
    for place, (table, labels) in enumerate(zip(features, relevance, strict=True)):
        lists[place, : len(labels)] = standardised(table)
        is_relevant[place, : len(labels)] = labels > 0
    return WeightedFeatures(learn_weights(lists, is_relevant, L2))


@lru_cache(maxsize=2)  # an index that is opened again has the same model
def read_model(kind: str, text: str) -> RankingModel:
    """The model of a text.

    Raises:
        ValueError: If the text is damaged or the kind unknown.
    """
    if kind == "boosted":
        return BoostedTrees.from_text(text)
    if kind == "linear":
        return WeightedFeatures.from_text(text)
    raise ValueError(f"the kind of model {kind!r} is unknown: boosted or linear; train it again")


def ranker_text(content: Mapping[str, object]) -> str:
    """A ranker as text: its settings, with each model as a list of lines; see ``RankerText``."""
    return json.dumps({"format": FORMAT, **content}, indent=0) + "\n"


class RankerText:
    """Reads what ``ranker_text`` wrote.

    Args:
        text: The text.
        name: What error messages call the ranker.

    Raises:
        ValueError: If the text is damaged, here and in all methods.
    """

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self.error("no JSON") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise self.error(f"not of format {FORMAT}")
        self.content: dict[str, Any] = content

    def error(self, reason: object) -> ValueError:
        """The error to raise for a reason."""
        return ValueError(f"{self.name}: {reason}; train it again")

    def strings(self, name: str) -> list[str]:
        """A list of strings."""
        value = self.content.get(name)
        if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
            raise self.error(f"{name!r} is not a list of texts")
        return value

    def model(self, name: str) -> RankingModel:
        """A model."""
        return read_model(str(self.content.get("kind")), "\n".join(self.strings(name)) + "\n")

    def check_model(self, model: RankingModel, num_features: int) -> None:
        """Refuses a model that reads another number of features."""
        try:
            model.predict(np.zeros((1, num_features), dtype=np.float32))
        except ValueError as error:
            raise self.error(error) from error
