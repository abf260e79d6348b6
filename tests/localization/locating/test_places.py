"""The places of files that match a report; by hand."""

import pytest

from gedbd.localization.locating.places import MAX_BYTES, MAX_LINE_CHARS, FileMatch, find_places
from gedbd.localization.repository.git_command import Git
from gedbd.text.stack_traces import find_frames

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
        ),
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


def test_python_names_the_last_call_last(git):
    trace = 'File "json/decoder.py", line 2, in decode\n  x\nFile "json/decoder.py", line 5, in other\n'
    places = find_places(git, "main", ["lib/json/decoder.py"], {}, 5, find_frames(trace))["lib/json/decoder.py"].places
    assert [place.header for place in places] == [4, 1]


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


@pytest.mark.parametrize("keeps_remote", [True, False])
def test_files_missing_from_a_partial_clone_have_no_places(git, make_repository, tmp_path, keeps_remote):
    made = make_repository("other.git")  # only its way to run git is used
    made.git("-C", str(git.folder), "config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    made.git("clone", "-q", "--filter=blob:none", f"file://{git.folder}", str(clone))
    if not keeps_remote:
        made.git("-C", str(clone), "remote", "remove", "origin")
    found = find_places(Git(clone), "HEAD~1", [PATH, "crlf.txt"], WEIGHTS, 5)
    assert [path for path, match in found.items() if match.places] == ["crlf.txt"]
