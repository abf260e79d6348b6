"""Sections of files, and the places that match a report."""

import pytest

from gedbd.localization.change_ranking.report_words import find_frames
from gedbd.localization.locating.places import (
    MAX_BLOCK_LINES,
    MAX_BYTES,
    MAX_LINE_CHARS,
    FileMatch,
    declared_name,
    find_places,
    find_sections,
)
from gedbd.localization.repository.git_command import Git

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
SOURCE = b"""class QuotedParser {
    /** Reads a quote. */
    int parseQuoted(int limit) {
        return limit;
    }
    int other() {
        return parse(quoted);
    }
    int last() {
        parseQuoted(1);
    }
}
"""
WEIGHTS = {"parsequoted": 4.0, "parse": 1.0, "quoted": 2.0, "limit": 0.5, "absent": 9.0}
PATH = "src/org/csv/QuotedParser.java"
TRACE = """java.lang.Error
\tat org.csv.QuotedParser.other(QuotedParser.java:7)
\tat org.csv.QuotedParser.last(QuotedParser.java:999)
\tat org.other.Main.main(Main.java:3)
"""


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


@pytest.fixture
def git(make_repository):
    made = make_repository()
    made.add(
        (
            "files",
            {
                PATH: SOURCE,
                "crlf.txt": b"one\r\nquoted\r\n",
                "latin.txt": "größe quoted\n".encode("latin-1"),
                "binary.c": b"quoted\0",
                "large.txt": b"quoted\n" * (MAX_BYTES // 7 + 1),
                "long.js": b"x" * 2_000 + b" quoted\nquoted" + b" y" * 2_000,
                "empty.py": b"",
                "none.py": b"nothing\n",
                "Lines.java": b"class Lines {\n    void run() {\n%b    }\n}\n" % (b"        x();\n" * 1_996),
                "test/Main.java": b"class Main {\n    void main() {\n    }\n}\n",
                "lib/json/decoder.py": b"def decode(a):\n    raise a\n\ndef other(a):\n    pass\n",
            },
        )
    )
    made.add(("later", {PATH: b"nothing\n"}))
    return Git(made.folder)


def test_scores_lines_and_terms(git):
    places = find_places(git, "main~1", [PATH], WEIGHTS, 5)[PATH].places
    # The name of parseQuoted: 2 * 4 for the identifier, 1 + 2 for its parts, limit 0.5, and 8 for the name.
    assert [(place.start, place.end, place.header, place.score) for place in places] == [
        (2, 5, 3, 19.5),
        (9, 11, 9, 11.0),
        (6, 8, 6, 3.0),
        (1, 1, 1, 2.0),
    ]
    best = places[0]
    assert best.path == PATH
    assert best.name == "int parseQuoted(int limit) {"
    assert best.terms == ("parsequoted", "quoted", "parse", "limit")
    assert [(line.sign, line.number, line.spans) for line in best.lines] == [
        (" ", 3, ((8, 19), (24, 29))),
        (" ", 4, ((15, 20),)),
    ]
    assert not best.is_named
    assert find_places(git, "main~1", [PATH], WEIGHTS, 1)[PATH].places == places[:1]
    assert find_places(git, "main", [PATH], WEIGHTS, 5) == {PATH: FileMatch()}


def test_frames_count_most(git):
    frames = find_frames(TRACE)
    found = find_places(git, "main~1", [PATH, "test/Main.java"], WEIGHTS, 5, frames)
    first, second, third, _ = found[PATH].places
    assert (first.header, second.header, third.header) == (6, 9, 3)
    assert [first.is_named, second.is_named, third.is_named] == [True, True, False]
    assert [line.number for line in first.lines] == [7]
    (main,) = found["test/Main.java"].places  # it shares no word
    assert (main.header, main.terms, [(line.number, line.spans) for line in main.lines]) == (2, (), [(3, ())])


def test_of_a_deep_stack_trace_the_first_lines_are_shown_and_others_counted(git):
    calls = [f"\tat org.csv.QuotedParser.other(QuotedParser.java:{line})\n" for line in (8, 7, 6, 8, 7)]
    calls += [f"\tat Lines.run(Lines.java:{line})\n" for line in range(2_000, 0, -1)]
    frames = find_frames("".join(calls * 2))
    found = find_places(git, "main~1", [PATH, "Lines.java"], {}, 5, frames)
    (place,) = found[PATH].places
    assert ([line.number for line in place.lines], place.num_left_out) == ([6, 7, 8], 0)
    (place,) = found["Lines.java"].places
    assert [line.number for line in place.lines] == [1_995, 1_996, 1_997, 1_998, 1_999]
    assert place.num_left_out == 1_998 - 5  # of lines 2 to 1,999


@pytest.mark.parametrize(
    ("frame", "header"),
    [
        ('File "/usr/app/json/decoder.py", line 2, in decode', 1),
        ('File "/usr/app/json/decoder.py", line 5, in <module>', 4),
        ('File "json/decoder.py", line 90, in <module>', None),
        ('File "/usr/lib/python3/decoder.py", line 2, in decode', None),
    ],
)
def test_frames_of_python(git, frame, header):
    places = find_places(git, "main", ["lib/json/decoder.py"], {}, 5, find_frames(frame))["lib/json/decoder.py"].places
    assert [place.header for place in places] == ([] if header is None else [header])


def test_odd_files(git):
    paths = ["crlf.txt", "latin.txt", "binary.c", "large.txt", "long.js", "empty.py", "none.py", "src", "absent"]
    found = find_places(git, "main", paths, WEIGHTS, 5)
    assert list(found) == paths
    assert [path for path, match in found.items() if match.places] == ["crlf.txt", "latin.txt", "long.js"]
    assert found["crlf.txt"].places[0].lines[0].text == "quoted"
    assert found["latin.txt"].places[0].lines[0].text == "größe quoted"
    (line,) = found["long.js"].places[0].lines
    assert (line.number, len(line.text), line.spans) == (2, MAX_LINE_CHARS, ((0, 6),))
    assert find_places(git, "main", [], WEIGHTS, 5) == {}
