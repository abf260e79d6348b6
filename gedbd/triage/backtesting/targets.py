"""Precision targets: what the backtest measured for each, and what may be said and done on the strength of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose, isnan

MET = "met"
MISSED = "missed"
INCONCLUSIVE = "inconclusive"
NO_THRESHOLD = "no threshold"
REASONS = {
    MISSED: "the backtest missed the target that {target:.0%} of the suggestions are right",
    INCONCLUSIVE: "the backtest could not tell whether {target:.0%} of the suggestions are right",
    NO_THRESHOLD: "the backtest found no threshold from which {target:.0%} of the suggestions are right",
}


@dataclass(frozen=True)
class TargetResult:
    """What the backtest measured for one precision target, on test reports that had no part in choosing the threshold.

    Attributes:
        target_precision: Share of suggestions that is to be right.
        threshold: Probability from which on the best match counts as a suggestion, chosen on the validation part; None
            if there is none.
        verdict: ``met``, ``missed``, ``inconclusive`` (see ``verdict_of``), or ``no threshold``.
        suggestions: How many suggestions the test reports got.
        right: How many of them were right.
        precision: Their share, with the ends of its 95% interval; None without suggestions.
        precision_low: Lower end.
        precision_high: Upper end.
        first: Day of the first test report, as 2024-01-31; None for a corpus without dates.
        last: Day of the last one.
    """

    target_precision: float
    threshold: float | None
    verdict: str
    suggestions: int = 0
    right: int = 0
    precision: float | None = None
    precision_low: float | None = None
    precision_high: float | None = None
    first: str | None = None
    last: str | None = None

    @property
    def suggest_from(self) -> float | None:
        """The probability from which on something may be suggested unasked; None unless the target was met."""
        return self.threshold if self.verdict == MET else None

    @property
    def evidence(self) -> str:
        """The test figure in one sentence; empty if there was no threshold to test."""
        if self.threshold is None:
            return ""
        dated = self.first is not None
        reports = (
            f"this tracker's reports from {self.first} to {self.last}" if dated else "this tracker's newest reports"
        )
        if not self.suggestions:
            return f"On {reports} there was no such suggestion."
        interval = f"95% interval {self.precision_low:.0%} to {self.precision_high:.0%}"
        were = "was" if self.right == 1 else "were"
        return (
            f"Of {self.suggestions:,} such suggestions on {reports}, {self.right:,} ({self.precision:.0%}, {interval})"
            f" {were} right."
        )

    @property
    def statement(self) -> str:
        """The test figure, behind the reason why nothing is suggested unasked where that is so."""
        if self.verdict == MET:
            return self.evidence
        reason = REASONS[self.verdict].format(target=self.target_precision)
        return f"Nothing is suggested unasked: {reason}. {self.evidence}".rstrip()


def verdict_of(target_precision: float, low: float, high: float) -> str:
    """``met`` if the interval of the measured precision lies at the target or above it, ``missed`` if it lies below.

    Otherwise, and where there was nothing to measure (the ends are not numbers), ``inconclusive``.
    """
    if isnan(low) or isnan(high):
        return INCONCLUSIVE
    if low >= target_precision:
        return MET
    return MISSED if high < target_precision else INCONCLUSIVE


def find_target(targets: Sequence[TargetResult], wanted: float, option: str) -> TargetResult:
    """The result for a target.

    Args:
        targets: What an index has.
        wanted: The target.
        option: What the target is called where it was given, for the error message.

    Raises:
        ValueError: If the backtest did not measure this target; names those that it did.
    """
    for target in targets:
        if isclose(target.target_precision, wanted):
            return target
    there = ", ".join(f"{target.target_precision:g}" for target in targets)
    raise ValueError(
        f"{option}={wanted:g}: the backtest of this index measured the targets {there};"
        f" run python -m gedbd.backtest target_precision={wanted:g} and build the index with it"
    )


def met_targets(targets: Sequence[TargetResult]) -> str:
    """Which targets were met, in a sentence."""
    met = [f"{target.target_precision:g}" for target in targets if target.verdict == MET]
    return f"Targets that were met: {', '.join(met) or 'none'}."
