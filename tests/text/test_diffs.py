"""Forms of a diff, and its names, added and removed lines and comments."""

import pytest

from gedbd.text.diffs import ChangeFields, change_fields, change_text

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


CUT = "@@ -1,9 +1,9 @@\n-a\ndiff --git a/B b/B\n--- a/B\n+++ b/B\n@@ -1 +1 @@\n-b\n+c"


ARC = ["[ADDED]", "++ nor this", "new", "young", "[REMOVED]", "--- not a header", "old", "[CONTEXT]", "keep", "end"]
ARCL = """\
[CONTEXT] keep
[REMOVED] --- not a header
[ADDED] ++ nor this
[ADDED] new
[CONTEXT] end
[REMOVED] old
[ADDED] young"""


@pytest.mark.parametrize(
    ("diff", "form", "text"),
    [
        (DIFF, "D", DIFF),
        (DIFF, "ARC", "\n".join(ARC)),
        (DIFF, "ARCL", ARCL),
        ("@@ -0,0 +1 @@\n+a", "ARC", "[ADDED]\na"),  # a group without lines has no mark
        (CUT, "ARC", "[ADDED]\nc\n[REMOVED]\na\nb"),  # a hunk that was cut ends where the next file begins
        # An empty context line may lack its blank, and the missing newline is not a line.
        ("@@ -1,2 +1,2 @@\n\n-a\n\\ No newline at end of file\n+b\n", "ARCL", "[CONTEXT] \n[REMOVED] a\n[ADDED] b"),
    ],
)
def test_the_forms_of_a_diff(diff, form, text):
    assert change_text(diff, form) == text
    with pytest.raises(ValueError, match="the form 'X' of change texts is unknown: choose D, ARC, ARCL"):
        change_text(diff, "X")


FIELDS_DIFF = """diff --git a/Foo.java b/Foo.java
--- a/Foo.java
+++ b/Foo.java
@@ -1,3 +1,6 @@ public class Outer { void inside(int x)
+class Foo extends Bar {
+    int size(List list) { // how many
+        if (x) {
 // kept (comment)
-    old(call);
+    /* added */
 context(a);"""


def test_fields():
    fields = change_fields(FIELDS_DIFF)
    # "int size(...) { // how many" ends with a brace before its comment.
    assert fields.names.split("\n") == ["Outer", "inside", "Foo", "size"]
    assert fields.added.split("\n") == ["class Foo extends Bar {", "int size(List list) {", "if (x) {"]
    assert fields.removed == "old(call);"
    assert fields.comments.split("\n") == ["how many", "// kept (comment)", "/* added */"]
    for nothing in ("", "diff --git a/x b/x\nBinary files a/x and b/x differ"):
        assert change_fields(nothing) == ChangeFields("", "", "", "")


@pytest.mark.parametrize("repeated", ["a(", "class ", "class  a", "(", "// ", "a", " ", "class a {", "@@ -1 +1 @@ a("])
def test_hostile_lines_take_time_in_proportion(repeated):
    line = repeated * (300_000 // len(repeated))
    # In quadratic time the test would not end.
    assert isinstance(change_fields(f"@@ -1,2 +1,2 @@ {line}\n+{line}{{\n-{line}:"), ChangeFields)
