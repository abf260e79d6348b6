"""Chooses the threshold for suggestions on the validation part, by a lower confidence bound of their precision.

Learn then test (Angelopoulos et al., 2021) with fixed-sequence testing: for each threshold the hypothesis is "of the
suggestions from here on, a smaller share is right than wanted". It is rejected where the one-sided exact lower bound of
their precision, at the given confidence level, reaches the target. Thresholds are tested from the highest one down,
until the first hypothesis that is not rejected. Tests in an order that is fixed beforehand need no correction for their
number: the probability that the true precision at the chosen threshold is below the target is at most
``1 - confidence``.

The order is fixed by counts, never by what is right: the first threshold is the highest one with ``first_size``
suggestions or more, each further one has at least ``GROWTH`` times as many as the one before. Suggestions for reports
of one duplicate group are not independent, so their effective number is counted: ``effective_size`` of the suggestions
by group of the new report.

What the guarantee does not cover: for dependent suggestions the effective number is an approximation, and which
suggestions are of one group depends on the labels; the test part is later than the validation part, and a tracker
changes. The probabilities of validation reports come from rankers and trees that were not trained on their groups, but
on others of the same time and later; calibration keeps the order, but decides which of them are equal.
"""

import numpy as np
import pandas as pd

from gedbd.evaluation.significance import lower_bound

MIN_SUGGESTIONS = 10
GROWTH = 1.1
# The precision above the target with which the first threshold is to pass. On the validation parts of Xamarin's and
# Hadoop's reports 70% of the best suggestions are right, not nearly all of them.
MARGIN = 0.1
LARGEST_SHARE = 0.2  # of all reports: where there are few of them, no more have a duplicate to be suggested


def choose_threshold(
    probability: np.ndarray, right: np.ndarray, cluster: np.ndarray, target_precision: float, confidence: float
) -> float | None:
    """The lowest threshold that passes the tests described above; None if the first one fails or there is none.

    Args:
        probability: ``(B,)`` of the best match of each report.
        right: ``(B,)`` bool, whether it is right.
        cluster: ``(B,)`` duplicate group of each report.
        target_precision: Desired share of right suggestions, above 0 and below 1.
        confidence: Confidence level of the lower bound, above 0 and below 1.
    """
    steps = _steps(probability, right, cluster)
    chosen = None
    needed = first_size(steps["size"].to_numpy(), target_precision, confidence)
    for threshold, share, size in steps.to_numpy(dtype=float):
        if size < needed:
            continue
        if lower_bound(share, size, confidence) < target_precision:
            break
        chosen = float(threshold)
        needed = size * GROWTH
    return chosen


def first_size(sizes: np.ndarray, target_precision: float, confidence: float) -> float:
    """Minimum number of suggestions of the first threshold.

    It is the smallest number, ``MIN_SUGGESTIONS`` or more, with which a share of right ones ``MARGIN`` above the target
    would pass: with fewer, some wrong suggestions at the top would end the search. At a confidence of 0.9 it is 51 for
    a target of 0.5 and 44 for 0.7. It is less in a small tracker, ``LARGEST_SHARE`` of the reports, but enough for a
    share halfway between the target and 1 to pass: 11 for 0.5, 21 for 0.7 and 75 for 0.9. If equal probabilities leave
    no threshold with this number, it is the next lower one if that could pass with all suggestions right, the next
    higher one otherwise.

    Args:
        sizes: ``(T,)`` effective numbers of suggestions of the thresholds.
        target_precision: See ``choose_threshold``.
        confidence: See ``choose_threshold``.
    """
    largest = sizes.max(initial=0)
    numbers = np.arange(MIN_SUGGESTIONS, max(MIN_SUGGESTIONS, largest) + 1)

    def enough_for(share: float) -> float:
        passes = np.asarray(lower_bound(share, numbers, confidence)) >= target_precision
        return float(numbers[passes][0] if passes.any() else numbers[-1])

    least = enough_for((1 + target_precision) / 2)
    wanted = max(least, min(enough_for(min(target_precision + MARGIN, 1)), LARGEST_SHARE * largest))
    all_right = max(MIN_SUGGESTIONS, np.log(1 - confidence) / np.log(target_precision))  # target^n = 1 - confidence
    below = sizes[(sizes >= all_right) & (sizes <= wanted)]
    return float(below.max()) if len(below) else wanted


def duplicates_needed(target_precision: float, confidence: float) -> int:
    """Number of duplicates below which there is no threshold, even if each of them gets the right suggestion.

    At a confidence of 0.9 it is 8 for a target of 0.5, as 8 right of 10 suggestions pass, 10 for 0.7 and 22 for 0.9.

    Args:
        target_precision: See ``choose_threshold``.
        confidence: See ``choose_threshold``.
    """
    duplicates = 0
    bound = 0.0
    while bound < target_precision:
        duplicates += 1
        suggestions = max(MIN_SUGGESTIONS, duplicates)
        bound = float(lower_bound(duplicates / suggestions, suggestions, confidence))
    return duplicates


def _steps(probability: np.ndarray, right: np.ndarray, cluster: np.ndarray) -> pd.DataFrame:
    """Every threshold from the highest down: ``threshold``, ``share`` of right suggestions, effective ``size``."""
    table = pd.DataFrame({"threshold": probability, "right": right, "cluster": cluster})
    table = table.sort_values("threshold", ascending=False, kind="stable")
    count = np.arange(1, len(table) + 1)
    # a cluster that grows from m to m + 1 suggestions adds (m + 1)^2 - m^2 = 2m + 1 to the sum of squares
    squares = (2 * table.groupby("cluster").cumcount() + 1).cumsum()
    table = table.assign(share=table["right"].cumsum() / count, size=count**2 / squares)
    # Of equal probabilities the last row counts all of them.
    return table.loc[~table["threshold"].duplicated(keep="last"), ["threshold", "share", "size"]]
