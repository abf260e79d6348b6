"""Precision targets: thresholds by hand and on simulated trackers, and what is said and done on their strength."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from gedbd.evaluation.thresholds import (
    MIN_SUGGESTIONS,
    TargetResult,
    choose_threshold,
    find_target,
    first_size,
    met_targets,
    target_status,
)

MEASURED = TargetResult(0.5, 0.413, "met", 30, 22, 22 / 30, 0.56, 0.89, "2017-03-01", "2018-02-01")


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [
        (0.7, 0.9, "met"),
        (0.69, 0.9, "inconclusive"),
        (0.21, 0.7, "inconclusive"),
        (0.21, 0.69, "missed"),
        (float("nan"), float("nan"), "inconclusive"),
    ],
)
def test_statuses(low, high, status):
    assert target_status(0.7, low, high) == status


PERIOD = "this tracker's reports from 2017-03-01 to 2018-02-01"
NEWEST = "this tracker's newest reports"


@pytest.mark.parametrize(
    ("result", "parts"),
    [
        (MEASURED, (f"Of 30 such suggestions on {PERIOD}, 22 (73%, 95% interval 56% to 89%) were right.",)),
        (TargetResult(0.5, 0.413, "met", 1, 1, 1.0, 0.025, 1.0), (f"Of 1 such suggestions on {NEWEST}, 1", "was")),
        (replace(MEASURED, list_length=3, first=None), ("Of 30 such lists of 3", "named a duplicate")),
        (replace(MEASURED, target_precision=0.8, status="missed"), ("missed the target", "80%")),
        (TargetResult(0.9, 0.8, "inconclusive"), ("could not show whether 90%", "There were no such suggestions")),
        (TargetResult(0.9, None, "no threshold"), ("Nothing is suggested", "found no threshold at which 90%")),
    ],
)
def test_statements(result, parts):
    assert all(part in result.statement for part in parts)
    assert result.suggest_from == (0.413 if result.status == "met" else None)


def test_targets_are_looked_up():
    targets = (MEASURED, replace(MEASURED, target_precision=0.1 + 0.2, status="missed"))
    assert find_target(targets, 0.3, "x") is targets[1]
    with pytest.raises(
        ValueError,
        match=r"^x=0.95: .* measured only the targets 0.5, 0.3; run gedbd backtest target_precision=0.95 and build",
    ):
        find_target(targets, 0.95, "x")
    assert met_targets(targets) == "Targets met: 0.5."
    assert met_targets(targets[1:]) == "Targets met: none."
    of_lists = (replace(MEASURED, target_precision=0.6, list_length=3), replace(MEASURED, status="missed"))
    assert met_targets(targets[1:], of_lists) == "Targets met: none; by lists of 3: 0.6."
    assert met_targets(targets, of_lists[1:]) == "Targets met: 0.5."


def best_matches(*runs):
    """Probabilities and verdicts, from runs of (probability, right, wrong); every report is a group of its own."""
    probability = np.concatenate([np.full(right + wrong, value) for value, right, wrong in runs])
    right = np.concatenate([np.arange(right + wrong) < right for _, right, wrong in runs])
    return probability, right, np.arange(len(right))


def bound(right, count):
    """An independent implementation of the one-sided bound at 0.9."""
    return binomtest(right, count, alternative="greater").proportion_ci(0.9).low


def test_the_first_threshold_has_enough_suggestions_for_some_wrong_ones():
    each = np.arange(1.0, 1001)
    assert [first_size(each, target, 0.9) for target in (0.3, 0.5, 0.7, 0.9)] == [45, 51, 44, 75]
    assert first_size(each, 0.05, 0.9) >= MIN_SUGGESTIONS
    # four of five reach a target of 0.7 with 45 suggestions, not with 40; three of five one of 0.5 with 55, not with 45
    assert bound(36, 45) >= 0.7 > bound(32, 40)
    assert bound(33, 55) >= 0.5 > bound(27, 45)
    # 22 of 22 would reach a target of 0.9, 21 of 21 would not
    assert bound(22, 22) >= 0.9 > bound(21, 21)
    assert first_size(np.array([4.0, 21, 90, 200]), 0.9, 0.9) == 75
    assert first_size(np.array([4.0, 22, 40, 90, 200]), 0.9, 0.9) == 40
    assert first_size(np.array([4.0, 22]), 0.9, 0.9) == 22


@pytest.mark.parametrize(
    ("runs", "target", "threshold"),
    [
        ([(0.9, 30, 0), (0.5, 10, 5), (0.1, 0, 50)], 0.7, 0.5),  # 40 of 45: .81; 40 of 95: .35
        ([(0.9, 60, 0), (0.5, 10, 8), (0.1, 0, 50)], 0.85, 0.9),  # 60 of 60: .96, 70 of 78: .84
        ([(0.9, 15, 6), (0.5, 20, 0)], 0.7, None),  # 15 of 21 are 71%, but as few as .54 may be right: the search ends
        ([(0.9, 30, 15), (0.5, 60, 0)], 0.7, None),  # 30 of 45 are 67%, but as few as .56 may be right: the search ends
        ([(0.9, 9, 0)], 0.5, None),  # too few
        ([(0.9, 15, 0), (0.5, 5, 50)], 0.7, 0.9),  # 15 of 15: .86; there are no 21
        ([(0.95, 0, 3), (0.9, 40, 0)], 0.7, 0.9),  # three alone are not tested, 40 of 43 are
        ([(0.9, 60, 0), (0.8, 0, 40), (0.7, 300, 0)], 0.7, 0.9),  # what is not reached by passing is not taken
        ([(0.9, 0, 60)], 0.1, None),
        ([(0.9, 0, 0)], 0.5, None),
    ],
)
def test_thresholds_by_hand(runs, target, threshold):
    assert choose_threshold(*best_matches(*runs), target, 0.9) == threshold
