"""Metrics of pairs, and the audit of pairs that a split leaks from training into test."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import average_precision_score
from torchmetrics.functional.classification import binary_accuracy, binary_f1_score, binary_precision, binary_recall

from gedbd.corpora.corpus import TEST
from gedbd.retrieval.scorers.scorer_contract import linked_groups

GRID = np.round(np.arange(0, 1.025, 0.05), 2)
METRICS = ("precision", "recall", "f1", "accuracy", "average_precision")
LEAK_WARNING = (
    "warning: this split leaks. A baseline that reads no text and only follows training pairs finds {found} of"
    " {positives} test duplicates (F1 {f1:.3f}): scores on these pairs say little about new reports"
)


def pairwise_metrics(scores: np.ndarray, labels: np.ndarray, threshold: float) -> dict[str, float]:
    """Precision, recall, F1 and accuracy at a threshold, and average precision over all thresholds.

    Args:
        scores: ``(P,)``, higher is more similar.
        labels: ``(P,)`` 1 for duplicates, 0 for others.
        threshold: Lowest score of a predicted duplicate.

    Returns:
        A value between 0 and 1 for each name in ``METRICS``. Precision is 0 if no pair is predicted as a duplicate.
    """
    target = torch.from_numpy(np.array(labels, dtype=np.int64))
    # In the dtype of the scores: a float32 score may be below the same number in float64.
    predicted = torch.from_numpy((scores >= np.asarray(threshold, dtype=scores.dtype)).astype(np.int64))
    values = (
        binary_precision(predicted, target),
        binary_recall(predicted, target),
        binary_f1_score(predicted, target),
        binary_accuracy(predicted, target),
        average_precision_score(labels, scores),
    )
    return dict(zip(METRICS, (float(value) for value in values), strict=True))


def best_threshold(scores: np.ndarray, labels: np.ndarray, grid: np.ndarray = GRID) -> float:
    """The threshold of a grid with the best F1; the lowest one among ties.

    Args:
        scores: ``(P,)`` cosines.
        labels: ``(P,)`` 1 for duplicates, 0 for others, with at least one duplicate.
        grid: ``(T,)`` thresholds to try; the paper's is 0, 0.05, ..., 1.
    """
    predicted = scores[None, :] >= grid[:, None].astype(scores.dtype)
    hits = (predicted & (labels == 1)).sum(axis=1)
    f1 = 2 * hits / (predicted.sum(axis=1) + (labels == 1).sum())
    return float(grid[np.argmax(f1)])


def score_grid(scores: np.ndarray) -> np.ndarray:
    """A grid of thresholds for scores of any range: 400 quantiles, ascending."""
    return np.unique(np.quantile(scores, np.linspace(0, 1, 400), method="higher"))


def audit_leak(pairs: pd.DataFrame, parts: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """Measures the reports, groups and chains of pairs that test shares with training.

    *Test reports* are the reports of the test split in test pairs; with ``split=pair``, which does not split reports,
    all reports in test pairs. Without a leak ``closure_found`` is zero: no chain of training pairs connects the two
    reports of a test pair.

    Args:
        pairs: The table of ``PairSampler.sample``.
        parts: ``(N,)`` split of each report.
        group: ``(N,)`` group of each report.

    Returns:
        ``test_reports`` and ``test_reports_in_training``, the share of them in training pairs;
        ``pair_reports_in_training``, the share of all reports in test pairs that are in training pairs, as older
        candidates may be with ``split=time``; ``test_groups`` with a positive test pair and
        ``test_groups_in_training``, the share of them with a positive training pair; ``test_positives`` and
        ``closure_found``, the number of them in the transitive closure of the positive training pairs;
        ``closure_precision``, ``closure_recall``, ``closure_f1``; ``always_duplicate_f1``.
    """
    train = pairs[pairs["part"] == "train"]
    test = pairs[pairs["part"] == "test"]
    label = test["label"].to_numpy()
    train_reports = _reports(train)
    pair_reports = _reports(test)
    tested = pair_reports[parts[pair_reports] == TEST] if (parts == TEST).any() else pair_reports
    groups = _positive_groups(test, group)
    # The baseline predicts duplicates if a chain of training pairs connects two reports.
    links = train.rename(columns={"later": "query", "earlier": "document"})
    closure = linked_groups(links, len(group))
    connected = (closure[test["earlier"]] == closure[test["later"]]).astype(np.float32)
    metrics = pairwise_metrics(connected, label, 0.5)
    return {
        "test_reports": len(tested),
        "test_reports_in_training": _share(tested, train_reports),
        "pair_reports_in_training": _share(pair_reports, train_reports),
        "test_groups": len(groups),
        "test_groups_in_training": _share(groups, _positive_groups(train, group)),
        "test_positives": int(label.sum()),
        "closure_found": int(((connected == 1) & (label == 1)).sum()),
        **{f"closure_{name}": metrics[name] for name in ("precision", "recall", "f1")},
        "always_duplicate_f1": pairwise_metrics(np.ones(len(label)), label, 0.5)["f1"],
    }


def leak_warning(audit: Mapping[str, float]) -> str | None:
    """A warning if the split leaks, else None."""
    if audit["closure_found"] == 0 and audit["test_reports_in_training"] == 0:
        return None
    return LEAK_WARNING.format(found=audit["closure_found"], positives=audit["test_positives"], f1=audit["closure_f1"])


def _reports(pairs: pd.DataFrame) -> np.ndarray:
    return np.unique(pairs[["earlier", "later"]].to_numpy())


def _positive_groups(pairs: pd.DataFrame, group: np.ndarray) -> np.ndarray:
    return np.unique(group[_reports(pairs[pairs["label"] == 1])])


def _share(values: np.ndarray, among: np.ndarray) -> float:
    return float(np.isin(values, among).mean()) if len(values) else 0.0
