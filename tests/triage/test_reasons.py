import math

from gedbd.retrieval.reports.candidate_features import FEATURES
from gedbd.triage.explanation import reasons

VALUES = dict.fromkeys(FEATURES, 0.0) | {
    "days": math.log1p(2),
    "same component": 1.0,
    "same product": 0.0,
    "title shared": 3.5,
    "group size": math.log(4),
}


def test_families_by_what_they_added():
    added = {"text z": 0.3, "dense behind": 0.2, "same component": 0.4, "days": 0.1, "identifiers shared": 0.8}
    found = reasons(added, VALUES, ["NullPointerException", "a.b.C", "x.py", "y.py"], 0)
    assert found == (
        "shared NullPointerException, a.b.C, x.py, ...",
        "similar text",
        "same component",
        "2 days apart",
    )


def test_what_is_no_fact_or_speaks_against_is_left_out():
    added = {"same product": 1.0, "errors shared": 1.0, "title z": -0.5, "same component": 1.0, "text z": 0.01}
    assert reasons(added, VALUES, [], 0) == ("same component",)


def test_error_lines_and_equal_titles_are_counted_and_named():
    values = VALUES | {"same title": 1.0, "days": math.nan}
    assert reasons({"errors shared": 1.0, "title": 0.5, "days": 0.4}, values, [], 2) == (
        "2 equal error lines",
        "same title",
    )


def test_only_an_open_report_is_called_so():
    added = {"open": 1.0, "same component": 0.5}
    for value, said in (
        (1.0, ("still open", "same component")),
        (0.0, ("same component",)),
        (math.nan, ("same component",)),
    ):
        assert reasons(added, VALUES | {"open": value}, [], 0) == said


def test_what_makes_no_reports_alike_is_no_reason_by_itself():
    added = {"open": 1.0, "days": 1.0, "group size": 1.0}
    assert reasons(added, VALUES | {"open": 1.0}, [], 0) == ()
    assert len(reasons(added | {"text z": 0.5}, VALUES | {"open": 1.0}, [], 0)) == 4


def test_days_are_worded():
    for days, said in ((0.2, "less than a day apart"), (1, "1 day apart"), (1500, "1,500 days apart")):
        added = {"days": 1.0, "same component": 0.5}
        assert reasons(added, VALUES | {"days": math.log1p(days)}, [], 0) == (said, "same component")
