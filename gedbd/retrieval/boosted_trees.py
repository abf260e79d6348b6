"""Boosted trees, trained by LightGBM and evaluated by NumPy, as importing LightGBM takes a second."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

# Options of LightGBM that all trainings share.
TRAINING_OPTIONS: dict[str, Any] = {
    "learning_rate": 0.05,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}
MAX_LEAVES = 64  # bits of a mask
MAX_VALUE = 1e30  # of a leaf, so that sums stay finite
COLUMNS = {
    **{"feature": np.int64, "threshold": np.float64, "nan_left": np.bool_, "left": np.int64, "right": np.int64},
    **{"value": np.float64, "size": np.int64},
}
FORMAT = 1
MAX_FEATURES = 1000
MASKS = (np.uint8, np.uint16, np.uint32, np.uint64)
IS_CATEGORICAL, DEFAULT_LEFT = 1, 2  # bits of LightGBM's decision_type; the next two: missing values
MISSING_IS_NAN = 2


class RegressionTree(NamedTuple):
    """A decision tree of S splits and S + 1 leaves; split 0 is the root."""

    feature: np.ndarray  # ``(S,)`` number of the feature of each split
    threshold: np.ndarray  # ``(S,)`` values up to the threshold go left
    nan_left: np.ndarray  # ``(S,)`` bool, whether missing values go left
    left: np.ndarray  # ``(S,)`` left child: a split with a higher number, or a leaf: -1 is leaf 0, -2 is leaf 1
    right: np.ndarray  # ``(S,)`` right child, likewise
    value: np.ndarray  # ``(S + 1,)`` values of the leaves
    size: np.ndarray  # ``(S + 1,)`` numbers of training candidates in the leaves

    def to_json(self) -> str:
        """The tree as a line of JSON."""
        return json.dumps({name: column.tolist() for name, column in self._asdict().items()})

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "RegressionTree":
        """Reads the tree that ``to_json`` wrote; raises ValueError if a column is missing or not numeric."""
        columns: dict[str, np.ndarray] = {}
        for name, kind in COLUMNS.items():
            try:
                columns[name] = np.array(content[name], dtype=kind)
            except (LookupError, TypeError, ValueError, OverflowError) as error:
                raise ValueError(f"{name!r} is not a list of numbers") from error
        return cls(**columns)

    def check(self, num_features: int) -> None:
        """Raises ValueError unless each split and leaf is reached from the root exactly once."""
        num_splits = len(self.feature)
        shapes = [column.shape for column in self]
        if shapes != [(num_splits,)] * 5 + [(num_splits + 1,)] * 2 or num_splits >= MAX_LEAVES:
            raise ValueError(f"it needs 1 to {MAX_LEAVES} leaves, and one split less")
        children = np.concatenate([self.left, self.right])
        is_split = children >= 0
        parents = np.tile(np.arange(num_splits), 2)
        # With 2 splits the children are leaves -3, -2, -1 and split 1.
        expected = [number for number in range(-num_splits - 1, num_splits) if number and num_splits]
        if sorted(children.tolist()) != expected or (children <= parents)[is_split].any():
            raise ValueError("its splits do not form a tree")
        if ((self.feature < 0) | (self.feature >= num_features)).any() or (self.size < 0).any():
            raise ValueError(f"a feature is not from 0 to {num_features - 1}, or a size is below 0")
        if np.isnan(self.threshold).any() or not (np.abs(self.value) <= MAX_VALUE).all():
            raise ValueError(f"a threshold is not a number, or a value is not between -{MAX_VALUE:g} and {MAX_VALUE:g}")


class BoostedTrees:
    """A sum of decision trees.

    A mask has a bit for each leaf of a tree, the lowest for the leftmost leaf. A split that sends a candidate right
    clears the bits of the leaves on its left; the lowest remaining bit marks the leaf (QuickScorer: Lucchese et al.,
    SIGIR 2015). The bits that all splits on a feature clear depend only on the interval of its value: each interval has
    a row of masks.

    Raises:
        ValueError: If there is no tree, or one is malformed.
    """

    kind: ClassVar[str] = "boosted"

    def __init__(self, trees: Sequence[RegressionTree], num_features: int) -> None:
        if not trees:
            raise ValueError("boosted trees need at least one tree")
        for number, tree in enumerate(trees):
            try:
                tree.check(num_features)
            except ValueError as error:
                raise ValueError(f"boosted trees, tree {number}: {error}") from error
        self.trees = tuple(trees)
        self.num_features = num_features
        # The masks of each feature's intervals, and the leaves of all trees one after the other.
        sizes = np.array([len(tree.value) for tree in self.trees])
        columns = zip(*(lay_out(tree, self.num_features) for tree in self.trees), strict=True)
        masks, self._values, self._shares = map(np.concatenate, columns)
        # The lowest bit is 1 for a tree's leftmost leaf, which frexp gives the exponent 1: hence the - 1.
        self._starts = np.cumsum(sizes) - sizes - 1
        self._mask = next(kind for kind in MASKS if sizes.max() <= np.iinfo(kind).bits)
        splits = (
            np.concatenate([tree.threshold for tree in self.trees]),
            np.concatenate([tree.nan_left for tree in self.trees]),
            np.repeat(np.arange(len(sizes)), sizes - 1),
            masks.astype(self._mask),
        )
        read = np.concatenate([tree.feature for tree in self.trees])
        self._intervals = {
            int(feature): _intervals(len(sizes), *(column[read == feature] for column in splits))
            for feature in np.unique(read)
        }

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Sums of the trees' values, ``(C, F) -> (C,)`` float64; NaN is a missing value.

        Raises:
            ValueError: If the number of features differs.
        """
        return np.asarray(self._values[self._leaves(features)].sum(axis=1))

    def contributions(self, features: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Contributions of the features to the predictions of rows, ``(C, F), (R,) -> (R, F + 1)``; None for all rows.

        Saabas' method: each split on the path to the leaf adds to its feature the change of the mean value over the
        training candidates. The last column is the mean prediction, so that a row sums to the prediction. SHAP values
        differ, as they average over the orders of the features.
        """
        leaves = self._leaves(features if rows is None else features[rows])
        return np.array([self._shares[row].sum(axis=0) for row in leaves]).reshape(len(leaves), self.num_features + 1)

    def to_text(self) -> str:
        """The trees as JSON, one a line after a header."""
        header = {"format": FORMAT, "num_features": self.num_features, "num_trees": len(self.trees)}
        return "\n".join([json.dumps(header), *(tree.to_json() for tree in self.trees)]) + "\n"

    @classmethod
    def from_text(cls, text: str) -> "BoostedTrees":
        """Reads what ``to_text`` wrote; raises ValueError, naming the line or tree, if the text is damaged."""
        contents = []
        for number, line in enumerate(text.splitlines() or [""], start=1):
            try:
                contents.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"boosted trees, line {number}: not JSON; train them again") from error
            if not isinstance(contents[-1], dict):
                raise ValueError(f"boosted trees, line {number}: not a JSON object; train them again")
        header, *lines = contents
        num_features = header.get("num_features")
        if header.get("format") != FORMAT or type(num_features) is not int or not 0 < num_features <= MAX_FEATURES:
            raise ValueError(f"boosted trees, line 1: no header of format {FORMAT}; train them again")
        if header.get("num_trees") != len(lines):
            raise ValueError(
                f"boosted trees: line 1 counts {header.get('num_trees')}, {len(lines)} follow; train again"
            )
        trees = []
        for number, content in enumerate(lines, start=2):
            try:
                trees.append(RegressionTree.from_json(content))
            except ValueError as error:
                raise ValueError(f"boosted trees, line {number}: {error}; train them again") from error
        return cls(trees, num_features)

    def _leaves(self, features: np.ndarray) -> np.ndarray:
        """Position of the leaf of each candidate in each tree, ``(C, F) -> (C, T)``."""
        if features.ndim != 2 or features.shape[1] != self.num_features:
            raise ValueError(f"boosted trees read {self.num_features} features, got an array of shape {features.shape}")
        columns = features.T.astype(np.float64, order="C")
        missing = np.isnan(columns)
        has_missing = set(np.flatnonzero(missing.any(axis=1)).tolist())
        masks = np.full((len(features), len(self.trees)), np.iinfo(self._mask).max, dtype=self._mask)
        for feature, (bounds, rows) in self._intervals.items():
            # A value that equals a bound is in the interval below it; the last row is for missing values.
            interval = bounds.searchsorted(columns[feature], side="left")
            if feature in has_missing:
                interval[missing[feature]] = len(rows) - 1
            masks &= rows.take(interval, axis=0)
        lowest = masks & (~masks + self._mask(1))
        # Powers of two are exact in single precision.
        return np.asarray(np.frexp(lowest.astype(np.float32))[1] + self._starts)


def _intervals(
    num_trees: int, threshold: np.ndarray, nan_left: np.ndarray, tree: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The K bounds of a feature, ascending, and the masks ``(K + 2, T)`` of its intervals and of missing values.

    Args:
        num_trees: Number T of trees.
        threshold: ``(S,)`` thresholds of all splits on the feature.
        nan_left: ``(S,)`` bool.
        tree: ``(S,)`` tree of each split.
        mask: ``(S,)`` mask of candidates that the split sends right.
    """
    bounds, position = np.unique(threshold, return_inverse=True)
    rows = np.full((len(bounds) + 2, num_trees), np.iinfo(mask.dtype).max, dtype=mask.dtype)
    np.bitwise_and.at(rows, (position + 1, tree), mask)  # interval 1 begins above bound 0
    rows[:-1] = np.bitwise_and.accumulate(rows[:-1], axis=0)
    rows[-1] = np.iinfo(mask.dtype).max
    np.bitwise_and.at(rows[-1], tree[~nan_left], mask[~nan_left])
    return bounds, rows


def lay_out(tree: RegressionTree, num_features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lays out a tree of S splits with its leaves from left to right.

    Returns:
        Masks ``(S,)`` uint64, in which the bits of the leaves left of the split are 0; values of the leaves
        ``(S + 1,)``; and contributions of the features on the path to each leaf, with the mean value of the tree,
        ``(S + 1, F + 1)``.
    """
    # Splits come first, then the leaves in reverse order: number -1 - i, from the end, is leaf i.
    num_splits = len(tree.feature)
    count = 2 * num_splits + 1
    # Below each split and leaf: number of leaves, sum of values over the training candidates, and number of those.
    sizes, totals, weights = np.ones(count, dtype=np.int64), np.zeros(count), np.zeros(count)
    candidates = np.maximum(tree.size, 1).astype(np.float64)
    totals[num_splits:] = (tree.value * candidates)[::-1]
    weights[num_splits:] = candidates[::-1]
    for split in reversed(range(num_splits)):
        for column in (sizes, totals, weights):
            column[split] = column[tree.left[split]] + column[tree.right[split]]
    means = totals / weights
    masks = np.zeros(num_splits, dtype=np.uint64)
    # The leaves first[n] ... first[n] + sizes[n] - 1, from left to right, are below number n.
    first = np.zeros(count, dtype=np.int64)
    shares = np.zeros((count, num_features + 1))
    shares[0, -1] = means[0]  # number 0 is the root; without a split, the only leaf
    for split in range(num_splits):  # children have higher numbers
        left, right = int(tree.left[split]), int(tree.right[split])
        first[left] = first[split]
        first[right] = first[split] + sizes[left]
        cleared = (2 ** int(sizes[left]) - 1) << int(first[split])
        masks[split] = 2**MAX_LEAVES - 1 - cleared
        for child in (left, right):
            shares[child] = shares[split]
            shares[child, tree.feature[split]] += means[child] - means[split]
    order = np.argsort(first[num_splits:][::-1])  # the leaves from left to right
    return masks, tree.value[order], shares[num_splits:][::-1][order]


class LabelledLists(NamedTuple):
    """The candidates of Q queries."""

    features: Sequence[np.ndarray]  # for each query ``(C_i, F)``; NaN is a missing value
    relevance: Sequence[np.ndarray]  # for each query ``(C_i,)`` whole numbers from 0
    weight: Sequence[float] | None = None  # sample weight of each query; None for equal weights


def fit_boosted_trees(
    lists: LabelledLists,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    rounds: int = 300,
    num_leaves: int = 15,
    min_child: int = 20,
    feature_fraction: float = 0.8,
    bagging_fraction: float = 1.0,
    l2: float = 0.0,
    truncation: int = 30,
    later: LabelledLists | None = None,
    patience: int = 50,
) -> BoostedTrees:
    """Trains boosted trees with several seeds; the prediction is their mean.

    Deterministic. Source: Burges, "From RankNet to LambdaRank to LambdaMART", 2010.

    Args:
        lists: Training queries.
        seeds: Seeds of the sampling of features and queries.
        rounds: Number of trees of each seed.
        num_leaves: Maximum number of leaves of a tree.
        min_child: Minimum number of candidates in a leaf.
        feature_fraction: Share of the features sampled for a tree.
        bagging_fraction: Share of the candidates sampled for a tree.
        l2: Penalty on squared values of leaves.
        truncation: Number of ranks whose order counts.
        later: Validation queries for early stopping by NDCG@10, or None.
        patience: Number of rounds without improvement before training stops.

    Raises:
        ValueError: If no query has both a relevant and an irrelevant candidate, or an option is invalid.
    """
    import lightgbm

    if not seeds or not 2 <= num_leaves <= MAX_LEAVES:
        raise ValueError(f"boosted trees need a seed, and num_leaves={num_leaves} from 2 to {MAX_LEAVES}")
    if not any(len(np.unique(labels)) > 1 for labels in lists.relevance):
        raise ValueError("boosted trees need a training query with a relevant and an irrelevant candidate")
    parameters = TRAINING_OPTIONS | {
        **{"objective": "lambdarank", "metric": "ndcg", "eval_at": [10], "lambdarank_truncation_level": truncation},
        **{"num_leaves": num_leaves, "min_data_in_leaf": min_child, "lambda_l2": l2},
        **{"feature_fraction": feature_fraction, "bagging_fraction": bagging_fraction, "bagging_freq": 1},
    }
    models = []
    for seed in seeds:
        data = _data_set(lists)
        callbacks: list[Any] = [] if later is None else [lightgbm.early_stopping(patience, verbose=False)]
        valid_sets = [] if later is None else [_data_set(later, data)]
        options = parameters | {"seed": seed}
        try:
            models.append(lightgbm.train(options, data, rounds, valid_sets=valid_sets, callbacks=callbacks))
        except lightgbm.basic.LightGBMError as error:
            raise ValueError(f"boosted trees cannot be trained: {error}") from error
    return _mean_of(models)


def fit_classifier(
    features: np.ndarray,
    right: np.ndarray,
    weight: np.ndarray | None,
    *,
    seeds: Sequence[int],
    rounds: int,
    num_leaves: int,
    l2: float,
) -> BoostedTrees:
    """Trains boosted trees that predict the log odds that a candidate is right.

    Features ``(B, F)`` may be NaN, a missing value; ``right (B,)`` is bool, and ``weight (B,)`` says how many
    candidates each stands for. The prediction is the mean over all seeds.
    """
    import lightgbm

    parameters = TRAINING_OPTIONS | {"objective": "binary", "num_leaves": num_leaves, "lambda_l2": l2}
    parameters |= {"min_data_in_leaf": 50, "feature_fraction": 0.4}
    models = []
    for seed in seeds:
        data = lightgbm.Dataset(
            features.astype(np.float64), right.astype(np.int64), weight=weight, params={"verbosity": -1}
        )
        models.append(lightgbm.train(parameters | {"seed": seed}, data, rounds))
    return _mean_of(models)


def _mean_of(models: Sequence[Any]) -> BoostedTrees:
    """Trees whose prediction is the mean of those of some LightGBM models."""
    trees: list[RegressionTree] = []
    for model in models:
        model_trees = read_trees(model.model_to_string())
        trees += [tree._replace(value=tree.value / len(models)) for tree in model_trees]
    return BoostedTrees(trees, models[0].num_feature())


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
