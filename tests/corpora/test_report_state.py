from datetime import UTC, datetime

import pytest

from gedbd.corpora.bug_report import Report, is_closed_as_duplicate, original_of, state_of, state_phrase


def report(number, status="open", resolution="", day=None):
    moment = None if day is None else datetime(2024, 1, day, tzinfo=UTC)
    return Report("a", issue_id=str(number), status=status, resolution=resolution, resolved_at=moment)


@pytest.mark.parametrize(
    ("status", "resolution", "day", "state", "phrase"),
    [
        ("NEW", "", None, "open", "open"),
        ("open", "---", None, "open", "open"),
        ("", "", None, "unknown", ""),
        ("RESOLVED", "FIXED", 3, "fixed", "fixed on 2024-01-03"),
        ("closed", "completed", 3, "fixed", "fixed on 2024-01-03"),
        ("closed", "not_planned", 3, "closed", "closed as not planned on 2024-01-03"),
        ("Done", "", None, "closed", "closed"),
        ("", "", 3, "closed", "closed on 2024-01-03"),
        ("VERIFIED", "WONTFIX", None, "closed", "closed as wontfix"),
        ("REOPENED", "---", 3, "open", "open"),
        ("REOPENED", "FIXED", 3, "fixed", "fixed on 2024-01-03"),
        ("closed", "x" * 99, None, "closed", f"closed as {'x' * 40}"),
    ],
)
def test_the_state_of_a_report(status, resolution, day, state, phrase):
    assert state_of(report(1, status, resolution, day)) == state
    assert state_phrase(report(1, status, resolution, day)) == phrase


def test_the_original_of_a_chain_is_its_end():
    """1 is closed as a duplicate of 2, and 2 as one of 3."""
    chain = [report(1, "closed", "duplicate"), report(2, "RESOLVED", "DUPLICATE"), report(3), report(4)]
    assert [is_closed_as_duplicate(one) for one in chain] == [True, True, False, False]
    assert original_of(chain).issue_id == "3"
    assert original_of(chain, {"3"}).issue_id == "4"


def test_a_circle_has_no_original_unless_one_report_is_open():
    circle = [report(1, "closed", "duplicate"), report(2, "closed", "duplicate")]
    assert original_of(circle) is None
    assert original_of([*circle, report(3)], {"1", "2", "3"}).issue_id == "3"
    assert original_of([report(1), report(2)], {"1", "2"}).issue_id == "1"
    assert original_of([]) is None
