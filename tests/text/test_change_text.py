import pytest

from gedbd.text.change_text import change_text

DIFF = """\
diff --git a/A.java b/A.java
--- a/A.java
+++ b/A.java
@@ -3,3 +3,4 @@ class A {
 keep
---- not a header
+++ nor this
+new
 end
diff --git a/B.java b/B.java
--- a/B.java
+++ b/B.java
@@ -1 +1 @@
-old
+young
"""


def test_d_is_the_diff_itself():
    assert change_text(DIFF, "D") == DIFF


def test_arc_gathers_added_removed_and_context_lines():
    gathered = ["[ADDED]", "++ nor this", "new", "young", "[REMOVED]", "--- not a header", "old"]
    assert change_text(DIFF, "ARC").split("\n") == [*gathered, "[CONTEXT]", "keep", "end"]


def test_arcl_marks_each_line():
    assert change_text(DIFF, "ARCL").split("\n") == [
        "[CONTEXT] keep",
        "[REMOVED] --- not a header",
        "[ADDED] ++ nor this",
        "[ADDED] new",
        "[CONTEXT] end",
        "[REMOVED] old",
        "[ADDED] young",
    ]


def test_a_group_without_lines_has_no_mark():
    assert change_text("@@ -0,0 +1 @@\n+a", "ARC") == "[ADDED]\na"


def test_a_hunk_that_was_cut_ends_where_the_next_file_begins():
    cut = "@@ -1,9 +1,9 @@\n-a\ndiff --git a/B b/B\n--- a/B\n+++ b/B\n@@ -1 +1 @@\n-b\n+c"
    assert change_text(cut, "ARC") == "[ADDED]\nc\n[REMOVED]\na\nb"


def test_an_empty_context_line_may_lack_its_blank_and_the_missing_newline_is_not_a_line():
    assert change_text("@@ -1,2 +1,2 @@\n\n-a\n\\ No newline at end of file\n+b\n", "ARCL") == (
        "[CONTEXT] \n[REMOVED] a\n[ADDED] b"
    )


def test_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match="the form 'X' of change texts is unknown: choose D, ARC, ARCL"):
        change_text(DIFF, "X")
