"""Fixes by messages and tables, and the files that data sets name."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from gedbd.localization.repository.commits import Commit, FileChange
from gedbd.localization.repository.fixes import (
    DEFAULT_PATTERNS,
    HistoryPaths,
    MessageFixes,
    TableFixes,
)

IDS = ["12", "123", "CSV-12", "124", "2013", "1", "175"]
DAY = datetime(2020, 5, 1, tzinfo=UTC)


def commit(message, id_="a" * 40, parents=("b" * 40,), created_at=DAY):
    return Commit(id_, parents, created_at, message, (), False)


def finder(dates=None, **options):
    created_at = pd.Series(dates or [pd.NaT] * len(IDS), dtype="datetime64[us, UTC]")
    return MessageFixes(IDS, created_at, DEFAULT_PATTERNS, **options)


@pytest.mark.parametrize(
    ("message", "ids"),
    [
        ("CSV-12 Parse quotes", ["CSV-12"]),
        ("[csv-12] lower case", ["CSV-12"]),
        ("see https://issues.apache.org/jira/browse/CSV-12", ["CSV-12"]),
        ("CSV-123", []),
        ("XCSV-12 A-CSV-12 CSV-12.1 CSV-12-3", []),
        ("Bug #12: x", ["12"]),
        ("bugs 12, 123 and 124", ["12", "123", "124"]),
        ("PR 123, tests/bugs175/pr123", ["123"]),
        ("fixes #123.", ["123"]),
        ("Fixed #12, #123", ["12", "123"]),
        ("show_bug.cgi?id=123 and show_bug.cgi?x=1&id=12", ["12", "123"]),
        ("https://github.com/a/b/issues/12 https://github.com/a/b/pull/123#note", ["12", "123"]),
        ("https://gitlab.com/a/b/-/issues/12", ["12"]),
        ("bug 2013-12-01, bug 1.2, bug 12%, bug 1:30, bug 12a", []),
        ("a/b#123 &#123; debug 12 r123 123", []),
        ("bug 99", []),
    ],
)
def test_ids_are_found_where_they_are_whole(message, ids):
    fixes = finder()
    assert fixes.add(commit(message)) == bool(ids)
    rows = fixes.fixes().reports.get("a" * 40, [])
    assert sorted(IDS[row] for row in rows) == sorted(ids)


def test_reverts_merges_and_commits_before_the_report_are_counted_and_do_not_count():
    fixes = finder([DAY] * len(IDS))
    assert not fixes.add(commit('Revert "bug 12"'))
    assert not fixes.add(commit("Undo bug 12\n\nThis reverts commit 0123456789."))
    assert not fixes.add(commit("Merge bug 12", parents=("b", "c")))
    assert not fixes.add(commit("bug 12", created_at=DAY - timedelta(days=2)))
    assert fixes.add(commit("bug 12", created_at=DAY - timedelta(hours=20)))
    assert fixes.fixes().warnings == (
        "reverts whose message names a report: 2, not taken as fixes",
        "merges whose message names a report: 1, not taken as fixes",
        "commits made more than a day before the report whose message names a report: 1, not taken as fixes",
    )


def test_many_addresses_in_a_message_take_linear_time():
    message = "http://a/" * 10_000 + " https://github.com/a/b/issues/12"  # a minute where the time is quadratic
    fixes = finder()
    assert fixes.add(commit(message))
    assert fixes.fixes().reports == {"a" * 40: [0]}


def test_a_table_names_whole_and_abbreviated_commits():
    commits = ["abcd" + "0" * 36, "abce" + "1" * 36, "abce" + "2" * 36]
    rows = [("12", "ABCD0"), ("123", commits[1]), ("1", "abce"), ("12", "ffff"), ("9", commits[1]), ("1", "abc")]
    fixes = TableFixes(pd.DataFrame(rows, columns=["bug_id", "fix_commit"]), IDS)
    assert [fixes.add(commit("", id_=id_)) for id_ in commits] == [True, True, True]
    found = fixes.fixes()
    assert found.reports == {commits[0]: [0], commits[1]: [1]}
    assert found.warnings == (
        "fixes of the table that name an unknown report: 1, dropped",
        "fixes of the table that name several commits: 1, dropped",
        "fixes of the table that name a commit that the history lacks: 2, dropped",
    )


PATHS = (
    "weaver/src/org/demo/Shadow.java",
    "win32/org/demo/Button.java",
    "gtk/org/demo/Button.java",
    "Main.java",
    "docs/read.me.txt",
    "old/Name.java",
)
START = pd.Timestamp("2020-01-01", tz="UTC")


@pytest.fixture
def paths():
    """The last path is that of a file before it was renamed."""
    history = HistoryPaths()
    changes = [FileChange("M", path, path, False, False, (), False) for path in PATHS[:-1]]
    renamed = FileChange("R", "new/Name.java", PATHS[-1], False, False, (), False)
    history.add(Commit("a" * 40, (), START.to_pydatetime(), "", (*changes, renamed), False))
    return history


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (PATHS[0], [PATHS[0]]),
        ("./weaver\\src\\org\\demo\\Shadow.java", [PATHS[0]]),
        ("demo/Shadow.java", [PATHS[0]]),
        ("org.demo.Shadow.java", [PATHS[0]]),
        ("trunk/modules/weaver/src/org/demo/Shadow.java", [PATHS[0]]),
        ("org.demo.Button.java", [PATHS[2], PATHS[1]]),
        ("Shadow.java", [PATHS[0]]),
        ("any/Main.java", []),  # another file of the same name
        ("mo/Shadow.java", []),
        ("read.me.txt", ["docs/read.me.txt"]),
        ("org.demo.shadow.java", []),
        ("old/Name.java", ["old/Name.java"]),
        ("", []),
        ("a/" * 1_000_000 + "Main.java", []),
    ],
)
def test_names_lead_to_paths(paths, name, found):
    assert paths.find(name) == found
