"""LambdaMART: boosted trees that order lists of candidates, trained by LightGBM."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gedbd.retrieval.boosted_trees import MAX_LEAVES, BoostedTrees, RegressionTree

MAX_CANDIDATES = 10_000  # of a query: LightGBM's limit
MAX_RELEVANCE = 30  # its gains are 2**relevance - 1
IS_CATEGORICAL, DEFAULT_LEFT = 1, 2  # bits of LightGBM's decision_type; the two bits above say what is missing
MISSING_IS_NAN = 2


class LabelledLists(NamedTuple):
    """The candidates of Q queries.

    Attributes:
        features: For each query ``(C_i, F)``; NaN is a missing value.
        relevance: For each query ``(C_i,)`` whole numbers from 0.
        weight: For each query, how much it counts; None if all count the same.
    """

    features: Sequence[np.ndarray]
    relevance: Sequence[np.ndarray]
    weight: Sequence[float] | None = None


def fit_boosted_trees(
    lists: LabelledLists,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    rounds: int = 300,
    num_leaves: int = 15,
    learning_rate: float = 0.05,
    min_child: int = 20,
    feature_fraction: float = 0.8,
    bagging_fraction: float = 1.0,
    l2: float = 0.0,
    truncation: int = 30,
    later: LabelledLists | None = None,
    patience: int = 50,
    num_threads: int = 1,
) -> BoostedTrees:
    """Trains boosted trees with each of some seeds; their prediction is the mean of all.

    The same arguments give the same trees. Source: Burges, "From RankNet to LambdaRank to LambdaMART", 2010.

    Args:
        lists: Training queries.
        seeds: Of the features and queries that are drawn.
        rounds: Trees of each seed.
        num_leaves: Of a tree, at most.
        learning_rate: Weight of each tree.
        min_child: Candidates in a leaf, at least.
        feature_fraction: Share of the features that are drawn for a tree.
        bagging_fraction: Share of the candidates that are drawn for a tree.
        l2: Penalty on squared values of leaves.
        truncation: Ranks whose order counts.
        later: Later queries. Where they are given, the trees end with the round of the best NDCG@10 on them.
        patience: Rounds without a better one after which training ends.
        num_threads: Threads; the trees are the same for the same number.

    Raises:
        ValueError: If a list is malformed, no query has a relevant candidate and another one, or an option is invalid.
    """
    import lightgbm

    if not seeds or not 2 <= num_leaves <= MAX_LEAVES:
        raise ValueError(f"boosted trees need a seed, and num_leaves={num_leaves} from 2 to {MAX_LEAVES}")
    parameters: dict[str, Any] = {
        **{"objective": "lambdarank", "metric": "ndcg", "eval_at": [10], "lambdarank_truncation_level": truncation},
        **{"num_leaves": num_leaves, "learning_rate": learning_rate, "min_data_in_leaf": min_child, "lambda_l2": l2},
        **{"feature_fraction": feature_fraction, "bagging_fraction": bagging_fraction, "bagging_freq": 1},
        **{"deterministic": True, "force_row_wise": True, "num_threads": num_threads, "verbosity": -1},
    }
    num_features = _check(lists)
    trees: list[RegressionTree] = []
    for seed in seeds:
        data = _data_set(lists)
        callbacks: list[Any] = [] if later is None else [lightgbm.early_stopping(patience, verbose=False)]
        valid_sets = [] if later is None else [_data_set(later, data)]
        options = parameters | {"seed": seed}
        try:
            booster = lightgbm.train(options, data, rounds, valid_sets=valid_sets, callbacks=callbacks)
        except lightgbm.basic.LightGBMError as error:
            raise ValueError(f"boosted trees cannot be trained: {error}") from error
        trees += [tree._replace(value=tree.value / len(seeds)) for tree in read_trees(booster.model_to_string())]
    return BoostedTrees(trees, num_features)


def fit_classifier(
    features: np.ndarray,
    right: np.ndarray,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    rounds: int = 150,
    num_leaves: int = 8,
    learning_rate: float = 0.05,
    min_child: int = 50,
    feature_fraction: float = 0.4,
    l2: float = 10.0,
    num_threads: int = 1,
    weight: np.ndarray | None = None,
) -> BoostedTrees:
    """Trains boosted trees whose prediction is the logarithm of the odds that a candidate is right.

    Args:
        features: ``(B, F)``; NaN is a missing value.
        right: ``(B,)`` bool.
        seeds: Of the features that are drawn; the prediction is the mean over all seeds.
        rounds: Trees of each seed.
        num_leaves: Of a tree, at most.
        learning_rate: Weight of each tree.
        min_child: Candidates in a leaf, at least.
        feature_fraction: Share of the features that are drawn for a tree.
        l2: Penalty on squared values of leaves.
        num_threads: Threads; the trees are the same for the same number.
        weight: ``(B,)`` how many candidates each stands for; None for 1.
    """
    import lightgbm

    parameters: dict[str, Any] = {
        **{"objective": "binary", "num_leaves": num_leaves, "learning_rate": learning_rate, "lambda_l2": l2},
        **{"min_data_in_leaf": min_child, "feature_fraction": feature_fraction, "num_threads": num_threads},
        **{"deterministic": True, "force_row_wise": True, "verbosity": -1},
    }
    trees: list[RegressionTree] = []
    for seed in seeds:
        data = lightgbm.Dataset(
            features.astype(np.float64), right.astype(np.int64), weight=weight, params={"verbosity": -1}
        )
        booster = lightgbm.train(parameters | {"seed": seed}, data, rounds)
        trees += [tree._replace(value=tree.value / len(seeds)) for tree in read_trees(booster.model_to_string())]
    return BoostedTrees(trees, features.shape[1])


def read_trees(model: str) -> list[RegressionTree]:
    """The trees in the text of a LightGBM model."""
    blocks = model.partition("end of trees")[0].split("\nTree=")[1:]
    return [_tree(dict(line.split("=", 1) for line in block.splitlines() if "=" in line)) for block in blocks]


def _tree(lines: dict[str, str]) -> RegressionTree:
    def column(name: str, kind: type) -> np.ndarray:
        return np.array(lines.get(name, "").split(), dtype=kind)

    kind = column("decision_type", np.int64)
    threshold = column("threshold", np.float64)
    missing = kind >> 2
    assert not (kind & IS_CATEGORICAL).any()
    assert not (missing == 1).any()  # zero counts as missing: an option that is off
    # Where training saw no missing value, LightGBM takes one for 0.
    nan_left = np.where(missing == MISSING_IS_NAN, kind & DEFAULT_LEFT != 0, threshold >= 0)
    values = column("leaf_value", np.float64)
    # The only leaf of a tree without a split has no count.
    size = column("leaf_count", np.int64) if len(values) > 1 else np.ones(1, dtype=np.int64)
    left, right = column("left_child", np.int64), column("right_child", np.int64)
    return RegressionTree(column("split_feature", np.int64), threshold, nan_left, left, right, values, size)


def _data_set(lists: LabelledLists, reference: Any = None) -> Any:
    import lightgbm

    sizes = [len(labels) for labels in lists.relevance]
    options = {"feature_pre_filter": False, "verbosity": -1}
    features = np.concatenate(list(lists.features)).astype(np.float64)
    label = np.concatenate(list(lists.relevance))
    weight = None if lists.weight is None else np.repeat(lists.weight, sizes)
    return lightgbm.Dataset(features, label, reference=reference, group=sizes, weight=weight, params=options)


def _check(lists: LabelledLists) -> int:
    """The number of features. Raises ValueError if a list is malformed, or there is nothing to learn."""
    learnable = False
    num_features = lists.features[0].shape[1] if len(lists.features) else 0
    for number, (features, labels) in enumerate(zip(lists.features, lists.relevance, strict=True)):
        if features.shape != (len(labels), num_features) or not 0 < len(labels) <= MAX_CANDIDATES:
            raise ValueError(
                f"boosted trees, query {number}: features {features.shape} do not fit {len(labels)} labels,"
                f" {num_features} features and at most {MAX_CANDIDATES:,} candidates"
            )
        if (labels != np.round(labels)).any() or (labels < 0).any() or (labels > MAX_RELEVANCE).any():
            raise ValueError(f"boosted trees, query {number}: relevance must be whole, from 0 to {MAX_RELEVANCE}")
        learnable = learnable or len(np.unique(labels)) > 1
    if not learnable:
        raise ValueError("boosted trees need a training query with a relevant candidate and another one")
    return num_features
