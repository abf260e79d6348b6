"""Measures as functions of how often each method counts, so that methods can be resampled.

Each function returns a ``Metric``: ``(R, M) -> (R,)``, the measure in each of R samples, given how often each of M
methods is in the sample; see ``metric_interval``. Rows (variables, pairs, queries) belong to methods 0..M-1.
"""

from collections.abc import Callable

import numpy as np

Metric = Callable[[np.ndarray], np.ndarray]


def accuracy(predicted: np.ndarray, label: np.ndarray, method: np.ndarray, num_methods: int) -> Metric:
    """The share of rows that are predicted right, ``(Q,), (Q,), (Q,) ->`` metric."""
    return mean((predicted == label).astype(float), method, num_methods)


def mean(values: np.ndarray, method: np.ndarray, num_methods: int) -> Metric:
    """The mean of rows ``(Q,)``."""
    sums = np.bincount(method, weights=values, minlength=num_methods)
    sizes = np.bincount(method, minlength=num_methods)
    return lambda weight: (weight @ sums) / np.maximum(weight @ sizes, 1)


def macro_f1(predicted: np.ndarray, label: np.ndarray, method: np.ndarray, num_methods: int) -> Metric:
    """The mean F1 of the classes that rows of the sample have, ``(Q,), (Q,), (Q,) ->`` metric.

    A class that is only predicted, wrongly then, has no F1 of its own: the mistakes lower that of the true classes.
    """
    classes = np.unique(label)
    hits = _counts((predicted == label)[:, None] & (label[:, None] == classes), method, num_methods)
    true = _counts(label[:, None] == classes, method, num_methods)
    guessed = _counts(predicted[:, None] == classes, method, num_methods)

    def metric(weight: np.ndarray) -> np.ndarray:
        support = weight @ true
        f1 = 2 * (weight @ hits) / np.maximum(support + weight @ guessed, 1)
        present = support > 0
        return np.asarray((f1 * present).sum(axis=1) / np.maximum(present.sum(axis=1), 1))

    return metric


def average_precision(score: np.ndarray, label: np.ndarray, method: np.ndarray) -> Metric:
    """Average precision of rows by descending score, ``(P,), (P,), (P,) ->`` metric.

    Sum over the distinct scores of (recall - recall before) * precision, as scikit-learn defines it: rows with the
    same score are ranked together. NaN in a sample without any relevant row.
    """
    order = np.argsort(-score, kind="stable")
    relevant = label[order] == 1
    of_method = method[order]
    # The last row of each run of equal scores: for 0.9, 0.5, 0.5, 0.1 rows 0, 2 and 3.
    last = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)

    def metric(weight: np.ndarray) -> np.ndarray:
        rows = weight[:, of_method]
        found = np.cumsum(rows * relevant, axis=1)[:, last]
        ranked = np.cumsum(rows, axis=1)[:, last]
        gained = np.diff(found, axis=1, prepend=0)
        total = found[:, -1]
        area = (gained * found / np.maximum(ranked, 1)).sum(axis=1)
        return np.where(total > 0, area / np.maximum(total, 1), np.nan)

    return metric


def reciprocal_ranks(scores: np.ndarray) -> np.ndarray:
    """1 / rank of candidate i for query i, ``(Q, Q) -> (Q,)``; among equal scores it is in the middle.

    Of three candidates with equal scores, the relevant one has rank 2.
    """
    own = np.diagonal(scores)[:, None]
    above = (scores > own).sum(axis=1)
    equal = (scores == own).sum(axis=1) - 1
    return np.asarray(1 / (1 + above + equal / 2))


def _counts(chosen: np.ndarray, method: np.ndarray, num_methods: int) -> np.ndarray:
    """How many chosen rows of each class each method has, ``(Q, C) -> (M, C)``."""
    sums = np.zeros((num_methods, chosen.shape[1]))
    np.add.at(sums, method, chosen.astype(float))
    return sums
