import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.corpus import FIX_COLUMNS, Documents, FixedReports
from gedbd.corpora.relevance import Groups
from gedbd.localization.repository.commits import Commit, FileChange
from gedbd.localization.repository.fixes import Fixes, HistoryPaths, date_by_base_commit, find_fixed_paths

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
        ("Main.java", ["Main.java"]),
        ("any/Main.java", []),  # another file of the same name
        ("mo/Shadow.java", []),
        ("read.me.txt", ["docs/read.me.txt"]),
        ("org.demo.shadow.java", []),
        ("old/Name.java", ["old/Name.java"]),
        ("new/Name.java", ["new/Name.java"]),
        ("", []),
        ("a/" * 1_000_000 + "Main.java", []),
    ],
)
def test_names_lead_to_paths(paths, name, found):
    assert paths.find(name) == found


def test_files_count_for_reports_without_a_commit(paths):
    rows = [
        ("1", "Main.java"),
        ("2", "org.demo.Button.java"),
        ("2", "Gone.java"),
        ("3", "a/b.c"),
        ("4", ""),
        ("9", "x"),
    ]
    table = pd.DataFrame(rows, columns=["bug_id", "path"])
    fixed, warnings = find_fixed_paths(table, ["1", "2", "3", "4"], Fixes({"a" * 40: [0]}, ()), paths)
    assert fixed == {1: (PATHS[2], PATHS[1])}
    assert sorted(warnings) == [
        "fixed files that the history lacks, dropped: 2",
        "names of fixed files that fit several files of the history, of which all count: 1",
        "reports whose fix names no file of the history: 1",
    ]
    assert find_fixed_paths(None, [], Fixes({}, ()), paths) == (None, ())
    assert find_fixed_paths(table.assign(path=""), ["1"], Fixes({}, ()), paths) == (None, ())


def test_reports_move_to_the_second_behind_their_base_commit():
    ids = ["1", "2", "3", "4"]
    table = pd.DataFrame({"id": ids, "created_at": START + pd.to_timedelta(range(4), unit="D")})
    fixes = pd.DataFrame({"bug_id": ids, "base_commit": ["cccc", "aaaa", "ffff", ""]})
    fixes = fixes.reindex(columns=list(FIX_COLUMNS), fill_value="")
    reports = FixedReports(Documents("demo", table), Groups(np.arange(4)), fixes=fixes)
    dates = START + pd.to_timedelta([-9, -1], unit="D")
    commits = pd.DataFrame({"id": ["aaaa" + "0" * 36, "cccc" + "0" * 36], "created_at": dates})
    dated, new_rows, warnings = date_by_base_commit(reports, commits)
    assert dated.reports["id"].tolist() == ["2", "1", "4"]
    second = pd.Timedelta(seconds=1)
    assert dated.reports["created_at"].tolist() == [dates[0] + second, dates[1] + second, table["created_at"][3]]
    assert new_rows.tolist() == [1, 0, -1, 2]
    assert dated.group.tolist() == [0, 1, 2]
    assert warnings == ("reports whose base commit is not in the history: 1, left out",)
    assert Fixes({"a": [0, 2], "b": [2], "c": [1]}, ()).renumbered(new_rows).reports == {"a": [1], "c": [0]}
