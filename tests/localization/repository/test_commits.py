import json
import lzma
from pathlib import Path

import pytest

from gedbd.localization.repository.commits import NO_LIMITS, FileChange, Hunk, parse_patch

DATA = Path(__file__).parents[4] / "shared" / "data" / "localization"


def parse(text, limits=NO_LIMITS):
    return parse_patch(text.split("\n"), limits)


def test_a_modified_file_has_its_hunks_with_numbers_section_and_lines():
    text = """diff --git a/src/A.java b/src/A.java
index 1111111..2222222 100644
--- a/src/A.java
+++ b/src/A.java
@@ -3,2 +3,3 @@ class A {
 int a;
-int b;
+int c;
+int d;
@@ -9 +11,0 @@
-gone
\\ No newline at end of file"""
    first = Hunk(3, 2, 3, 3, "class A {", (" int a;", "-int b;", "+int c;", "+int d;"))
    hunks = (first, Hunk(9, 1, 11, 0, "", ("-gone",)))
    assert parse(text) == [FileChange("M", "src/A.java", "src/A.java", False, False, hunks, False)]


def test_copies_and_names_that_git_quotes_or_that_contain_spaces():
    text = r"""diff --git a/two words b/two words
new file mode 100644
--- /dev/null
+++ b/two words{tab}
@@ -0,0 +1 @@
+x
diff --git "a/tab\tquote\"\303\274" "b/tab\tquote\"\303\274"
deleted file mode 100644
diff --git "a/line\nend" b/plain name
similarity index 90%
rename from "line\nend"
rename to plain name
diff --git a/from b/to
similarity index 100%
copy from from
copy to to
diff --git a/a b/a b/a b/a
old mode 100644
new mode 100755"""
    text = text.replace("{tab}", "\t")  # which Git puts behind a name with spaces
    found = [(file.status, file.path, file.old_path) for file in parse(text)]
    expected = [("A", "two words", ""), ("D", 'tab\tquote"ü', 'tab\tquote"ü'), ("R", "plain name", "line\nend")]
    assert found == [*expected, ("C", "to", "from"), ("M", "a b/a", "a b/a")]


def test_a_diff_can_be_cut_at_any_character():
    text = "\ndiff --git a/x.c b/x.c\n+++ b/x.c\n@@ -1,2 +1,2 @@ f()\n-a\n+b\n c\n"
    text += "diff --git a/y.c b/y.c\n@@ -5 +5 @@\n-d\n+e"
    for end in range(len(text)):
        files = parse(text[:end])
        assert len(files) == text.count("\ndiff --git ", 0, end)
        if files and text[:end].endswith(("@@ -1,2 +1", "-a\n+b", "@@ -5 +5 @@\n-d")):
            assert files[-1].is_cut
    assert not any(file.is_cut for file in parse(text))
    assert parse("hello\n@@ -1 +1 @@\n-x") == []  # no diff


def test_a_line_without_a_prefix_flags_its_file_and_hides_no_other():
    text = "diff --git a/x b/x\n@@ -0,0 +1,2 @@\n+a\n<email>\ndiff --git a/y b/y\n@@ -0,0 +1 @@\n+b"
    first, second = parse(text)
    assert first.is_cut
    assert first.hunks == (Hunk(0, 0, 1, 2, "", ("+a",)),)
    assert not second.is_cut


def test_limits_cut_lines_files_and_commits_and_flag_what_they_cut():
    text = "diff --git a/x b/x\n@@ -0,0 +1,3 @@\n+abcdef\n+b\n+c\n"
    text += "diff --git a/y b/y\n@@ -0,0 +1 @@\n+d\ndiff --git a/z b/z"
    limits = NO_LIMITS._replace(max_line_chars=4)
    assert [file.is_cut for file in parse(text, limits)] == [True, False, False]
    assert parse(text, limits)[0].hunks[0].lines == ("+abc", "+b", "+c")
    assert parse(text, NO_LIMITS._replace(max_file_chars=8))[0].hunks[0].lines == ("+abcdef",)
    first, second, third = parse(text, NO_LIMITS._replace(max_commit_chars=11))
    assert [first.is_cut, second.is_cut, third.is_cut] == [False, True, False]
    assert second.hunks == ()
    assert [file.path for file in parse(text, NO_LIMITS._replace(max_files=2))] == ["x", "y"]


@pytest.mark.slow
@pytest.mark.parametrize(("project", "files", "hunks"), [("aspectj", 13_128, 28_291), ("tomcat", 17_843, 45_362)])
def test_every_diff_of_the_localization_data(project, files, hunks):
    path = DATA / project / "changesets.jsonl.xz"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        diffs = [json.loads(line)["diff"] for line in lines]
    found = [file for diff in diffs for file in parse(diff)]
    # Counted independently: lines that begin with "diff --git" and "@@".
    assert len(found) == files
    assert sum(len(file.hunks) for file in found) == hunks
