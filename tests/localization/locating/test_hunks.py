"""Words of code with their places, and the hunks and lines that match a report; by hand."""

import pytest

from gedbd.localization.locating.located_changes import SharedWords, match_hunks, placed_words
from gedbd.localization.repository.commits import Commit, FileChange, Hunk
from gedbd.text.words import CodeWords, normalise

WEIGHTS = {"parser": 2.0, "quote": 4.0, "line": 1.0}


def commit(*hunks):
    change = FileChange("M", "a.py", "a.py", False, False, hunks, False)
    return Commit("c", (), None, "", (change,), False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("new HTTPServer2", [("new", 0, 3), ("httpserver2", 4, 15), ("http", 4, 8), ("server", 8, 14)]),
        ("read_line()", [("read_line", 0, 9), ("read", 0, 4), ("line", 5, 9)]),
        ("the of in ab", []),
        ("über Größe", [("über", 0, 4), ("grösse", 5, 10)]),
        ("打开Http文", [("打开", 0, 2), ("http", 2, 6), ("文", 6, 7)]),
        ("打开文件" * 30, [("打开文件打"[place % 4 :][:2], place, place + 2) for place in range(119)]),
        ("x" * 101, []),
    ],
)
def test_words_and_their_places(text, words):
    assert list(placed_words(text)) == words


def test_scores_lines_and_spans():
    first = Hunk(10, 2, 10, 2, "def f", (" line", "-quote", "+quoteParser"))
    second = Hunk(30, 1, 30, 1, "", (" quote", " other", "+x"))
    third = Hunk(50, 0, 50, 1, "", ("+nothing",))
    found = match_hunks(commit(second, first, third), WEIGHTS, 5)
    # changed: parser 2, quote 4; only unchanged: line 1 / 2. The second: quote 4 / 2.
    assert [hunk.score for hunk in found] == [6.5, 2.0]
    assert found[0].terms == ("quote", "parser", "line")
    assert [(line.sign, line.number, line.spans) for line in found[0].lines] == [
        (" ", 10, ((0, 4),)),
        ("-", 11, ((0, 5),)),
        ("+", 11, ((0, 11),)),  # "quote" and "Parser" touch
    ]
    assert match_hunks(commit(second, first, third), WEIGHTS, 1) == found[:1]
    assert match_hunks(commit(third), WEIGHTS, 5) == ()


def test_many_lines_are_cut_to_the_best():
    lines = ("+line",) * 50 + ("+quote",)
    (hunk,) = match_hunks(commit(Hunk(0, 0, 1, 51, "", lines)), WEIGHTS, 5)
    assert [line.number for line in hunk.lines] == [1, 2, 3, 4, 51]


def test_words_are_those_of_the_ranking():
    text = "if (HTTPServer2.__init__(my_value) && größe != 0x10 /* 点击OK按钮 */) { return parseURLs(x1, 'can''t'); }"
    expected = [word for word in CodeWords().of_text(text) if len(word) >= 3 or word in ("点击", "按钮")]
    assert [word.word for word in placed_words(text)] == expected
    assert SharedWords(set(expected))(text) == list(placed_words(text))
    assert [word.word for word in SharedWords({"http", "value"})(f"{text} {text}")] == ["http", "value"] * 2
    assert all(normalise(text[start:end]) == word for word, start, end in placed_words(text))
