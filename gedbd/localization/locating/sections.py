"""Divides the text of a file into sections: functions, methods, and blocks of other lines.

The headers of functions are found line by line, as Git finds what it shows behind the ``@@`` of a diff, in any
language. Where a function ends is told by the indentation of its closing bracket or ``end``, of Python by that of the
next statement.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

MAX_BLOCK_LINES = 40  # of a section that is no function
MAX_NAME_CHARS = 200
MODIFIERS = """
abstract actual async companion const data declare default export extern external final friend infix inline inner
internal lateinit local native open operator override partial private protected public sealed static suspend
synchronized tailrec template unsafe virtual
"""
KEYWORDS = """
class def defmacro defmodule defn defp enum extension fn fun func function impl interface macro_rules! mod module
namespace object proc protocol record struct sub trait type union
"""
# Behind these, a name and a bracket are a call and no header.
STATEMENTS = """
await case catch delete do elif else elsif for foreach if in instanceof lock new not or return super switch synchronized
this throw try typeof unless until using when while yield assert goto
"""
_MODIFIER = rf"(?:{'|'.join(MODIFIERS.split())}|pub(?:\([^()\n]*\))?|@\w+(?:\([^()\n]*\))?)"
_NO_STATEMENT = rf"(?!(?:{'|'.join(STATEMENTS.split())})\b)"
_KEYWORD_HEADER = rf"(?:{_MODIFIER}[ \t]+)*(?:{'|'.join(KEYWORDS.split())})[ \t]+[\w$*(<\[&'`]"
# The parameters: the line ends in them or behind them, or the function begins: "(int a," or "(int a) { return a; }".
_PARAMETERS = r"\((?:[^;\n]*$|[^;{}\n]*\)[^;{}\n]*\{)"
# "static int count(char *text" and "A::B(int c)", but neither "count(text)" nor "return count(text" nor "int a = b(".
_TYPED_HEADER = (
    rf"{_NO_STATEMENT}[A-Za-z_@~<][\w<>\[\],.?&*:@~]*[ \t]+(?:[\w<>\[\],.?&*:~]+[ \t]+)*[*&~]*[\w:~]+{_PARAMETERS}"
)
_CONSTRUCTOR = r"[A-Z]\w*\([^;{}\n]*\)[^;={}\n]*\{"
_C_HEADER = rf"^{_NO_STATEMENT}[A-Za-z_][\w<>:,~*& \t]*{_PARAMETERS}"
# "async run(a) {" of a class, and "const run = (a) => {".
_SCRIPT_METHOD = (
    rf"(?:(?:async|static|get|set|{_MODIFIER})[ \t]+)*{_NO_STATEMENT}(?!function\b)[#$\w]+[ \t]*"
    r"\([^;\n]*\)[^;=\n]*\{[ \t\r]*$"
)
_SCRIPT_CONSTANT = (
    r"(?:export[ \t]+)?(?:const|let|var)[ \t]+[$\w]+[ \t]*(?::[^=\n]*)?=[ \t]*"
    r"(?:async[ \t]*)?(?:function\b|\(|[$\w]+[ \t]*=>)"
)


def _header(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.MULTILINE)


_KEYWORDS_ONLY = _header(rf"^[ \t]*{_KEYWORD_HEADER}")
_TYPED = _header(rf"^[ \t]*(?:{_KEYWORD_HEADER}|{_TYPED_HEADER}|{_CONSTRUCTOR})")
_C = _header(rf"^[ \t]*(?:{_KEYWORD_HEADER}|{_TYPED_HEADER})", _C_HEADER)
_SCRIPT = _header(rf"^[ \t]*(?:{_KEYWORD_HEADER}|{_SCRIPT_METHOD}|{_SCRIPT_CONSTANT})")
_MARKDOWN = _header(r"^#{1,6}[ \t]")
_NONE = re.compile(r"(?!)")
_BY_SUFFIX = (
    (_TYPED, ".java .cs .groovy .gradle .dart .scala .vala .d"),
    (_C, ".c .h .cc .cpp .cxx .hh .hpp .hxx .inl .m .mm .cu .y .l"),
    (_SCRIPT, ".js .jsx .ts .tsx .mjs .cjs .vue .svelte"),
    (_MARKDOWN, ".md .markdown"),
    (
        _NONE,
        ".txt .rst .adoc .xml .json .yml .yaml .toml .ini .cfg .conf .properties .csv .tsv .html .htm .css .svg .tex",
    ),
)
_PATTERNS = {suffix: pattern for pattern, suffixes in _BY_SUFFIX for suffix in suffixes.split()}
_CALLED = re.compile(r"(?<![@\w])(?!pub\b)(\w+)(?:<[^<>()]*>)?\(")  # neither "@Test(x)" nor "pub(crate)"
_SPACED = re.compile(r"(\w+)[ \t]+\(")
_DECLARED = re.compile(rf"\b(?:{'|'.join(KEYWORDS.split())}|const|let|var)[ \t]+(\w+)")
INDENTED = frozenset({".py", ".pyi", ".pyx", ".nim"})  # languages whose blocks end with their indentation
_CLOSING = re.compile(r"\}|end\b")
BEFORE_HEADER = ("//", "/*", "*", "#", "@", "--", ";;", "[", "<!--")  # comments, annotations, attributes


class Section(NamedTuple):
    """Neighbouring lines of a file that belong together.

    Attributes:
        start: The first line, from 1; of a function, that of the comment before it.
        end: The last line.
        header: The line with the name of the function; 0 for a block of other lines.
        name: That line without the blanks around it; of a block, that of the class or function around it, empty if
            there is none.
    """

    start: int
    end: int
    header: int
    name: str


def find_sections(lines: Sequence[str], path: str) -> list[Section]:
    """The sections of a file, which hold each of its lines once, in order.

    Args:
        lines: The lines of the file, without their ends.
        path: Its path; the ending of the name tells the language.
    """
    suffix = PurePosixPath(path).suffix.lower()
    is_indented = suffix in INDENTED
    headers = _headers(lines, _PATTERNS.get(suffix, _KEYWORDS_ONLY))
    starts = [_start(lines, header) for header in headers]
    sections = list(_blocks(lines, 1, starts[0] - 1 if starts else len(lines), ""))
    for place, header in enumerate(headers):
        limit = starts[place + 1] - 1 if place + 1 < len(headers) else len(lines)
        end = _end(lines, header, limit, is_indented)
        sections.append(Section(starts[place], end, header, lines[header - 1].strip()[:MAX_NAME_CHARS]))
        sections += _blocks(lines, end + 1, limit, _around(lines, headers[:place], header, end + 1, limit))
    return sections


def declared_name(header: str) -> str:
    """The name of the function or class that a header declares; empty if it is not found.

    ``void run(int a) {`` declares ``run``, and ``class Parser extends Reader {`` declares ``Parser``.
    """
    match = _CALLED.search(header) or _DECLARED.search(header) or _SPACED.search(header)
    return match[1] if match else ""


def _headers(lines: Sequence[str], pattern: re.Pattern[str]) -> list[int]:
    """The numbers of the lines that are headers, ascending."""
    cut = [line[:MAX_NAME_CHARS] for line in lines]  # a pattern may take quadratic time for a line
    places = [0]  # where each line begins
    for line in cut:
        places.append(places[-1] + len(line) + 1)
    return [bisect_right(places, match.start()) for match in pattern.finditer("\n".join(cut))]


def _start(lines: Sequence[str], header: int) -> int:
    """The first line of the comment and the annotations before a header; the header if there are none."""
    number = header
    while number > 1 and lines[number - 2].lstrip().startswith(BEFORE_HEADER):
        number -= 1
    return number


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _end(lines: Sequence[str], header: int, limit: int, is_indented: bool) -> int:
    """The last line of a function, which is not behind a limit; without an end, its last line that is not blank."""
    indent = _indent(lines[header - 1])
    last = header
    for number in range(header + 1, limit + 1):
        line = lines[number - 1]
        text = line.lstrip()
        if not text:
            continue
        own = len(line) - len(text)
        is_closing = _CLOSING.match(text) is not None
        if own == indent and is_closing and not is_indented:
            return number
        if own <= indent and (is_closing or (is_indented and text[0] not in ")]}")):
            return last
        last = number
    return last


def _around(lines: Sequence[str], headers: Sequence[int], header: int, start: int, end: int) -> str:
    """The header of what is around some lines: the last one that is less indented than they are."""
    indents = [_indent(line) for line in lines[start - 1 : end] if line.strip()]
    if not indents:
        return ""
    around = (number for number in (header, *reversed(headers)) if _indent(lines[number - 1]) < indents[0])
    number = next(around, 0)
    return lines[number - 1].strip()[:MAX_NAME_CHARS] if number else ""


def _blocks(lines: Sequence[str], start: int, end: int, name: str) -> Iterator[Section]:
    """Divides lines into blocks of at most ``MAX_BLOCK_LINES``, after a blank line where there is one."""
    while start <= end:
        last = min(start + MAX_BLOCK_LINES - 1, end)
        if last < end:
            blank = (number for number in range(last, start, -1) if not lines[number - 1].strip())
            last = next(blank, last)
        yield Section(start, last, 0, name)
        start = last + 1
