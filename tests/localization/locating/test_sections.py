"""Where functions begin and end in files of many languages; by hand."""

import pytest

from gedbd.localization.locating.places import MAX_BLOCK_LINES, declared_name, find_sections

JAVA = """package a;

/** Parses. */
public class Parser<T> extends Reader {

    private int count = read(3,
        4);

    /**
     * Runs.
     */
    @Override
    public <T> List<T> run(final int a,
            final int b) {
        if (a > b) {
            return call(a,
                b);
        }
        throw new Error("x");
    }

    private int last;

    Parser() {
    }
    static class Inner {
        void call() { run(1, 2); }
    }
}
"""
PYTHON = '''"""The class of things."""
import os

@cache
def first(
    a,
):
    """One."""

    return a


class Second(First):
    size = 1

    async def run(self):
        def inner():
            return 1
        return inner

    @property
    def last(self):
        return 2

if True:
    first(1)
'''


def named(text, path):
    """First and last line, header and declared name of the functions and classes."""
    sections = find_sections(text.split("\n"), path)
    lines = [number for section in sections for number in range(section.start, section.end + 1)]
    assert lines == list(range(1, text.count("\n") + 2))
    return [(one.start, one.end, one.header, declared_name(one.name)) for one in sections if one.header]


def test_java():
    assert named(JAVA, "a/Parser.java") == [
        (3, 7, 4, "Parser"),
        (9, 20, 13, "run"),
        (24, 25, 24, "Parser"),
        (26, 26, 26, "Inner"),
        (27, 27, 27, "call"),
    ]
    sections = find_sections(JAVA.split("\n"), "a/Parser.java")
    (fields,) = [section for section in sections if section.start <= 22 <= section.end]
    assert (fields.header, fields.name) == (0, "public class Parser<T> extends Reader {")
    assert sections[1].name == "public class Parser<T> extends Reader {"


def test_python():
    assert named(PYTHON, "a.py") == [
        (4, 10, 5, "first"),
        (13, 14, 13, "Second"),
        (16, 16, 16, "run"),
        (17, 18, 17, "inner"),
        (21, 23, 22, "last"),
    ]
    sections = find_sections(PYTHON.split("\n"), "a.py")
    names = {section.start: section.name for section in sections if not section.header}
    assert names == {1: "", 11: "", 15: "", 19: "async def run(self):", 24: ""}


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        (
            "a.c",
            "static int count(char *text)\n{\n  return f(text);\n}\nint\nmain (int argc)\n{\n}\n",
            ["count", "main"],
        ),
        ("a.cpp", "void A::run(int a) const {\n  b(a,\n    c);\n}\nA::~A() {\n}\n", ["run", "A"]),
        ("a.cs", "  [Test]\n  public async Task<int> Run(string a) {\n    await Go(a,\n      b);\n  }\n", ["Run"]),
        ("a.go", "type T struct {\n}\nfunc (t *T) Run(a int) {\n\tgo f(a)\n}\n", ["T", "Run"]),
        ("a.rs", "impl A {\n    pub(crate) async fn run<T>(a: T) {\n        f(a);\n    }\n}\n", ["A", "run"]),
        ("a.kt", "class A(val b: Int) {\n    override suspend fun run() {\n    }\n}\n", ["A", "run"]),
        ("a.rb", "module A\n  def run(a)\n    b(a)\n  end\nend\n", ["A", "run"]),
        ("a.php", "class A {\n    public static function run($a) {\n        f($a);\n    }\n}\n", ["A", "run"]),
        (
            "a.ts",
            "export class A {\n  async run(a: B): C {\n    if (a) {\n    }\n  }\n}\nexport const go = (a) => {\n};\n",
            ["A", "run", "go"],
        ),
        ("a.js", "export default function run(a) {\n  items.map(function (x) {\n  });\n}\n", ["run"]),
        ("a.sh", "function run {\n  cat\n}\n", ["run"]),
        ("a.md", "# Title\ntext\n## Second\nclass of things\n", ["", ""]),
        ("a.txt", "class of things\ndef x()\n", []),
        ("README", "nothing\n", []),
    ],
)
def test_languages(path, text, names):
    assert [name for *_, name in named(text, path)] == names


def test_other_lines_are_blocks_that_end_at_blank_lines():
    lines = ["x"] * 30 + [""] + ["y"] * 60
    sections = find_sections(lines, "a.txt")
    assert [(section.start, section.end) for section in sections] == [(1, 31), (32, 71), (72, 91)]
    assert max(section.end - section.start + 1 for section in sections) <= MAX_BLOCK_LINES
    assert find_sections([], "a.py") == []


def test_hostile_lines_take_linear_time():
    for text in ("a(" * 100_000, "(a)" * 100_000, "public " * 50_000, "a b " * 50_000, "@a(" * 100_000):
        for path in ("a.java", "a.ts", "a.c", "a.py"):
            assert len(find_sections([text] * 20, path)) <= 20
