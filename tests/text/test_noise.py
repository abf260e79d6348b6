import pandas as pd
import pytest

from gedbd.text.cleaning import Cleaning

SHORTEN = Cleaning("shorten", "shorten", "shorten", "shorten", "shorten")
MARK = Cleaning("mark", "mark", "mark", "mark", "mark")

JAVA = """Saving fails:
Exception in thread "main" org.larkpost.SaveException: no space left
\tat org.larkpost.Disk.write(Disk.java:41)
\tat org.larkpost.Disk.<init>(Disk.java:12)
\tat org.larkpost.Box.save(Box.java:7)
\tat org.larkpost.Main.main(Main.java:3)
Caused by: java.io.IOException: quota
\tat java.io.Out.put(Native Method)
\t- locked <0x00000007> (a java.io.Out)
\tat java.io.Out.a(Out.java:1)
\tat java.io.Out.b(Out.java:2)
\tat java.io.Out.c(Out.java:3)
\t... 23 more
Any idea?"""
JAVA_SHORT = """Saving fails:
Exception in thread "main" org.larkpost.SaveException: no space left
\tat org.larkpost.Disk.write(Disk.java:41)
\tat org.larkpost.Disk.<init>(Disk.java:12)
\tat org.larkpost.Box.save(Box.java:7)
Caused by: java.io.IOException: quota
\tat java.io.Out.put(Native Method)
\tat java.io.Out.a(Out.java:1)
\tat java.io.Out.b(Out.java:2)
Any idea?"""

DOTNET = """Look:
System.AggregateException: two things ---> System.NullReferenceException: no box
  at Lark.Box`1+Lid[Lark.Key].Open () [0x00047] in /src/Box.cs:12
  at (wrapper managed-to-native) Lark.Box.Call (intptr,int)
  at Lark.Main.<Run>b__0 (System.Object o) [0x00000] in <filename unknown>:0
  at Lark.Main.Four () <0x00012>
  --- End of inner exception stack trace ---
   at Lark.Shell.Start(String[] args) in C:\\lark\\Shell.cs:line 12
   at Lark.Shell.Main()

It works with an older build."""
DOTNET_SHORT = """Look:
System.AggregateException: two things ---> System.NullReferenceException: no box
  at Lark.Box`1+Lid[Lark.Key].Open () [0x00047] in /src/Box.cs:12
  at (wrapper managed-to-native) Lark.Box.Call (intptr,int)
  at Lark.Main.<Run>b__0 (System.Object o) [0x00000] in <filename unknown>:0
   at Lark.Shell.Start(String[] args) in C:\\lark\\Shell.cs:line 12
   at Lark.Shell.Main()

It works with an older build."""

PYTHON = """It says
Traceback (most recent call last):
  File "lark.py", line 1, in <module>
    main()
  File "lark.py", line 2, in main
    run()
  File "lark.py", line 3, in run
    box.open()
    ^^^^^^^^^^
  File "box.py", line 4, in open
KeyError: 'lid'
and stops."""
PYTHON_SHORT = """It says
  File "lark.py", line 2, in main
    run()
  File "lark.py", line 3, in run
    box.open()
    ^^^^^^^^^^
  File "box.py", line 4, in open
KeyError: 'lid'
and stops."""

JAVASCRIPT = """In the console:
[ERROR] TypeError: lid is not a function
    at Box.open (/lark/box.js:10:5)
    at new Shell (shell.js:3:1)
    at /lark/with space/main.js:1:2
    at Array.forEach (native)
Then nothing."""
JAVASCRIPT_SHORT = JAVASCRIPT.replace("    at Array.forEach (native)\n", "")

NATIVE = """It crashed.
#0  0x00007f12 in lark_open () from /lib/liblark.so
#1  0x00007f13 in lark_run (box=0x0) at lark.c:12
#2  main (argc=1) at main.c:3
#3  0x00007f15 in _start ()
Thanks"""
NATIVE_SHORT = NATIVE.replace("#3  0x00007f15 in _start ()\n", "")

LOGCAT = """Log:
E/AndroidRuntime(  241): java.lang.RuntimeException: no lid
E/AndroidRuntime(  241): \tat lark.Box.open(Box.java:1)

E/AndroidRuntime(  241): \tat lark.Box.a(Box.java:2)
E/AndroidRuntime(  241): \tat lark.Box.b(Box.java:3)
E/AndroidRuntime(  241): \tat lark.Box.c(Box.java:4)
end"""
LOGCAT_SHORT = """Log:
E/AndroidRuntime(  241): java.lang.RuntimeException: no lid
E/AndroidRuntime(  241): \tat lark.Box.open(Box.java:1)
E/AndroidRuntime(  241): \tat lark.Box.a(Box.java:2)
E/AndroidRuntime(  241): \tat lark.Box.b(Box.java:3)
end"""


def clean(cleaning: Cleaning, text: str) -> str:
    return cleaning(pd.Series([text]))[0]


@pytest.mark.parametrize(
    ("text", "short"),
    [
        (JAVA, JAVA_SHORT),
        (DOTNET, DOTNET_SHORT),
        (PYTHON, PYTHON_SHORT),
        (JAVASCRIPT, JAVASCRIPT_SHORT),
        (NATIVE, NATIVE_SHORT),
        (LOGCAT, LOGCAT_SHORT),
    ],
    ids=["java", "dotnet", "python", "javascript", "native", "logcat"],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_stack_traces(text, short, ending):
    text, short = text.replace("\n", ending), short.replace("\n", ending)
    assert clean(Cleaning(stack_traces="shorten"), text) == short
    assert clean(SHORTEN, text) == short
    first, last = text.split(ending)[0], text.split(ending)[-1]
    empty_line = ending if text.startswith("Look") else ""
    marked = f"{first}{ending}[STACK TRACE]{ending}{empty_line}{last}"
    assert clean(Cleaning(stack_traces="mark"), text) == clean(MARK, text) == marked
    assert clean(Cleaning("keep", "shorten", "mark", "mark", "mark"), text) == text


def test_a_java_frame_broken_over_two_lines():
    frames = [f"    at\norg.larkpost.Box.open{number}(Box.java:{number})" for number in range(5)]
    short = "".join(f"org.larkpost.Box.open{number}(Box.java:{number})\n" for number in range(3))
    assert clean(SHORTEN, "Oh:\n" + "\n".join(frames)) == "Oh:\n" + short


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


def test_no_more_than_five_errors_of_a_log_stay():
    log = [f"12:00:{number} error {number}" for number in range(10, 30)]
    assert clean(SHORTEN, "\n".join(log)) == "\n".join([*log[:6], log[-1]])


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
    for inside, marker in ((JAVA[14:-10].strip("\n"), "[STACK TRACE]"), (log, "[LOG]")):
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
