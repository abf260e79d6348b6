"""A small repository with a bug, a rename of its file, and fixes; the expectations are made by hand."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from git_repository import write_history
from small_history import linked

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.statistics import describe_changes
from gedbd.localization.readers.git import read_git

OLD = [
    "/** Adds",
    " *  numbers. */",
    "class Sum {",
    "    int low = 1;",
    *(f"    int field{number};" for number in range(12)),
    "    int high() {",
    "        return 10;",
    "    }",
    "    // the end",
    "}",
]
BUG = [line.replace("low = 1", "low = 0").replace("return 10", "return 9") for line in OLD]  # lines 4 and 18
LATE = [line.replace("field11", "field12") for line in BUG]  # line 16
FIXED = [
    line.replace("numbers", "integers")  # a comment
    .replace("return 9", "return 10")  # the code of line 18
    .replace("field12", "field11")  # the code of line 16
    .replace("    int high", "  int  high")  # formatting
    for line in LATE
]
LONGER = [*FIXED[:-1], "    int extra;", FIXED[-1]]
NEW_COMMENT = [line.replace("the end", "done") for line in LONGER]

# Message, day of 2020, and the content of files; None deletes a file.
HISTORY = [
    ("Begin", "01-01", {"Sum.java": OLD, "notes.txt": ["one"]}),
    ("Change numbers", "01-10", {"Sum.java": BUG}),
    ("Move the class", "01-20", {"Sum.java": None, "src/Sum.java": BUG}),
    ("After the report", "02-10", {"src/Sum.java": LATE}),
    ("Fix bug 7", "03-01", {"src/Sum.java": FIXED, "notes.txt": ["two"]}),
    ("Fix bug 8", "03-02", {"src/Sum.java": LONGER}),
    ("Fix #9", "03-03", {"notes.txt": ["three"]}),
    ("Bug 10: words", "03-04", {"src/Sum.java": NEW_COMMENT}),
    ('Revert "Bug 10: words"', "03-05", {"src/Sum.java": LONGER}),
]
ADDED, REASONS = "only additions", ("no source file", "only comments, blank lines and formatting removed")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "sums.git"
    write_history(folder, HISTORY)
    return str(folder)


@pytest.fixture(scope="module")
def reports():
    """Report 7 is made between the bug and the later change, report 10 has no date."""
    dates = pd.Series([datetime(2020, 2, 1, tzinfo=UTC)] * 3 + [pd.NaT])
    table = pd.DataFrame({"id": ["7", "8", "9", "10"], "created_at": dates, "title": "", "description": ""})
    return Corpus.of_table("bugs", table, np.arange(4))


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def corpus(repository, reports, cache_dir):
    return read_git(repository, reports=reports, suffixes=[".java"], cache_dir=str(cache_dir))


def test_the_history_becomes_tables_and_its_messages_and_removed_code_become_links(corpus):
    assert corpus.name == "sums"
    assert corpus.commits.table["title"].tolist() == [message for message, *_ in HISTORY]
    assert corpus.files.table["paths"].iloc[:4].tolist() == ["Sum.java", "notes.txt", "Sum.java", "src/Sum.java"]
    assert describe_changes(corpus)["hunks"] == len(corpus.hunks)
    assert corpus.fixing.pairs.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert set(corpus.fixing.table["source"]) == {"message"}
    assert "reverts whose message names a report: 1, not taken as fixes" in corpus.warnings
    bug = corpus.commits.ids[1]
    assert linked(corpus.inducing["commit"], corpus.commits) == [(0, bug)]
    assert linked(corpus.inducing["file"], corpus.files) == [(0, f"{bug}:Sum.java")]
    assert linked(corpus.inducing["hunk"], corpus.hunks) == [(0, f"{bug}:Sum.java:2")]
    assert corpus.inducing["commit"].table["made_at"][0] == corpus.commits.table["created_at"][4]
    for reason in (ADDED, *REASONS):
        assert f"fixes without inducing commits, {reason}: 1" in corpus.warnings


def test_commits_after_the_report_do_not_count(repository, reports):
    early = reports.reports.assign(created_at=datetime(2020, 1, 5, tzinfo=UTC))
    corpus = read_git(repository, reports=Corpus.of_table("bugs", early, np.arange(4)), suffixes=[".java"])
    assert not len(corpus.inducing["commit"])
    told = "fixes without inducing commits, all of the removed code newer than the report, or part of another fix of it"
    assert f"{told}: 1" in corpus.warnings


def test_undated_reports_take_all_commits_before_the_fix_and_all_text_files_count_without_suffixes(repository, reports):
    undated = reports.reports.assign(created_at=pd.Series([pd.NaT] * 4, dtype="datetime64[us, UTC]"))
    corpus = read_git(repository, reports=Corpus.of_table("bugs", undated, np.arange(4)), suffixes=None)
    commits = corpus.commits.ids
    # notes.txt: report 7 replaced "one" of the first commit, report 9 "two" of the first fix.
    expected = [(0, commits[0]), (0, commits[1]), (0, commits[3]), (2, commits[4])]
    assert linked(corpus.inducing["commit"], corpus.commits) == expected


def test_blamed_lines_come_from_the_cache(repository, reports, corpus, cache_dir, monkeypatch):
    options = {"reports": reports, "suffixes": [".java"], "cache_dir": str(cache_dir)}
    monkeypatch.setattr("gedbd.localization.repository.inducing.trace_fix", None)  # a call would fail
    assert read_git(repository, **options).fingerprint == corpus.fingerprint


def test_without_reports_there_are_changes_alone(repository):
    alone = read_git(repository)
    assert alone.reports is None
    assert alone.fixing is None
    assert alone.inducing == {}
    assert "reports" not in describe_changes(alone)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fixes": "only.csv"}, "none of its rows names a report and a commit"),
        ({"fixes": "wrong.csv"}, "row 1: there is neither a column 'fix_commit' nor 'path'"),
        ({"revision": "other"}, "revision other is not a commit"),
        ({"reports": None, "fixes": "only.csv"}, "there are fixes but no reports"),
    ],
)
def test_mistakes_are_one_line(repository, reports, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "only.csv").write_text("bug_id,fix_commit\n7,ffffffff\n")
    (tmp_path / "wrong.csv").write_text("bug_id,commit\n7,ffffffff\n")
    with pytest.raises(ValueError, match=message) as raised:
        read_git(repository, **{"reports": reports} | options)
    assert "\n" not in str(raised.value)
