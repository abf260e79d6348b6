"""Which lines hold code, which removed lines count, and where they come from: by hand, and ten fixes of Commons CSV."""

import subprocess
from pathlib import Path

import pytest

from gedbd.localization.repository.blame import NO_CODE, code_lines, is_source, removed_code, trace_fix
from gedbd.localization.repository.commit_history import read_history
from gedbd.localization.repository.commits import FileChange, Hunk

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
        ("a: b#c\n# x\nd: 1 # e\n", "a.yaml", {1, 3}),
        ("# x\n!y\na=#1\n", "a.properties", {3}),
        ("<!-- a\nb --><c/>\n<!-- d -->\n", "pom.xml", {2}),
        ("-- a\nSELECT '--'\n/* b */\n", "a.sql", {2}),
        ("let a = `\n// text\n`;\n// b\n", "a.ts", {1, 2, 3}),
        ("/* never ends\nint a;\n", "a.c", set()),
        ('char *s = "open;\n// b\n', "a.c", {1}),
        ("a\n\t\n# b\r\n", "a.unknown", {1, 3}),
        ("", "A.java", set()),
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


def change(*hunks, path="A.java", old_path="A.java", is_binary=False):
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
    assert removed_code(change(Hunk(5, len(removed), 5, 1, "", tuple(lines))), old_text) == kept


def test_a_line_that_is_added_in_another_hunk_is_no_formatting():
    hunks = Hunk(1, 1, 1, 0, "", ("-int a;",)), Hunk(9, 0, 8, 1, "", ("+int a;",))
    assert removed_code(change(*hunks), "int a;\n") == [1]


def test_source_files_are_known_by_their_suffix_before_the_change():
    assert is_source(change(path="A.txt", old_path="A.JAVA"), [".java"])
    assert is_source(change(path="A.java", old_path=""), [".java"])
    assert not is_source(change(path="A.java", old_path="A.txt"), [".java"])
    assert is_source(change(path="A", old_path="A"), None)
    assert not is_source(change(is_binary=True), None)


def test_a_file_whose_name_is_not_utf_8_is_read(tmp_path, fast_import):
    made = fast_import()
    for content in (b"int a;", b"int b;"):
        made.commit(files=[(b"\xe9.java", content)])
    made.write(tmp_path / "x.git")
    history = read_history(tmp_path / "x.git")
    first, second = history
    trace = trace_fix(history.git, second, [".java"])
    assert [(line.commit_id, line.path, line.line) for line in trace.origins] == [(first.id, "é.java", 1)]


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
