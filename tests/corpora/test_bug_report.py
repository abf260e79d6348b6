"""A report on its own, and its state."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pandas as pd
import pytest

from gedbd.corpora.bug_report import (
    FIELDS,
    MAX_DESCRIPTION_LENGTH,
    MAX_TITLE_LENGTH,
    NOT_ENCODED,
    Report,
    as_table,
    check_report,
    check_top_k,
    is_closed_as_duplicate,
    original_of,
    read_moment,
    report_from_row,
    state_of,
    state_phrase,
)
from gedbd.corpora.readers.bug_reports import BUG_FIELDS

FULL = Report(
    "a title", "what\nhappened", "12", datetime(2024, 2, 29, 23, 59, 1, 5, UTC), *["product", "component", "version"],
    os="linux", priority="P1", status="NEW", resolution="", attachments="a.png;b.png", url="https://b.org/12",
    resolved_at=datetime(2024, 3, 1, 12, tzinfo=UTC),
)  # fmt: skip


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (Report(), "neither a title nor a description"),
        (Report(" \n", "\t", "12"), "neither a title nor a description"),
        (Report("x" * (MAX_TITLE_LENGTH + 1)), "the title has 1,001 characters, more than 1,000: shorten it"),
        (Report("", "x" * (MAX_DESCRIPTION_LENGTH + 1)), "the description has 200,001 characters"),
        (Report("a", url="javascript:alert(1)"), r"url=javascript:alert\(1\) is not an http or https address"),
    ],
)
def test_bad_reports_are_told(report, message):
    with pytest.raises(ValueError, match=message):
        check_report(report)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-01-31", datetime(2024, 1, 31, tzinfo=UTC)),
        ("2024-01-31T09:30:00+01:00", datetime(2024, 1, 31, 8, 30, tzinfo=UTC)),
        ("2024-01-31 09:30", datetime(2024, 1, 31, 9, 30, tzinfo=UTC)),
        ("2024-01-31T09:30:00.25Z", datetime(2024, 1, 31, 9, 30, 0, 250_000, UTC)),
        (2024, datetime(2024, 1, 1, tzinfo=UTC)),
        (None, None),
    ],
)
def test_moments(text, moment):
    assert read_moment(text, "created_from") == moment


@pytest.mark.parametrize(
    "text", ["", "now", "today", "yesterday", "31.01.2024", "2024-02-30", "nan", "1700000000", "-1", True]
)
def test_what_is_no_moment(text):
    with pytest.raises(ValueError, match=rf"created_from={text} is not a date: write 2024-01-31 or"):
        read_moment(text, "created_from")


@pytest.mark.parametrize("top_k", [0, -1, 51, 2.5, "many", None])
def test_what_is_no_number_of_groups(top_k):
    with pytest.raises(ValueError, match=f"top_k={top_k} must be a whole number between 1 and 50"):
        check_top_k(top_k)


def test_the_hash_changes_with_every_field_that_is_encoded():
    hashes = {FULL.content_hash}
    for name in (name for name in FIELDS if name not in NOT_ENCODED):
        value = FULL.created_at + timedelta(microseconds=1) if name == "created_at" else getattr(FULL, name) + "x"
        hashes.add(replace(FULL, **{name: value}).content_hash)
    hashes |= {replace(FULL, created_at=None).content_hash, Report("", "ab").content_hash, Report("ab").content_hash}
    assert len(hashes) == len(FIELDS) + 2
    assert replace(FULL, url="", resolved_at=None).content_hash == FULL.content_hash
    # Stored feedback on a pasted text is found by this hash.
    assert Report("a", "b").content_hash == "d08c589c059bf4e752bf16aa72a8b2f6"
    assert Report("a\x1fb", "c").content_hash != Report("a", "b\x1fc").content_hash
    assert replace(FULL).content_hash == FULL.content_hash


def test_reports_survive_a_table():
    reports = [FULL, Report("only a title"), replace(FULL, created_at=datetime(1999, 1, 1, tzinfo=UTC))]
    table = as_table(reports)
    assert list(table.columns) == [*BUG_FIELDS, "resolved_at"]
    assert str(table["created_at"].dt.tz) == "UTC"
    assert [report_from_row(row) for row in table.itertuples(index=False)] == reports
    assert as_table([Report("a")])[["created_at", "resolved_at"]].isna().all(axis=None)
    bare = table.drop(columns="resolved_at")  # of a tracker that gives no such date
    open_reports = [replace(one, resolved_at=None) for one in reports]
    assert [report_from_row(row) for row in bare.itertuples(index=False)] == open_reports
    elsewhere = replace(FULL, created_at=FULL.created_at.astimezone(timezone(timedelta(hours=2))))
    naive = replace(FULL, created_at=FULL.created_at.replace(tzinfo=None))
    assert (as_table([FULL, elsewhere, naive])["created_at"] == pd.Timestamp(FULL.created_at)).all()


def test_halves_of_characters_become_question_marks():
    report = Report("half \ud800 of", "\udfff", issue_id="\ud83d", component="\U0001f600 é")
    assert (report.title, report.description, report.issue_id) == ("half ? of", "?", "?")
    assert report.component == "\U0001f600 é"
    assert replace(report, title="\ud800").title == "?"
    as_table([report])


def tracked(number, status="open", resolution="", day=None):
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
    assert state_of(tracked(1, status, resolution, day)) == state
    assert state_phrase(tracked(1, status, resolution, day)) == phrase


def test_the_original_of_a_chain_is_its_end():
    """1 is closed as a duplicate of 2, and 2 as one of 3."""
    chain = [tracked(1, "closed", "duplicate"), tracked(2, "RESOLVED", "DUPLICATE"), tracked(3), tracked(4)]
    assert [is_closed_as_duplicate(one) for one in chain] == [True, True, False, False]
    assert original_of(chain).issue_id == "3"
    assert original_of(chain, {"3"}).issue_id == "4"


def test_a_circle_has_no_original_unless_one_report_is_open():
    circle = [tracked(1, "closed", "duplicate"), tracked(2, "closed", "duplicate")]
    assert original_of(circle) is None
    assert original_of([*circle, tracked(3)], {"1", "2", "3"}).issue_id == "3"
    assert original_of([tracked(1), tracked(2)], {"1", "2"}).issue_id == "1"
    assert original_of([]) is None
