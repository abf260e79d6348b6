"""Precision targets: what the backtest measured for each, in numbers and in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose, isnan

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
    NOT_MEASURED: "the probabilities were learnt from other trackers, but gedbd backtest has not measured them here",
}


@dataclass(frozen=True)
class TargetResult:
    """What the backtest measured for one precision target, on test reports that were not used to choose the threshold.

    Attributes:
        target_precision: Desired share of right suggestions.
        threshold: Probability from which the best match is a suggestion, chosen on the validation part; None if there
            is no such threshold.
        status: ``met``, ``missed``, ``inconclusive`` (see ``target_status``), ``no threshold``, ``too few duplicates``
            to find one (see ``duplicates_needed``), or ``not measured`` without a backtest.
        suggestions: Number of suggestions on test reports.
        right: Number of right suggestions.
        precision: Right suggestions divided by all; None without suggestions.
        precision_low: Lower end of its 95% interval.
        precision_high: Upper end.
        first: Day of the first test report, as 2024-01-31; None for a corpus without dates.
        last: Day of the last test report.
    """

    target_precision: float
    threshold: float | None
    status: str
    suggestions: int = 0
    right: int = 0
    precision: float | None = None
    precision_low: float | None = None
    precision_high: float | None = None
    first: str | None = None
    last: str | None = None

    @property
    def suggest_from(self) -> float | None:
        """The probability from which a match may be suggested automatically; None unless the target was met."""
        return self.threshold if self.status == MET else None

    @property
    def evidence(self) -> str:
        """The measured precision in one sentence; empty without a threshold."""
        if self.threshold is None:
            return ""
        reports = "this tracker's newest reports"
        if self.first is not None:
            reports = f"this tracker's reports from {self.first} to {self.last}"
        if not self.suggestions:
            return f"There were no such suggestions on {reports}."
        interval = f"95% interval {self.precision_low:.0%} to {self.precision_high:.0%}"
        were = "was" if self.right == 1 else "were"
        return (
            f"Of {self.suggestions:,} such suggestions on {reports}, {self.right:,} ({self.precision:.0%}, {interval})"
            f" {were} right."
        )

    @property
    def statement(self) -> str:
        """The measured precision; unless the target was met, preceded by the reason why nothing is suggested."""
        if self.status == MET:
            return self.evidence
        reason = REASONS[self.status].format(target=self.target_precision)
        return f"Nothing is suggested automatically: {reason}. {self.evidence}".rstrip()


def target_status(target_precision: float, low: float, high: float) -> str:
    """``met`` if the whole interval of the measured precision is at or above the target, ``missed`` if it is below.

    Otherwise, and if nothing was measured (the ends are NaN), ``inconclusive``.
    """
    if isnan(low) or isnan(high):
        return INCONCLUSIVE
    if low >= target_precision:
        return MET
    return MISSED if high < target_precision else INCONCLUSIVE


def find_target(targets: Sequence[TargetResult], wanted: float, option: str) -> TargetResult:
    """The result for a target.

    Args:
        targets: The results that an index has.
        wanted: The target.
        option: Name of the option that gave the target, for the error message.

    Raises:
        ValueError: If the backtest did not measure this target; names those that it measured.
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


def met_targets(targets: Sequence[TargetResult]) -> str:
    """Which targets were met, in a sentence."""
    met = [f"{target.target_precision:g}" for target in targets if target.status == MET]
    return f"Targets met: {', '.join(met) or 'none'}."
