"""Reasons in words, by hand."""

from datetime import UTC, datetime

import pandas as pd
import pytest

from gedbd.localization.change_ranking.change_history import ChangeQuery
from gedbd.localization.change_ranking.query_features import feature_names
from gedbd.localization.locating.located_changes import QueryWords, family, largest_families, query_words, reasons
from gedbd.localization.repository.commits import Commit, FileChange

WEIGHTS = {f"word{number}": float(number) for number in range(7)} | {"parser": 3.0, "lexer": 5.0}


def test_names_words_and_dates():
    paths = ("src/Parser.java", "src/Lexer.java", "src/Other.java", "word1.py", "word2.py")
    files = tuple(FileChange("M", path, path, False, False, (), False) for path in paths)
    message = " ".join(WEIGHTS)
    commit = Commit("c", (), datetime(2024, 1, 1, 12, tzinfo=UTC), message, files, False)
    query = ChangeQuery("", "word1 in WORD2.py", pd.Timestamp("2024-01-11T13:00:00Z"))
    assert reasons(commit, query, QueryWords(WEIGHTS, frozenset(["word5"])), {}) == (
        "changes Lexer, Parser, word2, named in the report",
        "the message mentions word6, lexer, word4, parser",
        "10 days earlier",
    )
    alone = Commit("c", (), commit.created_at, "", (), False)
    assert reasons(alone, query._replace(created_at=None), QueryWords(WEIGHTS), {}) == ()


def test_words_of_a_tenth_of_the_commits_or_files_are_generic(make_repository, open_index):
    made = make_repository()
    for number in range(60):  # each file is new, so that a commit has one; "licensed" is in few commits and many files
        message = "common" if number < 6 else "uncommon" if number < 11 else ""
        made.add((f"{message} change", {f"src/File{number}.c": b"int line%d;\n" % number}))
    made.add(("Add licences", {f"src/File{number}.c": b"/* licensed */\n" for number in range(6)}))
    index = open_index(made)
    index.update()
    found = query_words(index.history, ChangeQuery("uncommon, common and licensed", "absent line", None))
    assert set(found.weights) == {"uncommon", "common", "licensed", "line"}
    assert found.generic == {"licensed", "line"}  # of 61 commits six have "common"; of 60 files six have "licensed"
    before = pd.Timestamp(index.history.created_at[60], tz="UTC")
    found = query_words(index.history, ChangeQuery("uncommon, common", "", before))
    assert found.generic == {"common"}


def test_one_commit_of_few_makes_no_word_generic(repository, open_index):
    index = open_index(repository)
    index.update()
    assert query_words(index.history, ChangeQuery("delimiter of the project", "", None)).generic == set()


def test_the_largest_families_of_features():
    contributions = {"diff": 1.0, "diff_title": 0.5, "message": -3.0, "num_files": 0.75, "age_days": 0.01}
    assert largest_families(contributions) == ["the words of its changed lines (+1.50)", "its size (+0.75)"]
    assert largest_families({}) == []
    assert largest_families({"other": 1.0}) == ["other (+1.00)"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("added", "the words of its changed lines"),
        ("added_lines", "its size"),
        ("is_cut", "its size"),
        ("lines_top_3", "its lines in files that the report may be about"),
    ],
)
def test_families_by_name(name, said):
    assert family(name) == said


def test_each_feature_of_a_ranker_is_said_in_words():
    assert [name for name in feature_names(content_free=True, extra=()) if family(name) == name] == []
