"""Code without layout and comments."""

import pytest

from gedbd.localization.flow_graph.java_source import plain_code


@pytest.mark.parametrize(
    "other",
    [
        "int f( int a )\n{\n\treturn a;\n}",
        "int f(int a) { // the first { \"\n return a; /* and ' more */ }",
        "/** Doc. */ int/**/f(int a){return a;}",
    ],
)
def test_layout_and_comments_do_not_count(other) -> None:
    assert plain_code(other) == plain_code("int f(int a) { return a; }")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ('s = "a b";', 's = "ab";'),
        ('s = "http://x";', 's = "http:";'),
        ('s = "\\" // x";', 's = "\\"";'),
        ("c = '\"'; // x", "c = '\"'; d();"),
        ("return a;", "returna;"),
        ('s = """\n a " // b\n""";', 's = """\n a " \n""";'),
    ],
)
def test_what_is_in_literals_and_words_counts(left, right) -> None:
    assert plain_code(left) != plain_code(right)


@pytest.mark.parametrize("text", ["/*", '"', "'", "'\"", '"""'])
def test_literals_without_an_end_take_time_in_proportion(text, hang_guard) -> None:
    assert plain_code(100_000 * text) is not None
