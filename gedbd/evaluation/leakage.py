"""Leak audit: how much of a split's test part a model has seen in training, and the F1 that this alone gives."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from gedbd.corpora.splits import TEST
from gedbd.evaluation.pairwise import pairwise_metrics
from gedbd.retrieval.scorers.scorer_contract import linked_groups

NOTE = (
    "warning: this split leaks. A baseline that reads no text and only follows training pairs, finds {found} of"
    " {positives} test duplicates (F1 {f1:.3f}): scores on these pairs say little about new reports"
)


def audit_leak(pairs: pd.DataFrame, parts: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """Measures the reports, groups and chains of pairs that test shares with training.

    *Test reports* are the reports in test pairs that are in the part test; if a split assigns no reports to parts
    (``split=pair``), all reports in test pairs. Without a leak ``closure_found`` is zero: no chain of training pairs
    connects the two reports of a test pair.

    Args:
        pairs: The table that ``PairSampler.sample`` makes.
        parts: ``(N,)`` part of each report.
        group: ``(N,)`` group of each report.

    Returns:
        ``test_reports`` and ``test_reports_in_training``, the share of them in training pairs;
        ``pair_reports_in_training``, the share of all reports in test pairs that are in training pairs: with
        ``split=time`` older candidates may have been seen; ``test_groups`` with a positive test pair and
        ``test_groups_in_training``, the share of them with a positive training pair; ``test_positives`` and
        ``closure_found``, the number of them that transitive closure of the positive training pairs finds;
        ``closure_precision``, ``closure_recall``, ``closure_f1``; ``always_duplicate_f1``.
    """
    train = pairs[pairs["part"] == "train"]
    test = pairs[pairs["part"] == "test"]
    label = test["label"].to_numpy()
    trained = _reports(train)
    paired = _reports(test)
    tested = paired[parts[paired] == TEST] if (parts == TEST).any() else paired
    groups = _positive_groups(test, group)
    # A baseline that reads no text: two reports are duplicates if a chain of training pairs connects them.
    links = train.rename(columns={"later": "query", "earlier": "document"})
    closure = linked_groups(links, len(group))
    tied = (closure[test["earlier"]] == closure[test["later"]]).astype(np.float32)
    metrics = pairwise_metrics(tied, label, 0.5)
    return {
        "test_reports": len(tested),
        "test_reports_in_training": _share(tested, trained),
        "pair_reports_in_training": _share(paired, trained),
        "test_groups": len(groups),
        "test_groups_in_training": _share(groups, _positive_groups(train, group)),
        "test_positives": int(label.sum()),
        "closure_found": int(((tied == 1) & (label == 1)).sum()),
        **{f"closure_{name}": metrics[name] for name in ("precision", "recall", "f1")},
        "always_duplicate_f1": pairwise_metrics(np.ones(len(label)), label, 0.5)["f1"],
    }


def leak_warning(audit: Mapping[str, float]) -> str | None:
    """A sentence if the split leaks, None otherwise."""
    if audit["closure_found"] == 0 and audit["test_reports_in_training"] == 0:
        return None
    return NOTE.format(found=audit["closure_found"], positives=audit["test_positives"], f1=audit["closure_f1"])


def _reports(pairs: pd.DataFrame) -> np.ndarray:
    return np.unique(pairs[["earlier", "later"]].to_numpy())


def _positive_groups(pairs: pd.DataFrame, group: np.ndarray) -> np.ndarray:
    return np.unique(group[_reports(pairs[pairs["label"] == 1])])


def _share(values: np.ndarray, among: np.ndarray) -> float:
    return float(np.isin(values, among).mean()) if len(values) else 0.0
