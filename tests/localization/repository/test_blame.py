"""Which lines hold code, which removed lines count, and where they come from: by hand, and ten fixes of Commons CSV."""

import subprocess
from pathlib import Path

import pytest
from git_repository import FastImport, read_history

from gedbd.localization.repository.commits import FileChange, Hunk
from gedbd.localization.repository.git_command import Git
from gedbd.localization.repository.inducing import (
    NO_CODE,
    BlamedLine,
    blame_lines,
    code_lines,
    is_source,
    removed_code,
    trace_fix,
)

# Git takes fewer than 20 letters and digits for a coincidence and not for a move.
END = "  int the_line_that_moves_up;"
BLOCK = [f"    total += compute_the_value(number, {name});" for name in ("alpha", "beta", "gamma")]
OLD = ["class A {", *BLOCK, END, "}"]
MOVED = ["class A {", END, *BLOCK, "}"]
WIDE = [line.replace(END, "\tint  the_line_that_moves_up ;  ") for line in MOVED]
LAST = [*WIDE[:-1], "  int added;", "}"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    made = FastImport()
    made.commit(b"root", [("old name", text(OLD)), ("zero", b"0\n"), (b"latin-\xe9", b"1\n")], parents=[])
    made.commit(b"moved and renamed", [("old name", None), ("new\nname", text(MOVED))])
    made.commit(b"white space", [("new\nname", text(WIDE))])
    made.commit(b"one line", [("new\nname", text(LAST))])
    folder = tmp_path_factory.mktemp("blame") / "repository.git"
    ids = made.write(folder)
    return Git(folder), ["", *ids]


def text(lines):
    return "".join(f"{line}\n" for line in lines).encode()


def test_moves_renames_and_white_space_are_looked_through_in_files_of_any_name(repository):
    git, ids = repository
    assert LAST[1] == "\tint  the_line_that_moves_up ;  "
    assert blame_lines(git, ids[4], "new\nname", range(1, 8)) == [
        BlamedLine(ids[1], "old name", 1),
        BlamedLine(ids[1], "old name", 5),
        BlamedLine(ids[1], "old name", 2),
        BlamedLine(ids[1], "old name", 3),
        BlamedLine(ids[1], "old name", 4),
        BlamedLine(ids[4], "new\nname", 6),
        BlamedLine(ids[1], "old name", 6),
    ]
    assert blame_lines(git, "HEAD", "latin-é", [1]) == [BlamedLine(ids[1], "latin-é", 1)]


@pytest.mark.parametrize("max_ranges", [1, 1000])  # there are two, which one command takes or two do
def test_lines_come_in_the_order_asked_for_each_as_often(repository, monkeypatch, max_ranges):
    monkeypatch.setattr("gedbd.localization.repository.inducing.MAX_RANGES", max_ranges)
    git, ids = repository
    found = blame_lines(git, "HEAD", "new\nname", [7, 6, 1, 6])
    assert [(line.commit_id, line.line) for line in found] == [(ids[1], 6), (ids[4], 6), (ids[1], 1), (ids[4], 6)]
    assert blame_lines(git, "HEAD", "new\nname", []) == []


@pytest.mark.parametrize(
    ("commit", "path", "lines", "told"),
    [
        ("HEAD", "missing", [1], "no such path"),
        ("HEAD", "zero", [2], "has only 1 line"),
        ("HEAD", "zero", [0], "lines are numbered from 1"),
        ("--output=x", "zero", [1], "is not a commit"),
        ("HEAD", ":(glob)z*", [1], "no such path"),
    ],
)
def test_bad_input_is_told_in_one_line(repository, commit, path, lines, told):
    with pytest.raises(ValueError, match=told) as error:
        blame_lines(repository[0], commit, path, lines)
    assert "\n" not in str(error.value)


JAVA = """\
/* a
 b */ int x; // c
// d
String s = "/* no */";
/** e

*/
String t = \"\"\"
  // in a text
  \"\"\";
char c = '"'; // f
/* g */ /* h */
"""
PYTHON = '''\
"""What it does,
over two lines."""
x = """text
# in it
"""  # why
# comment
def f():
    \'\'\'What it does.\'\'\'
    return "#"
'''


@pytest.mark.parametrize(
    ("source", "path", "lines"),
    [
        (JAVA, "a/A.java", {2, 4, 8, 9, 10, 11}),
        (PYTHON, "a.py", {3, 4, 5, 7, 9}),
        ("# x\n!y\na=#1\n", "a.properties", {3}),
        ("<!-- a\nb --><c/>\n<!-- d -->\n", "pom.xml", {2}),
        ("-- a\nSELECT '--'\n/* b */\n", "a.sql", {2}),
        ("let a = `\n// text\n`;\n// b\n", "a.ts", {1, 2, 3}),
        ("/* never ends\nint a;\n", "a.c", set()),
        ('char *s = "open;\n// b\n', "a.c", {1}),
        ("a\n\t\n# b\r\n", "a.unknown", {1, 3}),
    ],
)
def test_lines_of_code_are_told_from_comments(source, path, lines):
    assert code_lines(source, path) == lines


BUNDLE = Path(__file__).parents[4] / "shared" / "data" / "repositories" / "commons-csv.bundle"
MAIN = "src/main/java/org/apache/commons/csv"
TESTS = "src/test/java/org/apache/commons/csv"
# The lines of code that each fix removed or changed, read off its diff: no comment, blank line or mere indentation.
READ_BY_EYE = {
    "de6aa97cde": {f"{MAIN}/CSVFormat.java": [65, 66]},
    "d9299223e8": {f"{MAIN}/CSVLexer.java": [26, 44, 87, 118, 119, 120]},
    "3863814ca9": {f"{MAIN}/CSVParser.java": [127, 129, 130]},
    "bb324f80cc": {f"{MAIN}/CSVParser.java": [146, 168, 169, 170, 171, 406, 457, 469]},
    "f5de0a9481": {f"{MAIN}/ExtendedBufferedReader.java": [57, 59, 91], f"{TESTS}/CSVParserTest.java": [505]},
    "f264868d75": {f"{MAIN}/CSVParser.java": [380], f"{TESTS}/CSVParserTest.java": [495]},
    "7b343715c8": {
        f"{MAIN}/ExtendedBufferedReader.java": [128],
        f"{TESTS}/CSVParserTest.java": [647, 651, 1196, 1199],
        f"{TESTS}/issues/JiraCsv149Test.java": [27, 30],
    },
    "be35bbf55e": {},
    "b0a7049d72": {f"{MAIN}/CSVFormat.java": [235, 236], f"{MAIN}/CSVPrinter.java": [101]},
    "17324fade0": {f"{MAIN}/CSVRecord.java": [49]},
}


def file_change(*hunks, path="A.java", old_path="A.java", is_binary=False):
    return FileChange("M", path, old_path, is_binary, False, hunks, False)


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (["-int a;", "+int b;"], [5]),
        (["-int a;", "+\tint  a ;"], []),
        (["-f(a,", "-  b);", "+f(a, b);"], []),  # two lines joined
        (["-int a;", " int x;", "+  int a;"], []),  # moved within its hunk
        (["-int a;", "-int a;", "+ int a;", "+int c;"], [6]),  # one added line accounts for one removed line
        (["-// old", "-", "+// new"], []),
        ([" int x;", "-int a; // old", "+int a; // new"], [6]),
        (["+int b;"], []),
    ],
)
def test_removed_code_is_told_from_comments_and_formatting(lines, kept):
    removed = [line[1:] for line in lines if line[0] != "+"]
    old_text = "\n".join(["x"] * 4 + removed)
    assert removed_code(file_change(Hunk(5, len(removed), 5, 1, "", tuple(lines))), old_text) == kept


def test_a_line_that_is_added_in_another_hunk_is_no_formatting():
    hunks = Hunk(1, 1, 1, 0, "", ("-int a;",)), Hunk(9, 0, 8, 1, "", ("+int a;",))
    assert removed_code(file_change(*hunks), "int a;\n") == [1]


def test_source_files_are_known_by_their_suffix_before_the_change():
    assert is_source(file_change(path="A.txt", old_path="A.JAVA"), [".java"])
    assert is_source(file_change(path="A.java", old_path=""), [".java"])
    assert not is_source(file_change(path="A.java", old_path="A.txt"), [".java"])
    assert is_source(file_change(path="A", old_path="A"), None)
    assert not is_source(file_change(is_binary=True), None)


def blame_one(repository, fix, path, line):
    """Commit, path and line that the command line names for one line before a fix."""
    command = ["git", "-C", repository, "blame", "-w", "-M", "-s", "-l", "-f", "-n", f"-L{line},{line}", f"{fix}^1"]
    told = subprocess.run([*command, "--", path], capture_output=True, text=True, check=True).stdout.split()
    return told[0].lstrip("^")[:39], told[1], int(told[2])  # a root commit has ^ in the place of its last digit


@pytest.mark.slow
@pytest.mark.skipif(not BUNDLE.is_file(), reason=f"there is no {BUNDLE}")
def test_ten_fixes_of_commons_csv_are_traced_as_by_hand(tmp_path):
    subprocess.run(["git", "clone", "-q", "--bare", BUNDLE, tmp_path / "csv"], check=True)
    history = read_history(tmp_path / "csv")
    fixes = {commit.id[:10]: commit for commit in history if commit.id[:10] in READ_BY_EYE}
    assert len(fixes) == 10
    for id_, files in READ_BY_EYE.items():
        expected = [blame_one(tmp_path / "csv", id_, path, line) for path, lines in files.items() for line in lines]
        trace = trace_fix(history.git, fixes[id_], [".java"])
        assert [(line.commit_id[:39], line.path, line.line) for line in trace.origins] == expected
        assert trace.reason == ("" if expected else NO_CODE)
