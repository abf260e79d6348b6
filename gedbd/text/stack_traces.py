"""Frames of the stack traces in a report: Java and its relatives, Python, .NET, JavaScript."""

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_NAME_CHARS = 300  # of a method with its class
MAX_LINE_CHARS = 1000  # of a line that holds a frame of .NET or JavaScript
# What follows in parentheses behind a method of the Java virtual machine. Only this is searched for: the name before it
# is read backwards, so that a long text without a frame takes one pass.
JVM_PLACE = re.compile(
    r"\((?:([\w$-]{1,200}\.(?:java|kt|scala|groovy|clj|jsp))(?::(\d{1,9}))?|Native Method|Unknown Source)\)"
)
REVERSED_NAME = re.compile(r"[\w.$<>/@-]+")
PYTHON_FRAME = re.compile(r'File "([^"\n]{1,1000})", line (\d{1,9})(?:, in ([\w<>.]{1,200}))?')
LINE = re.compile(r"[^\n]+")
SCRIPT_SUFFIXES = (".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".vue")


class Frame(NamedTuple):
    """A frame of a stack trace.

    Attributes:
        class_name: The class with its package; empty where the frame names none.
        method: The method or function; empty where the frame names none.
        file: The file as the frame names it, a name or a path; empty where it names none.
        line: The line from 1; None where the frame names none.
    """

    class_name: str
    method: str
    file: str
    line: int | None


def find_frames(text: str) -> list[Frame]:
    """The frames of all stack traces in a text, in their order."""
    frames = [*_jvm_frames(text), *_python_frames(text), *_frames_by_line(text)]
    return [frame for _, frame in sorted(frames, key=lambda placed: placed[0])]


def _jvm_frames(text: str) -> Iterator[tuple[int, Frame]]:
    """Frames such as ``at java.base/a.b.Outer$Inner.run(Outer.java:12)``, with their places."""
    for match in JVM_PLACE.finditer(text):
        before = text[max(0, match.start() - MAX_NAME_CHARS) : match.start()]
        name = REVERSED_NAME.match(before[::-1])
        class_name, _, method = name[0][::-1].rpartition("/")[2].rpartition(".") if name else ("", "", "")
        if class_name and method:
            line = int(match[2]) if match[2] else None
            yield match.start(), Frame(class_name, method, match[1] or "", line)


def _python_frames(text: str) -> Iterator[tuple[int, Frame]]:
    """Frames such as ``File "a/b.py", line 12, in run``."""
    for match in PYTHON_FRAME.finditer(text):
        yield match.start(), Frame("", match[3] or "", match[1], int(match[2]))


def _frames_by_line(text: str) -> Iterator[tuple[int, Frame]]:
    """Frames of .NET and JavaScript, each on a line that begins with ``at``."""
    for match in LINE.finditer(text):
        line = match[0].strip() if len(match[0]) <= MAX_LINE_CHARS else ""
        if line.startswith("at "):
            frame = _dotnet_frame(line) or _script_frame(line)
            if frame is not None:
                yield match.start(), frame


def _dotnet_frame(line: str) -> Frame | None:
    r"""Reads a frame such as ``at A.B.Run(String name) in C:\a\B.cs:line 12``."""
    head, _, number = line.rpartition(":line ")
    call, _, file = head.partition(" in ")
    class_name, _, method = call.removeprefix("at ").partition("(")[0].rpartition(".")
    if not file or not method or not _is_number(number):
        return None
    return Frame(class_name.rstrip("."), method, file, int(number))  # a constructor is A.B..ctor


def _script_frame(line: str) -> Frame | None:
    """Reads a frame such as ``at Parser.run (a/b.js:12:5)`` or ``at a/b.js:12:5``."""
    words = line.split()
    file, *numbers = words[-1].strip("()").rsplit(":", 2)
    if not file.endswith(SCRIPT_SUFFIXES) or len(numbers) != 2 or not all(map(_is_number, numbers)):
        return None
    # The words between are "Parser.run", "async run", "new Parser", or nothing.
    class_name, _, method = (words[-2] if len(words) > 2 else "").rpartition(".")
    return Frame(class_name, method, file, int(numbers[0]))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
