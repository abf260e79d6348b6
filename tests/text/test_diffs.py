"""Forms of a diff, and its names, added and removed lines and comments."""

import pytest

from gedbd.text.diffs import ChangeFields, change_fields

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
