import pytest

from gedbd.localization.repository.blame import code_lines

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
