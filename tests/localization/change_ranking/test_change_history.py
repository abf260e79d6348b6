"""Commits as they are ranked: diffs of files, storage, and whose lines a file consists of."""

import numpy as np
import pandas as pd
from small_history import DAY, START, added, changed, commit, history_of, hunk, made_commits, tables

from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.change_table import ASSUMED_LINES, MAX_LINES, FileLines, read_file_diff
from gedbd.localization.change_ranking.query_features import query_features

DIFF = """diff --git a/src/Old.java b/src/New.java
--- a/src/Old.java
+++ b/src/New.java
@@ -4,3 +4,2 @@ class Old {
 kept
-first gone
-second gone
+one new
@@ -10,0 +10,2 @@
+two
+three"""
QUERY = ChangeQuery("Router drops routerValue13", "in net.Filter and handleSocket", START + DAY * 26.5)


def test_edits_are_places_in_the_old_file():
    read = read_file_diff(DIFF, "src/New.java")
    # Lines 5 and 6 become one line; two lines are added behind line 10.
    assert read.edits.tolist() == [[4, 2, 1], [10, 0, 2]]
    assert read.added == "one new\ntwo\nthree"
    assert read.removed.split("\n") == ["first gone", "second gone"]
    assert read.unchanged.split("\n") == ["class Old {", "kept", ""]
    assert read.old_path == "src/Old.java"
    assert read.has_hunks
    assert not read.is_deleted


def test_lines_of_a_diff_are_told_from_its_headers():
    diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,1 @@\n--- a\n+++ /dev/null\n-@@ b"
    read = read_file_diff(diff, "x")
    assert read.edits.tolist() == [[0, 2, 1]]
    assert not read.is_deleted
    assert read.old_path == ""
    diff = "diff --git a/x b/x\n@@ -1,9 +1,9 @@\n-a\n@@ -20,1 +20,1 @@\n-b\n+c\n\\ No newline at end of file"
    assert read_file_diff(diff, "x").edits.tolist() == [[0, 1, 0], [19, 1, 1]]


def check_same(first: ChangeHistory, second: ChangeHistory) -> None:
    """To the bit, whatever numbers words have."""
    assert first.ids == second.ids
    np.testing.assert_array_equal(first.created_at, second.created_at)
    assert first.table.paths == second.table.paths
    one, other = query_features(first, QUERY), query_features(second, QUERY)
    np.testing.assert_array_equal(one.files.features, other.files.features)
    for name, values in one.scores.items():
        np.testing.assert_array_equal(values, other.scores[name], err_msg=name)
    for name in one.links._fields:
        np.testing.assert_array_equal(getattr(one.links, name), getattr(other.links, name))


def test_commits_added_in_pieces_of_any_date():
    commits = made_commits(30)
    pieces = [commits[:7], commits[7:20], commits[20:]]
    history = ChangeHistory()
    for piece in (2, 0, 1):
        built = tables(pieces[piece])
        history.add(built.commits.table, built.files.table)
        assert history.table.path_words is not None  # made for the state so far
    check_same(history, history_of(commits))


def test_without_some_commits():
    commits = made_commits(30)
    gone = {commits[3].id, commits[17].id, commits[29].id}
    whole = history_of(commits)
    check_same(whole.without(gone), history_of([one for one in commits if one.id not in gone]))
    assert len(whole) == 30
    assert len(whole.without(set(whole.ids))) == 0


def test_arrays(tmp_path):
    history = history_of(made_commits(30))
    np.savez(tmp_path / "history.npz", **history.arrays())
    with np.load(tmp_path / "history.npz", allow_pickle=False) as stored:
        check_same(ChangeHistory.of_arrays(dict(stored)), history)
    empty = ChangeHistory.of_arrays(ChangeHistory().arrays())
    assert len(empty) == 0
    built = tables(made_commits(3))
    empty.add(built.commits.table, built.files.table)
    assert len(empty) == 3


def test_before():
    history = history_of(made_commits(5))
    assert history.num_before(START + DAY * 2) == 2  # that of the same moment is not before
    assert history.num_before(START + DAY * 2 + pd.Timedelta(seconds=1)) == 3
    assert history.num_before((START + DAY * 2.01).tz_convert("Asia/Tokyo")) == 3
    assert history.num_before((START + DAY * 2).tz_localize(None)) == 2
    assert history.num_before(None) == 5
    numbers = history.vocabulary([["socket", "unheard"]], learn=False)[0]
    assert history.table.frequency(numbers, 5).tolist() == [1, 0]
    assert history.table.frequency(numbers, 4).tolist() == [0, 0]


def change(number: int, *edits: tuple[int, int, int], deleted: bool = False, shown: bool = True) -> tuple:
    return number, np.array(edits, dtype=np.int32).reshape(-1, 3), deleted, shown


def test_by_hand():
    lines = FileLines()
    lines.apply(*change(3, (0, 0, 4)))
    lines.apply(*change(5, (1, 1, 2), (3, 0, 1)))
    assert lines.lines.tolist() == [3, 5, 5, 3, 5, 3]
    commits, counts, total = lines.owners
    assert (commits.tolist(), counts.tolist(), total) == ([3, 5], [3, 3], 6)
    lines.apply(*change(6, deleted=True))
    assert lines.owners.total == 0


def test_lines_that_no_diff_shows():
    cut = FileLines()
    cut.apply(*change(2, shown=False))
    assert cut.lines.tolist() == [2] * ASSUMED_LINES
    cut.apply(*change(4, (ASSUMED_LINES + 1, 1, 1)))  # the file was longer than assumed
    assert cut.lines.tolist() == [2] * (ASSUMED_LINES + 1) + [4]
    older = FileLines()
    older.apply(*change(4, (2, 1, 1)))  # the file is older than the history
    commits, counts, total = older.owners
    assert (commits.tolist(), counts.tolist(), total) == ([4], [1], 3)


def test_hostile_places_need_no_memory():
    lines = FileLines()
    lines.apply(*change(0, (999_999_998, 1, 1)))
    lines.apply(*change(1, (5, 1, 1), (2, 1, 1)))
    assert len(lines.lines) <= MAX_LINES


def test_as_if_the_diffs_were_applied_to_texts():
    rng = np.random.default_rng(0)
    texts: list[int] = []
    lines = FileLines()
    for number in range(40):
        edits = []
        place = 0
        result: list[int] = []
        end = 0
        while place <= len(texts) and len(edits) < 3:
            place += int(rng.integers(0, 4))
            removed = int(rng.integers(0, 3))
            if place + removed > len(texts):
                break
            new = int(rng.integers(0, 4))
            edits.append((place, removed, new))
            result += texts[end:place] + [number] * new
            end = place + removed
            place = end + 1
        texts = result + texts[end:]
        lines.apply(*change(number, *edits))
        assert lines.lines.tolist() == texts


def test_lines_follow_a_renaming_and_a_deleted_file_has_none():
    first = changed("a.java", hunk(0, added("one", "two", "three")), status="A")
    renamed = changed("b.java", hunk(2, ["-two", "+second"]), status="R", old_path="a.java")
    gone = changed("b.java", hunk(1, ["-one", "-second", "-three"]), status="D")
    commits = [commit(1, "add", first), commit(2, "rename", renamed), commit(3, "remove", gone)]
    history = history_of(commits)
    paths = history.table.paths
    path = paths.index("b.java")
    renamed_lines = history.table.owners(path, 1)
    assert history.table.owners(path, 2).total == 0
    for again in (renamed_lines, history.table.owners(path, 1)):  # the second one begins at the first change
        assert dict(zip(again.commits.tolist(), again.lines.tolist(), strict=True)) == {0: 2, 1: 1}
    # Going on from what is known is the same as beginning at the start.
    assert history_of(commits).table.owners(path, 2).total == 0
