"""Words of code: identifiers as wholes and as parts."""

import pytest

from gedbd.text.code_words import CodeWords


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("parseURL2Path(x)", ["parseurl2path", "parse", "url", "path"]),
        ("MAX_SIZE __init__ __ _x", ["max_size", "max", "size", "init"]),
        ("org.apache.JspUtil$Tag", ["org", "apache", "jsputil", "jsp", "util", "tag"]),
        ("utf8 404 3", ["utf8", "utf", "404"]),
        ("The parser of a file", ["parser", "file"]),
        ("src/main/Foo.java", ["src", "main", "foo", "java"]),
        ("größeMaße naïve", ["größemaße", "naïve"]),
        ("+    if (a) { return ioException; }", ["return", "ioexception", "io", "exception"]),
        ("A" * 101 + " " + "a" * 100, ["a" * 100]),
        ("", []),
    ],
)
def test_words(text, words):
    assert CodeWords()([text]) == [words]


def test_what_is_left_out():
    text = "the return isVoid void"
    assert CodeWords(java_keywords=True).of_text(text) == ["isvoid"]
    assert CodeWords([], java_keywords=True).of_text(text) == ["the", "isvoid", "is"]
    assert CodeWords(["isvoid"]).of_text(text) == ["the", "return", "is", "void", "void"]


def test_a_text_gives_the_same_words_again():
    words = CodeWords()
    assert words.of_text("readFile readFile") == ["readfile", "read", "file"] * 2
    assert words.of_text("readFile") == ["readfile", "read", "file"]


@pytest.mark.parametrize("repeated", ["A", "Aa", "aA1", "_", "a_", "A.", "é", "9", "aé"])
def test_hostile_words_take_time_in_proportion(repeated):
    # In quadratic time the test would not end.
    assert len(CodeWords()([repeated * (300_000 // len(repeated))])) == 1
