"""Suspect commits: the hunks that match a report, and reasons."""

from datetime import UTC, datetime

import pandas as pd
import pytest

from gedbd.localization.change_ranking.change_history import ChangeQuery
from gedbd.localization.change_ranking.query_features import feature_names
from gedbd.localization.locating.located_changes import (
    QueryWords,
    family,
    joined_spans,
    largest_families,
    match_hunks,
    query_words,
    reasons,
    word_spans,
)
from gedbd.localization.repository.commits import Commit, FileChange, Hunk
from gedbd.text.words import CodeWords, normalise

WEIGHTS = {"parser": 2.0, "quote": 4.0, "line": 1.0}
WORD_WEIGHTS = {f"word{number}": float(number) for number in range(7)} | {"parser": 3.0, "lexer": 5.0}


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
    assert list(word_spans(text)) == words


def test_overlapping_spans_become_one():
    assert joined_spans([(12, 15), (0, 9), (0, 3), (9, 10)]) == ((0, 10), (12, 15))
    assert joined_spans([(0, 9), (2, 3)]) == ((0, 9),)


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
    assert [word.word for word in word_spans(text)] == expected
    assert list(word_spans(text, set(expected))) == list(word_spans(text))
    assert [word.word for word in word_spans(f"{text} {text}", {"http", "value"})] == ["http", "value"] * 2
    assert all(normalise(text[start:end]) == word for word, start, end in word_spans(text))


def test_names_words_and_dates():
    paths = ("src/Parser.java", "src/Lexer.java", "src/Other.java", "word1.py", "word2.py")
    files = tuple(FileChange("M", path, path, False, False, (), False) for path in paths)
    message = " ".join(WORD_WEIGHTS)
    commit = Commit("c", (), datetime(2024, 1, 1, 12, tzinfo=UTC), message, files, False)
    query = ChangeQuery("", "word1 in WORD2.py", pd.Timestamp("2024-01-11T13:00:00Z"))
    assert reasons(commit, query, QueryWords(WORD_WEIGHTS, frozenset(["word5"])), {}) == (
        "changes Lexer, Parser, word2, named in the report",
        "the message mentions word6, lexer, word4, parser",
        "10 days earlier",
    )
    alone = Commit("c", (), commit.created_at, "", (), False)
    assert reasons(alone, query._replace(created_at=None), QueryWords(WORD_WEIGHTS), {}) == ()


def test_words_of_a_tenth_of_the_commits_or_files_are_generic(make_repository, index_of):
    made = make_repository()
    commits = []
    for number in range(60):  # each file is new, so that a commit has one; "licensed" is in few commits and many files
        message = "common" if number < 6 else "uncommon" if number < 11 else ""
        commits.append((f"{message} change", {f"src/File{number}.c": b"int line%d;\n" % number}))
    made.add(*commits, ("Add licences", {f"src/File{number}.c": b"/* licensed */\n" for number in range(6)}))
    index = index_of(made)
    found = query_words(index.history, ChangeQuery("uncommon, common and licensed", "absent line", None))
    assert set(found.weights) == {"uncommon", "common", "licensed", "line"}
    assert found.generic == {"licensed", "line"}  # of 61 commits six have "common"; of 60 files six have "licensed"
    before = pd.Timestamp(index.history.created_at[60], tz="UTC")
    found = query_words(index.history, ChangeQuery("uncommon, common", "", before))
    assert found.generic == {"common"}


def test_the_largest_families_of_features_and_each_feature_are_said_in_words():
    contributions = {"diff": 1.0, "diff_title": 0.5, "message": -3.0, "num_files": 0.75, "age_days": 0.01}
    assert largest_families(contributions) == ["the words of its changed lines (+1.50)", "its size (+0.75)"]
    assert largest_families({}) == []
    assert largest_families({"other": 1.0}) == ["other (+1.00)"]
    assert [name for name in feature_names(content_free=True, extra=()) if family(name) == name] == []
