"""Inputs of the encoders: graphs of changes, and texts of reports and changes."""

import numpy as np
import pytest

from gedbd.encoders.loaded_encoder import load_tiny_encoder
from gedbd.localization.code_encoder.code_inputs import InputLimits
from gedbd.localization.flow_graph.node_types import TALK_RULES
from gedbd.localization.training.change_inputs import read_change, text_side

HUNK = """@@ -3,4 +3,5 @@ class Sum {
 int total = 0;
-total = total + removed;
+int limit = total + 1;
+if (limit > total) {
+    total = limit;
+}
 return total;
\\ No newline at end of file"""
SECOND = "@@ -20,1 +21,1 @@\n-int gone = 1;\n+int here = 2;"
REMOVAL = "@@ -20,1 +21,0 @@\n-int gone = 1;"
SIZES = {"dim": 8, "max_tokens": 32, "hidden": 16, "layers": 1, "dropout": 0.0, "seed": 0}


def names_at(read):
    """What the text says at the place of each variable."""
    pairs = zip(read.graph.names, read.graph.spans.tolist(), strict=True)
    return [(name, read.text[start:end]) for name, (start, end) in pairs if name]


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
    assert read_change(diff, form, 5000, False, None).text == text
    with pytest.raises(ValueError, match="the form 'X' of change texts is unknown: choose D, ARC, ARCL"):
        read_change(diff, "X", 5000, False, None)


@pytest.mark.parametrize("form", ["D", "ARC", "ARCL"])
@pytest.mark.parametrize("head", ["", "diff --git a/A.java b/A.java\n--- a/A.java\n+++ b/A.java\n"])
def test_variables_are_where_the_text_says(form, head):
    read = read_change(head + HUNK + "\n" + SECOND, form, 5000, True, TALK_RULES)
    found = names_at(read)
    assert {name for name, _ in found} == {"total", "limit", "here"}
    assert all(name == text for name, text in found), found
    assert (np.diff(read.graph.spans[:, 0]) >= 0).all()


def test_edges_stay_between_the_same_nodes():
    alone = read_change(SECOND, "ARCL", 5000, True, TALK_RULES).graph
    both = read_change(HUNK + "\n" + SECOND, "ARC", 5000, True, TALK_RULES)
    first = read_change(HUNK, "ARC", 5000, True, TALK_RULES)
    named = [
        {tuple(read.text[slice(*read.graph.spans[node])] for node in edge) for edge in read.graph.edges.T}
        for read in (both, first)
    ]
    assert named[0] == named[1]
    assert both.graph.edges.shape[1] == first.graph.edges.shape[1] + alone.edges.shape[1]


def test_a_hunk_that_only_removes_is_read_as_it_was():
    assert names_at(read_change(REMOVAL, "ARCL", 5000, True, TALK_RULES)) == [("gone", "gone")]


def test_only_java_has_a_graph():
    head = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n"
    mixed = head.format("a.py") + SECOND + "\n" + head.format("A.java") + REMOVAL
    assert names_at(read_change(mixed, "ARCL", 5000, True, TALK_RULES)) == [("gone", "gone")]
    assert read_change(SECOND, "ARCL", 5000, False, TALK_RULES).graph is None
    assert read_change(SECOND, "ARCL", 5000, True, None).graph is None
    assert read_change("@@ -1 +1 @@\n+// a comment", "D", 5000, True, TALK_RULES).graph is None


@pytest.mark.parametrize("form", ["D", "ARC", "ARCL"])
def test_a_cut_change_is_read_as_far_as_it_goes(form):
    for length in range(0, len(HUNK), 7):
        read = read_change(HUNK, form, length, True, TALK_RULES)
        assert len(read.text) <= length


def test_a_comment_stands_behind_the_encoders_prefix():
    plain = load_tiny_encoder("tiny", "mean", **SIZES)
    query = load_tiny_encoder("tiny", "mean", **SIZES, prefix="query: ")
    tokenizer = plain.tokenizer
    for comment_tokens in (4, 10):
        limits = InputLimits(comment_tokens, 3, 0)
        comment = tokenizer("query: crash on start", add_special_tokens=False)["input_ids"]
        code = tokenizer("the editor", add_special_tokens=False)["input_ids"]
        expected = [tokenizer.cls_token_id, *comment[:comment_tokens], *code[:3], tokenizer.sep_token_id]
        assert text_side(query, limits).input("crash on start", "the editor").input_ids.tolist() == expected
        assert text_side(plain, limits).input("query: crash on start", "the editor").input_ids.tolist() == expected
