"""What is said and done on the strength of a backtest."""

from dataclasses import replace

import pytest

from gedbd.triage.backtesting.targets import TargetResult, find_target, met_targets, target_status

MEASURED = TargetResult(0.5, 0.413, "met", 30, 22, 22 / 30, 0.56, 0.89, "2017-03-01", "2018-02-01")
FIGURE = (
    "Of 30 such suggestions on this tracker's reports from 2017-03-01 to 2018-02-01,"
    " 22 (73%, 95% interval 56% to 89%) were right."
)


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


def test_a_target_that_was_met_is_told_by_its_figure_on_test():
    assert MEASURED.statement == MEASURED.evidence == FIGURE
    assert MEASURED.suggest_from == 0.413
    single = replace(
        MEASURED, suggestions=1, right=1, precision=1.0, precision_low=0.025, precision_high=1.0, first=None
    )
    assert single.evidence == (
        "Of 1 such suggestions on this tracker's newest reports, 1 (100%, 95% interval 2% to 100%) was right."
    )


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("missed", "the backtest missed the target that 80% of the suggestions are right"),
        ("inconclusive", "the backtest could not show whether 80% of the suggestions are right"),
    ],
)
def test_otherwise_nothing_is_suggested_and_the_figure_stands_behind_the_reason(status, reason):
    result = replace(MEASURED, target_precision=0.8, status=status)
    assert result.suggest_from is None
    assert result.statement == f"Nothing is suggested automatically: {reason}. {FIGURE}"


def test_without_a_threshold_or_a_suggestion_there_is_no_figure():
    none = TargetResult(0.9, None, "no threshold", first="2017-03-01", last="2018-02-01")
    assert none.statement == (
        "Nothing is suggested automatically: the backtest found no threshold at which 90% of the suggestions are right."
    )
    quiet = TargetResult(0.9, 0.8, "inconclusive", first="2017-03-01", last="2018-02-01")
    assert quiet.statement.endswith(
        "are right. There were no such suggestions on this tracker's reports from 2017-03-01 to 2018-02-01."
    )


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
