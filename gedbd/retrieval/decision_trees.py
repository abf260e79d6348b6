"""Decision trees as arrays: their check, their JSON, and their leaves from left to right."""

import json
from typing import NamedTuple

import numpy as np

MAX_LEAVES = 64  # bits of a mask
MAX_VALUE = 1e30  # of a leaf: sums of many stay finite
KINDS = {"feature": "i", "threshold": "if", "nan_left": "b", "left": "i", "right": "i", "value": "if", "size": "i"}
EMPTY = {"i": np.int64, "b": np.bool_}


class DecisionTree(NamedTuple):
    """A decision tree of S splits and S + 1 leaves; split 0 is the root.

    Attributes:
        feature: ``(S,)`` number of the feature that each split reads.
        threshold: ``(S,)`` a value up to this one goes left.
        nan_left: ``(S,)`` bool: a missing value goes left.
        left: ``(S,)`` the split on the left, which has a higher number; below 0 a leaf: -1 is leaf 0, -2 leaf 1.
        right: ``(S,)`` likewise.
        value: ``(S + 1,)`` values of the leaves.
        size: ``(S + 1,)`` numbers of training candidates in the leaves.
    """

    feature: np.ndarray
    threshold: np.ndarray
    nan_left: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    size: np.ndarray

    def to_json(self) -> str:
        """The tree as a line of JSON."""
        return json.dumps({name: column.tolist() for name, column in self._asdict().items()})

    @classmethod
    def from_json(cls, content: dict[str, object]) -> "DecisionTree":
        """The tree that ``to_json`` was called on. Raises ValueError if a column is missing or holds other values."""
        columns = {}
        for name, kinds in KINDS.items():
            values = content.get(name)
            simple = isinstance(values, list) and all(isinstance(value, bool | int | float) for value in values)
            column = np.asarray(values) if simple else np.empty(0, dtype=object)
            if simple and not len(column):  # a tree without a split
                column = np.empty(0, dtype=EMPTY[kinds[0]])
            if column.dtype.kind not in kinds:
                raise ValueError(f"{name!r} is no list of the right numbers")
            columns[name] = column
        return cls(**columns)

    def check(self, num_features: int) -> None:
        """Raises ValueError unless the tree is whole: every split and leaf is reached from the root exactly once."""
        num_splits = len(self.feature)
        lengths = [len(column) for column in self]
        if lengths != [num_splits] * 5 + [num_splits + 1] * 2 or num_splits >= MAX_LEAVES:
            raise ValueError(f"it needs 1 to {MAX_LEAVES} leaves, and one split less")
        children = np.concatenate([self.left, self.right])
        is_split = children >= 0
        parents = np.tile(np.arange(num_splits), 2)
        # With 2 splits the children are leaves -3, -2, -1 and split 1.
        expected = [number for number in range(-num_splits - 1, num_splits) if number and num_splits]
        if sorted(children.tolist()) != expected or (children <= parents)[is_split].any():
            raise ValueError("its splits form no tree")
        if ((self.feature < 0) | (self.feature >= num_features)).any() or (self.size < 0).any():
            raise ValueError(f"a feature is not from 0 to {num_features - 1}, or a size is below 0")
        if np.isnan(self.threshold).any() or not (np.abs(self.value) <= MAX_VALUE).all():
            raise ValueError(f"a threshold is no number, or a value not between -{MAX_VALUE:g} and {MAX_VALUE:g}")


class LeafLayout(NamedTuple):
    """A tree of S splits with its leaves from left to right.

    Attributes:
        masks: ``(S,)`` uint64: a bit for each leaf, the leftmost leaf's lowest; those left of the split are 0.
        values: ``(S + 1,)``.
        shares: ``(S + 1, F + 1)`` what each feature adds on the way to the leaf, and the mean value of the tree.
    """

    masks: np.ndarray
    values: np.ndarray
    shares: np.ndarray


def lay_out(tree: DecisionTree, num_features: int) -> LeafLayout:
    """Lays a tree out.

    Args:
        tree: A tree that was checked.
        num_features: Number F of features.
    """
    num_splits = len(tree.feature)
    sizes, means = _below(tree)
    masks = np.zeros(num_splits, dtype=np.uint64)
    # Splits come first, then the leaves in reverse order: number -1 - i, from the end, is leaf i.
    # The leaves first[n] ... first[n] + sizes[n] - 1, from left to right, are below number n.
    first = np.zeros(2 * num_splits + 1, dtype=np.int64)
    shares = np.zeros((2 * num_splits + 1, num_features + 1))
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
    order = np.argsort(first[num_splits:][::-1])  # the leaves 0, 1, ... by their places
    return LeafLayout(masks, tree.value[order], shares[num_splits:][::-1][order])


def _below(tree: DecisionTree) -> tuple[np.ndarray, np.ndarray]:
    """Number of leaves, and mean value over the training candidates, below each split and leaf, ``(2 S + 1,)``."""
    num_splits = len(tree.feature)
    counts = np.maximum(tree.size, 1).astype(np.float64)
    sizes = np.ones(2 * num_splits + 1, dtype=np.int64)
    totals = np.zeros(2 * num_splits + 1)
    totals[num_splits:] = (tree.value * counts)[::-1]
    weights = np.zeros(2 * num_splits + 1)
    weights[num_splits:] = counts[::-1]
    for split in reversed(range(num_splits)):
        for column in (sizes, totals, weights):
            column[split] = column[tree.left[split]] + column[tree.right[split]]
    return sizes, totals / weights
