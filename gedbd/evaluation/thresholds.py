"""Precision targets: the choice of thresholds, and the results of a backtest in numbers and in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose

import numpy as np
import pandas as pd

from gedbd.evaluation.significance import lower_bound

LIST_LENGTH = 3
MIN_SUGGESTIONS = 10
GROWTH = 1.1
# The first threshold should pass with a precision this far above the target. On the validation splits of
# Xamarin's and Hadoop's reports 70% of the best suggestions are right.
MARGIN = 0.1
LARGEST_SHARE = 0.2  # of all reports: in small trackers, no larger share has a duplicate
MET = "met"
MISSED = "missed"
INCONCLUSIVE = "inconclusive"
NO_THRESHOLD = "no threshold"
TOO_FEW = "too few duplicates"
NOT_MEASURED = "not measured"
REASONS = {
    MISSED: "the backtest missed the target that {target:.0%} of the suggestions are right",
    INCONCLUSIVE: "the backtest could not show whether {target:.0%} of the suggestions are right",
    NO_THRESHOLD: "the backtest found no threshold at which {target:.0%} of the suggestions are right",
    TOO_FEW: "the backtest had too few duplicates to find a threshold for a target of {target:.0%} right suggestions",
    NOT_MEASURED: "the probabilities were learned from other trackers; run gedbd backtest to measure them on this one",
}


@dataclass(frozen=True)
class TargetResult:
    """The result for one precision target, on test reports that were not used to choose the threshold."""

    target_precision: float  # desired share of right suggestions
    threshold: float | None  # lowest probability of a suggestion, chosen on the validation split; None if there is none
    # ``met``, ``missed``, ``inconclusive`` (see ``target_status``), ``no threshold``, ``too few duplicates`` to find
    # a threshold (see ``duplicates_needed``), or ``not measured`` without a backtest
    status: str
    suggestions: int = 0  # number of suggestions on test reports, without unknown ones
    right: int = 0  # number of right suggestions
    precision: float | None = None  # right suggestions divided by all; None without suggestions
    precision_low: float | None = None  # lower end of its 95% interval
    precision_high: float | None = None  # upper end of its 95% interval
    first: str | None = None  # day of the first test report, as 2024-01-31; None for a corpus without dates
    last: str | None = None  # day of the last test report
    unknown: int = 0  # number of suggestions that are not known to be right or wrong
    # number of matches of a suggestion: it is right if one of them is, and its probability is the sum of theirs
    list_length: int = 1

    @property
    def suggest_from(self) -> float | None:
        """The lowest probability of automatic suggestions; None unless the target was met."""
        return self.threshold if self.status == MET else None

    def is_reached(self, probabilities: Sequence[float]) -> bool:
        """Whether matches, by their probabilities in descending order, may be suggested automatically."""
        best = probabilities[: self.list_length]
        return self.suggest_from is not None and len(best) == self.list_length and sum(best) >= self.suggest_from

    def list_statement(self, probabilities: Sequence[float]) -> str:
        """The probability of a list of best matches and its measured precision; empty if it may not be suggested."""
        if not self.is_reached(probabilities):
            return ""
        together = min(sum(probabilities[: self.list_length]), 1)
        return f"One of the first {self.list_length} is right with a probability of {together:.0%}. {self.evidence}"

    @property
    def evidence(self) -> str:
        """The measured precision in one sentence; empty without a threshold."""
        if self.threshold is None:
            return ""
        reports = "this tracker's newest reports"
        if self.first is not None:
            reports = f"this tracker's reports from {self.first} to {self.last}"
        kind = "suggestions" if self.list_length == 1 else f"lists of {self.list_length}"
        if not self.suggestions:
            return f"There were no such {kind} on {reports}."
        interval = f"95% interval {self.precision_low:.0%} to {self.precision_high:.0%}"
        were_right = "was right" if self.right == 1 else "were right"
        if self.list_length > 1:
            were_right = "named a duplicate"
        more = f"; {self.unknown:,} more are not counted, as nobody knows whether they are" if self.unknown else ""
        return (
            f"Of {self.suggestions:,} such {kind} on {reports}, {self.right:,} ({self.precision:.0%}, {interval})"
            f" {were_right}{more}."
        )

    @property
    def statement(self) -> str:
        """The measured precision, preceded by the reason if nothing is suggested."""
        if self.status == MET:
            return self.evidence
        reason = REASONS[self.status].format(target=self.target_precision)
        return f"Nothing is suggested automatically: {reason}. {self.evidence}".rstrip()


def target_status(target_precision: float, low: float, high: float) -> str:
    """``met`` if the whole interval reaches the target, ``missed`` if it is below, else (or NaN) ``inconclusive``."""
    if low >= target_precision:  # false for NaN, as below
        return MET
    return MISSED if high < target_precision else INCONCLUSIVE


def find_target(targets: Sequence[TargetResult], wanted: float, option: str) -> TargetResult:
    """The result for a target.

    ``option`` is the option that sets the target, for the error message.

    Raises:
        ValueError: If the backtest did not measure this target.
    """
    if not targets:
        raise ValueError(
            f"{option}={wanted:g}: no target was measured on this tracker; run gedbd backtest and build the"
            " index with run= set to its folder"
        )
    for target in targets:
        if isclose(target.target_precision, wanted):
            return target
    measured = ", ".join(f"{target.target_precision:g}" for target in targets)
    raise ValueError(
        f"{option}={wanted:g}: the backtest of this index measured only the targets {measured};"
        f" run gedbd backtest target_precision={wanted:g} and build the index with its folder"
    )


def met_targets(targets: Sequence[TargetResult], of_lists: Sequence[TargetResult] = ()) -> str:
    """A sentence with the targets that were met, by best matches and by lists."""
    by_best, by_lists = (
        ", ".join(f"{target.target_precision:g}" for target in results if target.status == MET)
        for results in (targets, of_lists)
    )
    more = f"; by lists of {of_lists[0].list_length}: {by_lists}" if by_lists else ""
    return f"Targets met: {by_best or 'none'}{more}."


def choose_threshold(
    probability: np.ndarray, right: np.ndarray, cluster: np.ndarray, target_precision: float, confidence: float
) -> float | None:
    """The lowest threshold that passes a test; None if the first one fails or there is none.

    Thresholds are tested in descending order until one fails. A threshold passes if the lower bound of the precision of
    the reports at or above it reaches the target. Each further threshold has at least ``GROWTH`` times as many reports
    as the one before.

    Args:
        probability: ``(B,)`` probability of the best match of each report.
        right: ``(B,)`` bool, whether the match is right.
        cluster: ``(B,)`` duplicate group of each report.
        target_precision: Desired share of right suggestions, above 0 and below 1.
        confidence: Confidence level of the lower bound, above 0 and below 1.
    """
    # All thresholds in descending order, with the share of right suggestions and the effective size.
    table = pd.DataFrame({"threshold": probability, "right": right, "cluster": cluster})
    table = table.sort_values("threshold", ascending=False, kind="stable")
    count = np.arange(1, len(table) + 1)
    # a cluster that grows from m to m + 1 suggestions adds (m + 1)^2 - m^2 = 2m + 1 to the sum of squares
    squares = (2 * table.groupby("cluster").cumcount() + 1).cumsum()
    table = table.assign(share=table["right"].cumsum() / count, size=count**2 / squares)
    # The last row of equal probabilities counts all of them.
    thresholds = table.loc[~table["threshold"].duplicated(keep="last"), ["threshold", "share", "size"]]
    lowest = None
    needed = first_size(thresholds["size"].to_numpy(), target_precision, confidence)
    for threshold, share, size in thresholds.to_numpy(dtype=float):
        if size < needed:
            continue
        if lower_bound(share, size, confidence) < target_precision:
            break
        lowest = float(threshold)
        needed = size * GROWTH
    return lowest


def first_size(sizes: np.ndarray, target_precision: float, confidence: float) -> float:
    """Minimum number of suggestions at the first threshold to test.

    The smallest number, at least ``MIN_SUGGESTIONS``, with which a precision of ``MARGIN`` above the target passes, so
    that a few wrong suggestions at the top do not end the search: 51 for a target of 0.5 and 44 for 0.7 at a confidence
    of 0.9. In small trackers it is ``LARGEST_SHARE`` of the reports, but enough for a precision halfway between the
    target and 1 to pass: 11 for 0.5, 21 for 0.7 and 75 for 0.9. If no threshold has this number, due to equal
    probabilities, it is the next lower one if that could pass with all suggestions right, else the next higher one.

    Args:
        sizes: ``(T,)`` effective numbers of suggestions of the thresholds.
        target_precision: Desired share of right suggestions, above 0 and below 1.
        confidence: Confidence level of the lower bound.
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
    """
    duplicates = 0
    bound = 0.0
    while bound < target_precision:
        duplicates += 1
        suggestions = max(MIN_SUGGESTIONS, duplicates)
        bound = float(lower_bound(duplicates / suggestions, suggestions, confidence))
    return duplicates
