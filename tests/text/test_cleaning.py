"""What cleaning shortens and marks, and that prose stays."""

from pathlib import Path

import pandas as pd
import pytest

from gedbd.text.cleaning import Cleaning

SHORTEN = Cleaning("shorten", "shorten", "shorten", "shorten", "shorten")
MARK = Cleaning("mark", "mark", "mark", "mark", "mark")

# By language. The first column is no part of the text: "-" marks a line that shortening drops.
TRACES = {
    section.partition("]")[0]: section.partition("\n")[2].strip("\n")
    for section in (Path(__file__).parent / "traces.txt").read_text(encoding="utf-8").split("\n[")[1:]
}
PROSE = [
    "It fails at the end (of the list).\nat home (with a slow line) it works\nError: it is said\nand nothing more.",
    "I looked at example.org (the old host).\nIt was fine.",
    "Steps:\n1. Open the editor;\n2. Type (anything);\n3. Save;\n4. Close (do not quit);\n5. Open again;",
    "- one item;\n- another (item);\n- a third = last;\n- the end;",
    "At 12:30 I began.\n12:45 it crashed.\n13:00 again.\n13:15 once more.\n13:30 I gave up.",
    "2024-01-05 12:00:01 INFO start\n2024-01-05 12:00:02 INFO stop\n2024-01-05 12:00:03 INFO three lines are no log",
    "Warnings are shown.\nErrors are not.\nInformation is.\nDebugging helps.\nTraces too.",
    "<p>The first line.</p>\n<p>The second.</p>\n<p>The third.</p>\n<p>The last.</p>",
    "Editor: 4.2\nSystem: 5.1\nVersion: 1.0\nBuild: 77\nLanguage: en",
    "Set a = 1;\ncall open();\nand see.",
    "An unclosed ``` fence\nis none\n{code}\nnor is this",
    "`{code}short{code}` and ```inline``` and <code>x</code>\nstay.",
    "It is open at\nBox.java(Box.java:1)\nor so.",
    "Une façon de casser: é 日本 \u2028 x\x0b y\r\n\r\n",
    "",
    " \n\t",
]


def clean(cleaning: Cleaning, text: str) -> str:
    return cleaning(pd.Series([text]))[0]


def text_of(trace: str, marks: str = "|-") -> str:
    """The lines of a trace that have one of some marks."""
    return "\n".join(line[1:] for line in trace.split("\n") if line[0] in marks)


@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_stack_traces(trace, ending):
    text, short = (text_of(trace, marks).replace("\n", ending) for marks in ("|-", "|"))
    assert clean(Cleaning(stack_traces="shorten"), text) == short
    assert clean(SHORTEN, text) == short
    first, last = text.split(ending)[0], text.split(ending)[-1]
    empty_line = ending if text.startswith("Look") else ""
    marked = f"{first}{ending}[STACK TRACE]{ending}{empty_line}{last}"
    assert clean(Cleaning(stack_traces="mark"), text) == clean(MARK, text) == marked
    assert clean(Cleaning("keep", "shorten", "mark", "mark", "mark"), text) == text


LOG = ["2024-01-05 12:00:0{} INFO start {}", "[12:00:0{}] step {}", "I/ActivityManager(  59): {} of {}", "[INFO] {} {}"]


@pytest.mark.parametrize("line", [*LOG, "Nov  8 23:25:1{} pad larkd[18]: {}", "warning MSB123{}: step {}"])
def test_logs(line):
    log = [line.format(number, number) for number in range(9)]
    log[2] += " failed"
    trouble = range(9) if line.startswith("warning") else [2]
    kept = [log[number] for number in range(9) if number in (0, 8) or number in list(trouble)[:6]]
    text = "Before\n{}\nAfter"
    assert clean(SHORTEN, text.format("\n".join(log))) == text.format("\n".join(kept))
    assert clean(MARK, text.format("\n\n".join(log))) == text.format("[LOG]")
    assert clean(Cleaning("shorten", "keep", "mark"), text.format("\n".join(log))) == text.format("\n".join(log))


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("```", "```"),
        ("{code}", "{code}"),
        ("{code:title=Box.java|borderStyle=solid}", "{code}"),
        ("{noformat}", "{noformat}"),
        ("<pre>", "</pre>"),
        ('<code class="java">', "</code>"),
    ],
)
def test_fences(opening, closing):
    text = f"See {opening}\none\n\ntwo\nthree\nfour\n{closing} and then\nmore"
    assert clean(SHORTEN, text) == f"See {opening}\none\ntwo\nthree\n{closing} and then\nmore"
    assert clean(MARK, text) == "See [CODE] and then\nmore"


def test_a_trace_or_a_log_in_a_fence_is_no_code():
    log = "\n".join(f"12:00:0{number} one" for number in range(5))
    for inside, marker in ((text_of(TRACES["java"])[14:-10].strip("\n"), "[STACK TRACE]"), (log, "[LOG]")):
        text = f"See\n{{code}}\n{inside}\n{{code}}\nthere"
        assert clean(Cleaning(code="mark"), text) == text
        assert clean(MARK, text) == f"See\n{{code}}\n{marker}\n{{code}}\nthere"


CSHARP = "public class Box\n{\n    int lid = 1;\n\n    void Open() { lid--; }\n}"
XML = '<box>\n  <lid name="a"/>\n  <lid name="b">text</lid>\n</box>'
JSON = '{\n  "lid": 1,\n  "key": "two"\n}'


@pytest.mark.parametrize("code", [CSHARP, XML, JSON])
def test_code_outside_fences(code):
    three = "\n".join([line for line in code.split("\n") if line][:3])
    assert clean(SHORTEN, f"This:\n{code}\nThat.") == f"This:\n{three}\nThat."
    assert clean(MARK, f"This:\n{code}\nThat.") == "This:\n[CODE]\nThat."


@pytest.mark.parametrize(
    ("url", "short"),
    [
        ("https://bugs.example.org/a/b/show.cgi?id=12#c3", "bugs.example.org/show.cgi"),
        ("http://user@example.org:8080/", "example.org:8080"),
        ("ftp://example.org/é/日本", "example.org/日本"),
    ],
)
def test_urls(url, short):
    text = "See ({}), or <{}>: {}."
    assert clean(SHORTEN, text.format(url, url, url)) == text.format(short, short, short)
    assert clean(MARK, text.format(url, url, url)) == text.format("[URL]", "[URL]", "[URL]")


@pytest.mark.parametrize(("reports", "share", "common"), [(100, 20, True), (100, 19, False), (99, 99, False)])
def test_boilerplate(reports, share, common):
    headed = [f"What HAPPENS:\r\nbox {number}\r\n\r\n what happens: \r\nlid {number}\r\n---" for number in range(share)]
    plain = [f"box {number}\n---" for number in range(share, reports)]
    texts = pd.Series([*headed, *plain])
    short, marked = (Cleaning(boilerplate=choice)(texts) for choice in ("shorten", "mark"))
    assert short[3] == ("box 3\r\n\r\nlid 3\r\n---" if common else headed[3])
    assert marked[3] == ("[TEMPLATE]\r\nbox 3\r\n\r\n[TEMPLATE]\r\nlid 3\r\n---" if common else headed[3])
    assert short[share:] == marked[share:] == plain


def test_one_percent_of_many_descriptions():
    texts = [f"Seen before:\nHow often:\nbox {number}" if number < 29 else f"box {number}" for number in range(3000)]
    assert Cleaning(boilerplate="mark")(pd.Series(texts)) == texts
    texts[50] = "Seen before:\nHow often:"
    texts[51] = "Seen before:\nHow often:\nbox"
    cleaned = Cleaning(boilerplate="mark")(pd.Series(texts))
    assert [cleaned[row] for row in (0, 50, 51)] == ["[TEMPLATE]\nbox 0", "[TEMPLATE]", "[TEMPLATE]\nbox"]
    assert Cleaning(boilerplate="shorten")(pd.Series(texts))[50] == texts[50], "nothing would be left"


@pytest.mark.parametrize("text", PROSE)
def test_prose_stays(text):
    assert clean(SHORTEN, text) == clean(MARK, text) == text


def test_everything_on_keep_returns_every_byte():
    texts = [*PROSE, "{code}\r\n1\r2\n3\n4\n{code}", "12:00:01 error\n" * 9, "see http://example.org/a/b"]
    assert Cleaning()(pd.Series(texts)) == texts


HUGE = ["a", " ", "(", ";", "{code:", "<pre ", "- ", "http://", "at a.b(", "a.", "at ", ";\n", "\n", "<pre>\n", "}\n\n"]
LINES = [
    "at a.B.c(B.java:1)\n",
    "12:00:01 error\n",
    "at " + "a." * 300 + "\n",
    "public " + " " * 600 + "!\n",
    "-" * 600,
]


@pytest.mark.slow
@pytest.mark.usefixtures("hang_guard")  # backtracking would take hours
@pytest.mark.parametrize(
    "piece", [*HUGE, *LINES, "x;" * 300 + "y\n", " " * 599 + "x\n", '  File "a", line 1\n', "A: " + "(" * 600 + "\n"]
)
def test_a_million_characters_do_not_hang(piece):
    text = piece * (1_000_000 // len(piece)) + "x"
    assert clean(SHORTEN, text).endswith("x")


@pytest.mark.parametrize("kind", ["stack_traces", "logs", "code", "urls", "boilerplate"])
def test_an_unknown_choice_is_refused(kind):
    with pytest.raises(ValueError, match=rf"^text\.cleaning\.{kind}=cut is unknown: choose keep, shorten, mark$"):
        Cleaning(**{kind: "cut"})
