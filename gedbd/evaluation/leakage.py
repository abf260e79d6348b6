"""Leak audit: how much of a split's test part a model has met in training, and what that alone is worth."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from gedbd.corpora.splits import TEST
from gedbd.evaluation.pairwise import pairwise_metrics
from gedbd.retrieval.scorers.scorer import linked_groups

NOTE = (
    "warning: this split leaks. A baseline that reads no text, and only follows training pairs, finds {found} of"
    " {positives} test duplicates (F1 {f1:.3f}): scores on these pairs say little about new reports"
)


def audit_leak(pairs: pd.DataFrame, parts: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """What test shares with training.

    *Test reports* are those of the part test that test pairs name; where a split puts no report there
    (``split=pair``), all reports that test pairs name. Chance is zero: across a wall no chain of training pairs reaches
    both reports of a test pair.

    Args:
        pairs: The table that ``PairSampler.sample`` makes.
        parts: ``(N,)`` part of each report.
        group: ``(N,)`` group of each report.

    Returns:
        ``test_reports`` and ``test_reports_in_training``, of them, the share that training pairs name;
        ``pair_reports_in_training``, the share of all reports of test pairs that training pairs name: under
        ``split=time`` older candidates may have been learnt from; ``test_groups`` with a positive test pair and
        ``test_groups_in_training``, the share with a positive training pair; ``test_positives`` and
        ``closure_found``, how many of them transitive closure of the positive training pairs finds;
        ``closure_precision``, ``closure_recall``, ``closure_f1``; ``always_duplicate_f1``.
    """
    train, test = pairs[pairs["part"] == "train"], pairs[pairs["part"] == "test"]
    named, seen, label = _reports(test), _reports(train), test["label"].to_numpy()
    tested = named[parts[named] == TEST] if (parts == TEST).any() else named
    groups, groups_seen = (np.unique(group[_reports(part[part["label"] == 1])]) for part in (test, train))
    closure = linked_groups(train.rename(columns={"later": "query", "earlier": "document"}), len(group))
    tied = (closure[test["earlier"]] == closure[test["later"]]).astype(np.float32)
    found = pairwise_metrics(tied, label, 0.5)
    return {
        "test_reports": len(tested),
        "test_reports_in_training": _share(tested, seen),
        "pair_reports_in_training": _share(named, seen),
        "test_groups": len(groups),
        "test_groups_in_training": _share(groups, groups_seen),
        "test_positives": int(label.sum()),
        "closure_found": int(((tied == 1) & (label == 1)).sum()),
        **{f"closure_{name}": found[name] for name in ("precision", "recall", "f1")},
        "always_duplicate_f1": pairwise_metrics(np.ones(len(label)), label, 0.5)["f1"],
    }


def leak_warning(audit: Mapping[str, float]) -> str | None:
    """A sentence where the split leaks, None where it does not."""
    if audit["closure_found"] == 0 and audit["test_reports_in_training"] == 0:
        return None
    return NOTE.format(found=audit["closure_found"], positives=audit["test_positives"], f1=audit["closure_f1"])


def _reports(pairs: pd.DataFrame) -> np.ndarray:
    return np.unique(pairs[["earlier", "later"]].to_numpy())


def _share(values: np.ndarray, among: np.ndarray) -> float:
    return float(np.isin(values, among).mean()) if len(values) else 0.0
