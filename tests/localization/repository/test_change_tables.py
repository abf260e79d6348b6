from datetime import UTC, datetime

import pytest

from gedbd.localization.repository.commits import Commit, FileChange, Hunk, change_tables

FIRST = Hunk(1, 1, 1, 2, "class A", (" a", "+b"))
SECOND = Hunk(9, 2, 10, 1, "", ("-c", " d"))


def change(path, status="M", hunks=(), is_cut=False, is_binary=False):
    return FileChange(status, path, "" if status == "A" else path, is_binary, False, tuple(hunks), is_cut)


def commit(id_, day, message="", files=(), parents=("p",), is_cut=False):
    return Commit(id_, parents, datetime(2020, 1, day, tzinfo=UTC), message, tuple(files), is_cut)


COMMITS = [
    commit("r", 2, "Begin\n\nAll of it.\n", [change("x y", "A", [FIRST])], parents=()),
    commit("s", 5, "Later", [change("B", "M", [FIRST, SECOND]), change("A", "D", [SECOND])]),
    commit("t", 3, "", [change("i.png", is_binary=True), change("C", is_cut=True)], ("r", "s"), is_cut=True),
    commit("u", 3, "Same day", [change("C", "M", [SECOND])]),
]


@pytest.fixture(scope="module")
def tables():
    return change_tables("demo", COMMITS, 1000)


def test_commits_are_in_chronological_order_and_ties_as_given(tables):
    table = tables.commits.table
    assert table["id"].tolist() == ["r", "t", "u", "s"]
    assert table["commit"].tolist() == [0, 1, 2, 3]
    assert table[["title", "description"]].iloc[0].tolist() == ["Begin", "All of it."]
    assert table["is_merge"].tolist() == [False, True, False, False]
    assert table["parents"].tolist() == ["", "r s", "p", "p"]
    assert table["num_files"].tolist() == [1, 2, 1, 2]
    assert table["added_lines"].tolist() == [1, 0, 0, 1]
    assert table["removed_lines"].tolist() == [0, 0, 1, 2]
    assert table["paths"].tolist() == ["x y", "i.png\nC", "C", "B\nA"]


def test_files_and_hunks_follow_their_commits(tables):
    files = tables.files.table
    hunks = tables.hunks.table
    assert files["id"].tolist() == ["r:x y", "t:i.png", "t:C", "u:C", "s:B", "s:A"]
    assert files["commit"].tolist() == [0, 1, 1, 2, 3, 3]
    assert hunks["id"].tolist() == ["r:x y:1", "u:C:1", "s:B:1", "s:B:2", "s:A:1"]
    assert hunks["commit"].tolist() == [0, 2, 3, 3, 3]
    assert hunks["file"].tolist() == [0, 3, 4, 4, 5]
    assert hunks["new_start"].tolist() == [1, 10, 1, 10, 10]
    assert str(hunks["created_at"].dtype).endswith("UTC]")


def test_diffs_are_written_as_unified_diffs(tables):
    first = "diff --git a/x y b/x y\n--- /dev/null\n+++ b/x y\n@@ -1,1 +1,2 @@ class A\n a\n+b"
    removed = "diff --git a/A b/A\n--- a/A\n+++ /dev/null\n@@ -9,2 +10,1 @@\n-c\n d"
    assert tables.commits.table["diff"][0] == first
    assert tables.commits.table["diff"][3].endswith(f"@@ -9,2 +10,1 @@\n-c\n d\n{removed}")
    assert tables.files.table["diff"][1] == "diff --git a/i.png b/i.png\nBinary files a/i.png and b/i.png differ"
    assert tables.hunks.table["diff"][0] == "@@ -1,1 +1,2 @@ class A\n a\n+b"


def test_long_diffs_and_messages_are_cut_and_counted():
    cut = change_tables("demo", COMMITS, 30)
    assert {len(diff) for diff in cut.commits.table["diff"]} == {30}
    assert cut.warnings[-3:] == (
        "commits with a diff of more than 30 characters, cut there: 4",
        "commits with files or lines left out: 1",
        "files without a diff, as the commit was cut before them: 1",
    )
    long = change_tables("demo", [commit("v", 1, f"Title\n{'x' * 20_000}", [change("A", "M", [FIRST])])], 1000)
    assert [len(table.table["description"][0]) for table in long[:3]] == [20_000, 10_000, 10_000]
    assert long.warnings == ("commits whose files repeat only 10,000 characters of a long message: 1",)


def test_a_path_that_occurs_twice_is_one_file():
    twice = commit("v", 1, "", [change("A", "D", [SECOND]), change("A", "A", [FIRST])])
    joined = change_tables("demo", [twice], 1000)
    assert joined.files.ids.tolist() == ["v:A"]
    assert joined.hunks.ids.tolist() == ["v:A:1", "v:A:2"]
