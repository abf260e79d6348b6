"""The files that a report is about: reasons, places and their last commits."""

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from gedbd.localization.change_ranking.change_history import ChangeQuery
from gedbd.localization.change_ranking.change_ranker import Suspect
from gedbd.localization.change_ranking.file_features import KnownFix, KnownFixes
from gedbd.localization.locating.answering import as_json
from gedbd.localization.locating.located_changes import QueryWords
from gedbd.localization.locating.located_files import RankedFiles, commit_before, is_named, last_commits, read_files
from gedbd.localization.locating.places import MatchedPlace, PlaceCommit
from gedbd.localization.locating.repository_index import AnswerLimits, Located, query_of
from gedbd.localization.repository.git_command import Git
from gedbd.localization.repository.inducing import blame_lines
from gedbd.triage.report_text import report_from_text

pytestmark = pytest.mark.integration

FIRST = datetime(2023, 11, 15, 22, 13, 20, tzinfo=UTC)  # of the first commit; each is a day later
LINES = [b"line %d\n" % number for number in range(1, 13)]
QUOTED = ChangeQuery("Quoted values are cut", "parseQuoted of QuotedParser drops the delimiter")
TRACE = "\nat a.QuotedParser.parseQuoted(QuotedParser.java:2)\nat a.Main.main(Main.java:1)"
OF_REASONS = ("name", "stack_first", "changes", "earlier_fixes", "changed_together", "num_fixes")
DATE = pd.Timestamp("2023-12-01", tz="UTC")
SCRIPT = """
import sys
from gedbd.localization.locating.answering import as_json
from gedbd.localization.locating.repository_index import open_repository, query_of
from gedbd.triage.report_text import report_from_text
index = open_repository(sys.argv[1], "", index=sys.argv[2])
index.update()
report = report_from_text(sys.argv[3])
print(as_json(report, index.locate(query_of(report)), {}))
"""


def place(start, end, header=0, path="a.txt"):
    return MatchedPlace(path, start, end, header, "", 0.0, (), (), 0, False)


@pytest.fixture
def made(make_repository):
    """Commit n, from 2 on, changes lines n and n + 6 of a file; the last one only indents the file."""
    repository = make_repository()
    lines = list(LINES)
    commits = [("Add the file", {"a.txt": b"".join(lines), "b c.txt": b"x\n"})]
    for number in range(2, 7):
        lines[number - 1] = b"changed %d\n" % number
        lines[number + 5] = b"changed %d\n" % (number + 6)
        commits.append((f"Change {number}\n\nWhy.", {"a.txt": b"".join(lines)}))
    commits.append(("Indent", {"a.txt": b"".join(b"  " + line for line in lines)}))
    repository.made_ids = repository.add(*commits)
    return repository


def test_the_newest_commits_of_each_place(made):
    ids = made.made_ids
    places = [place(1, 12), place(2, 3), place(1, 1, path="b c.txt"), place(7, 8), place(1, 6, header=5)]
    found = last_commits(Git(made.folder), ids[-1], places, seconds=None)
    assert found[0] == tuple(
        PlaceCommit(ids[number - 1], FIRST + timedelta(days=number - 1), f"Change {number}", 2) for number in (6, 5, 4)
    )
    assert [(commit.title, commit.num_lines) for commit in found[1]] == [("Change 3", 1), ("Change 2", 1)]
    assert [(commit.id, commit.num_lines) for commit in found[2]] == [(ids[0], 1)]
    assert [commit.title for commit in found[3]] == ["Change 2", "Add the file"]
    assert [commit.title for commit in found[4]] == ["Change 6", "Change 5"]
    assert last_commits(Git(made.folder), ids[-1], []) == []


@pytest.mark.parametrize("max_commits", [1, 2, 9])
def test_the_lines_are_those_of_a_whole_blame(made, max_commits):
    git = Git(made.folder)
    ids = made.made_ids
    for commit in ids:
        (found,) = last_commits(git, commit, [place(1, 12)], max_commits, seconds=None)
        counts = Counter(line.commit_id for line in blame_lines(git, commit, "a.txt", range(1, 13)))
        expected = sorted(counts.items(), key=lambda item: -ids.index(item[0]))
        assert [(one.id, one.num_lines) for one in found] == expected[:max_commits]


def test_versions_missing_from_a_partial_clone(made, tmp_path):
    made.git("config", "uploadpack.allowFilter", "true")
    made.git("clone", "-q", "--filter=blob:none", f"file://{made.folder}", str(tmp_path / "clone"))
    assert last_commits(Git(tmp_path / "clone"), made.made_ids[-1], [place(1, 12)], seconds=None) == [()]


def paths_of(located):
    return [file.path for file in located.files]


@pytest.fixture
def together(make_repository, index_of):
    """The index of a parser and its printer, which three fixes changed together."""
    made = make_repository()
    for number in range(3):
        text = b"class QuotedParser {\n void parseQuoted() { delimiter(%d); }\n}\n" % number
        made.add(
            (f"Fix {number}", {"src/QuotedParser.java": text, "src/Printer.java": b"class Printer { %d }\n" % number})
        )
    return index_of(made)


def reasons_of(index, query, shares, fixes=()):
    """The reasons for each path of an index, where the features have given shares."""
    history = index.history
    found = [Suspect(row, 0.0, shares, 0.0) for row in range(len(history.table.paths))]
    num_similar = KnownFixes(history, fixes).num_similar(query.title, query.description, query.created_at)
    ranked = RankedFiles(history, query, num_similar, found)
    words = QueryWords({"delimiter": 2.0, "parsequoted": 3.0, "void": 4.0}, frozenset(["void"]))
    return {file.path: file.explanation for file in read_files(index.git, index.commit, ranked, words, 1)}


def test_each_reason(together):
    fix = KnownFix("Quoted values", "", DATE - pd.Timedelta(days=1), (together.history.ids[0],))
    query = QUOTED._replace(description=f"of QuotedParser{TRACE}", created_at=DATE)
    found = reasons_of(together, query, dict.fromkeys(OF_REASONS, 1.0), [fix])
    assert found["src/QuotedParser.java"] == (
        "named in the report",
        "in a stack trace (frame 1)",
        "words: parsequoted, delimiter",
        "fixes of similar reports changed it (1 of 10)",
        "often changed with Printer.java (in 3 of 3 commits)",  # which is before it
        "recently fixed (13 days before)",
    )
    assert found["src/Printer.java"] == (
        "fixes of similar reports changed it (1 of 10)",
        "recently fixed (13 days before)",
    )


@pytest.mark.parametrize("share", [0.0, -1.0])
def test_what_does_not_add_to_the_score_is_no_reason(together, share):
    found = reasons_of(together, QUOTED._replace(created_at=DATE), dict.fromkeys(OF_REASONS, share))
    assert set(found.values()) == {("changed by 3 commits",)}


@pytest.mark.parametrize(
    ("path", "text", "named"),
    [
        ("src/CSVParser.java", "CSVParser fails", True),
        ("src/CSVParser.java", "MyCSVParser fails", False),
        ("src/Lexer.java", "the Lexer", True),
        ("src/Lexer.java", "the lexer", False),
        ("a/git.py", "git fails", False),
        ("a/git.py", "see git.py: fails", True),
        ("a/git.py", "see digit.py", False),
        ("src/größe x.c", "in größe x.c", True),
    ],
)
def test_which_files_a_report_names(path, text, named):
    assert is_named(path, text) is named


def test_files_are_those_of_the_report_date(repository, index_of):
    repository.add(("Move", {"src/TablePrinter.java": b"class TablePrinter { void parseQuoted() { } }\n"}))
    index = index_of(repository)
    now = index.locate(QUOTED)
    assert (now.commit, now.num_files) == (index.commit, 2)
    assert set(paths_of(now)) == {"src/QuotedParser.java", "src/TablePrinter.java"}
    moment = pd.Timestamp(index.history.created_at[2], tz="UTC")
    then = index.locate(QUOTED._replace(created_at=moment))
    assert (then.commit, then.num_files, paths_of(then)) == (index.history.ids[1], 1, ["src/QuotedParser.java"])
    assert index.locate(QUOTED._replace(created_at=pd.Timestamp("1969-01-01", tz="UTC"))) == Located()
    none = index.locate(QUOTED, AnswerLimits(top_k=1, max_places=0, top_commits=0))
    assert (len(none.files), none.files[0].places, none.changes) == (1, (), ())


def test_the_branch_held_the_commit_before_a_date(repository, index_of):
    repository.add(("side", {"side.c": b"int quoted;\n"}), parent="main~1", branch="refs/heads/side")
    tree = repository.git("rev-parse", "side^{tree}")
    name = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    merge = repository.git(*name, "commit-tree", tree, "-p", "main", "-p", "side", "-m", "Merge")
    index = index_of(repository, revision=merge)
    git, history = Git(repository.folder), index.history
    behind = pd.Timestamp(history.created_at[-1], tz="UTC") + pd.Timedelta(milliseconds=500)
    assert commit_before(git, merge, history, QUOTED._replace(created_at=behind)) == merge
    last = pd.Timestamp(history.created_at[-1], tz="UTC")  # of the side branch, so not before itself
    assert commit_before(git, merge, history, QUOTED._replace(created_at=last)) == repository.git("rev-parse", "main")
    # Half a second after a commit it is there; at its own second it is not.
    fourth = pd.Timestamp(history.created_at[3], tz="UTC")
    ids = history.ids
    for moment, expected in ((fourth, ids[2]), (fourth + pd.Timedelta(milliseconds=500), ids[3])):
        assert commit_before(git, merge, history, QUOTED._replace(created_at=moment)) == expected


def test_what_nobody_writes_is_left_out_and_counted(repository, index_of):
    code = b"class QuotedParser { void parseQuoted() { delimiter(); } }\n"
    repository.add(
        (
            "Add more",
            {
                "vendor/QuotedParser.java": code,
                "src/quoted_pb2.py": code,
                "quoted.png": b"\0\0",
                "src/größe quoted.java": code,
                "src/new\nline.java": code,
            },
        )
    )
    index = index_of(repository)
    located = index.locate(QUOTED)
    assert located.skipped_files == {"vendored": 1, "generated": 1, "binary": 1}
    assert located.num_files == 4
    assert {"src/größe quoted.java", "src/new\nline.java"} <= set(paths_of(located))
    assert all(file.places for file in located.files[:3])
    repository.git("update-ref", "refs/heads/main", "main~1")
    index.update()
    assert "src/größe quoted.java" not in paths_of(index.locate(QUOTED))


def test_a_long_report_and_one_without_words(repository, index_of):
    index = index_of(repository)
    long = ChangeQuery("Quoted values", "parseQuoted drops a delimiter\n" + "lorem42 ipsum.Dolor(x) \n" * 9_000)
    assert paths_of(index.locate(long))[0] == "src/QuotedParser.java"
    located = index.locate(ChangeQuery("?!", "of the"))
    assert located.files == ()
    assert located.warnings


def test_the_answer_is_the_same_in_each_process(make_repository, index_of):
    """The order of a set of words differs between processes, and 0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1."""
    made = make_repository()
    words = [f"word{chr(97 + number)}" for number in range(26)]
    files = ({f"src/File{number}.c": "\n".join(words[number:]).encode() + b"\n"} for number in range(26))
    made.add(*(("Add", file) for file in files))  # words of different weights
    index = index_of(made)
    report = report_from_text(" ".join(words))
    own = as_json(report, index.locate(query_of(report)), {})
    command = [sys.executable, "-c", SCRIPT, str(made.folder), str(index.folder), " ".join(words)]
    variables = os.environ | {"PYTHONHASHSEED": "1"}  # here it is another one
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=variables).stdout
    assert told == own + "\n"
    assert len(json.loads(own)["files"]) == 5
