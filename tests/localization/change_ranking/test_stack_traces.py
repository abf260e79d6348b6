"""Frames of stack traces of several languages, and hostile texts."""

import pytest

from gedbd.localization.change_ranking.report_words import Frame, find_frames

JAVA = """Hello,
java.lang.NullPointerException: it fails (see Foo.java)
\tat org.apache.jasper.compiler.JspUtil.check(JspUtil.java:123)
\tat java.base/java.lang.Thread.run(Thread.java:829)
\tat
org.apache.A$Inner.<init>(A.java)
Caused by: java.io.IOException
[exec]  a.b.C.lambda$0(Native Method) and so on
\tat sun.reflect.X.invoke(Unknown Source)
\t... 12 more
(B.java:3) Plain.java:12 f(Plain.java:13)"""
PYTHON = """Traceback (most recent call last):
  File "/usr/lib/a b.py", line 12, in <module>
    run()
  File "b.py", line 3
ValueError: at 3"""
DOTNET = r"""   at A.B.Run(String name) in C:\My in box\B.cs:line 12
   at System.String.Format(String s)
   at A.C..ctor() in /src/C.cs:line 7"""
SCRIPT = """TypeError: x is undefined
    at Parser.run (/app/src/parser.js:12:5)
    at async load (file:///app/load.mjs:3:1)
    at new Foo (foo.ts:1:2)
    at /app/index.js:9:1
    at a/b.txt:9:1
    at x"""


FRAMES = {
    JAVA: [
        Frame("org.apache.jasper.compiler.JspUtil", "check", "JspUtil.java", 123),
        Frame("java.lang.Thread", "run", "Thread.java", 829),
        Frame("org.apache.A$Inner", "<init>", "A.java", None),
        Frame("a.b.C", "lambda$0", "", None),
        Frame("sun.reflect.X", "invoke", "", None),
    ],
    PYTHON: [Frame("", "<module>", "/usr/lib/a b.py", 12), Frame("", "", "b.py", 3)],
    DOTNET: [Frame("A.B", "Run", r"C:\My in box\B.cs", 12), Frame("A.C", "ctor", "/src/C.cs", 7)],
    SCRIPT: [
        Frame("Parser", "run", "/app/src/parser.js", 12),
        Frame("", "load", "file:///app/load.mjs", 3),
        Frame("", "Foo", "foo.ts", 1),
        Frame("", "", "/app/index.js", 9),
    ],
}


@pytest.mark.parametrize("text", FRAMES, ids=["Java", "Python", ".NET", "JavaScript"])
def test_frames(text):
    assert find_frames(text) == FRAMES[text]


def test_frames_of_several_languages_are_in_the_order_of_the_text():
    found = find_frames("\n".join([SCRIPT, JAVA, PYTHON]))
    assert found == [*find_frames(SCRIPT), *find_frames(JAVA), *find_frames(PYTHON)]


@pytest.mark.parametrize(
    "text", ["", "at ", "at", "at \n at", "(A.java:1)", ".(A.java:1)", "at b.(A.java:1)", "a.b(A.c:1)"]
)
def test_no_frame(text):
    assert find_frames(text) == []


@pytest.mark.usefixtures("hang_guard")
@pytest.mark.parametrize(
    "repeated",
    [
        *("at a.b(", "aaaa.aaaa.", "(A.java)", "a.a(A.java:1)", "(", "at ", "at \n", "a.", 'File "', 'File "a", line '),
        *(":line 1", " in ", "at a in b:line 1\n", "at :1:1\n", ":1", "(A", "(A.", "\n", "at a" * 249 + "\n", "/", "9"),
    ],
)
def test_hostile_texts_take_time_in_proportion(repeated):
    text = repeated * (300_000 // len(repeated))
    find_frames(text)
    find_frames(f"at {text}(A.java:1)")
