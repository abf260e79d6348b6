"""What is read of the diff of a file."""

import pytest

from gedbd.localization.change_ranking.change_table import read_file_diff

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


def test_changed_lines_that_look_like_headers_are_lines():
    diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,1 @@\n--- a\n+++ /dev/null\n-@@ b"
    read = read_file_diff(diff, "x")
    assert read.edits.tolist() == [[0, 2, 1]]
    assert not read.is_deleted
    assert read.old_path == ""


def test_a_deleted_file():
    read = read_file_diff("diff --git a/x b/x\n--- a/x\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a", "x")
    assert read.is_deleted
    assert read.edits.tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("diff", ["", "diff --git a/x b/x", "diff --git a/x b/x\nBinary files a/x and b/x differ"])
def test_without_hunks(diff):
    read = read_file_diff(diff, "x")
    assert read.edits.shape == (0, 3)
    assert not read.has_hunks


def test_a_cut_hunk_ends_at_the_next_header():
    diff = "diff --git a/x b/x\n@@ -1,9 +1,9 @@\n-a\n@@ -20,1 +20,1 @@\n-b\n+c\n\\ No newline at end of file"
    assert read_file_diff(diff, "x").edits.tolist() == [[0, 1, 0], [19, 1, 1]]


def test_hostile_numbers():
    read = read_file_diff("@@ -999999999,999999999 +1,1 @@\n-a", "x")
    assert read.edits.tolist() == [[999999998, 1, 0]]
