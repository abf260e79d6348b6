"""The parts of files that match a report: functions, methods, and blocks of other lines."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, takewhile
from pathlib import PurePosixPath
from typing import NamedTuple

from gedbd.localization.change_ranking.report_words import Frame
from gedbd.localization.locating.located_changes import MAX_LINES, MAX_TERMS, MatchedLine, joined_spans, word_spans
from gedbd.localization.repository.git_command import Git, decode, find_entries, object_sizes, read_blobs
from gedbd.text.words import PART, WORD, normalise

MAX_BLOCK_LINES = 40  # of a section that is not a function
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
# After these, a name and a parenthesis are a call, not a header.
STATEMENTS = """
await case catch delete do elif else elsif for foreach if in instanceof lock new not or return super switch synchronized
this throw try typeof unless until using when while yield assert goto
"""
_MODIFIER = rf"(?:{'|'.join(MODIFIERS.split())}|pub(?:\([^()\n]*\))?|@\w+(?:\([^()\n]*\))?)"
_NO_STATEMENT = rf"(?!(?:{'|'.join(STATEMENTS.split())})\b)"
_KEYWORD_HEADER = rf"(?:{_MODIFIER}[ \t]+)*(?:{'|'.join(KEYWORDS.split())})[ \t]+[\w$*(<\[&'`]"
# Parameters to the end of the line, or before the body: "(int a," or "(int a) { return a; }".
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
_NONE = re.compile(r"(?!)")
_CALLED = re.compile(r"(?<![@\w])(?!pub\b)(\w+)(?:<[^<>()]*>)?\(")  # neither "@Test(x)" nor "pub(crate)"
_SPACED = re.compile(r"(\w+)[ \t]+\(")
_DECLARED = re.compile(rf"\b(?:{'|'.join(KEYWORDS.split())}|const|let|var)[ \t]+(\w+)")
INDENTED = frozenset({".py", ".pyi", ".pyx", ".nim"})  # languages with blocks by indentation
_CLOSING = re.compile(r"\}|end\b")
BEFORE_HEADER = ("//", "/*", "*", "#", "@", "--", ";;", "[", "<!--")  # comments, annotations, attributes
MAX_BYTES = 2_000_000
MAX_LINE_CHARS = 1_000
BINARY_BYTES = 8_000  # a zero byte in these marks a binary file, as in Git
MAX_FRAME_LINES = 5  # of a place, those of the frames closest to the error
EXACT_WEIGHT = 2.0  # of an identifier of several parts that the report contains
CONSTRUCTORS = {"<init>", "<clinit>", "ctor", "cctor"}


def _header(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.MULTILINE)


_KEYWORDS_ONLY = _header(rf"^[ \t]*{_KEYWORD_HEADER}")
_TYPED = _header(rf"^[ \t]*(?:{_KEYWORD_HEADER}|{_TYPED_HEADER}|{_CONSTRUCTOR})")
_C = _header(rf"^[ \t]*(?:{_KEYWORD_HEADER}|{_TYPED_HEADER})", _C_HEADER)
_SCRIPT = _header(rf"^[ \t]*(?:{_KEYWORD_HEADER}|{_SCRIPT_METHOD}|{_SCRIPT_CONSTANT})")
_MARKDOWN = _header(r"^#{1,6}[ \t]")
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


class CodeSection(NamedTuple):
    """A function or a block of other lines."""

    start: int  # first line, from 1, including a comment before a function
    end: int  # last line
    header: int  # line with the name of the function; 0 for a block
    name: str  # the header, stripped; of a block, that of the class or function around it, or empty


def find_sections(lines: Sequence[str], path: str) -> list[CodeSection]:
    """Splits the lines of a file, without line feeds, into sections; the suffix of the path determines the language."""
    suffix = PurePosixPath(path).suffix.lower()
    is_indented = suffix in INDENTED
    cut = [line[:MAX_NAME_CHARS] for line in lines]  # matching may take quadratic time in the line length
    positions = list(accumulate((len(line) + 1 for line in cut), initial=0))  # of each line in the joined text
    matches = _PATTERNS.get(suffix, _KEYWORDS_ONLY).finditer("\n".join(cut))
    headers = [bisect_right(positions, match.start()) for match in matches]  # their line numbers
    starts = [_start(lines, header) for header in headers]
    sections = list(_blocks(lines, 1, starts[0] - 1 if starts else len(lines), ""))
    for number, header in enumerate(headers):
        limit = starts[number + 1] - 1 if number + 1 < len(headers) else len(lines)
        end = _end(lines, header, limit, is_indented)
        sections.append(CodeSection(starts[number], end, header, lines[header - 1].strip()[:MAX_NAME_CHARS]))
        sections += _blocks(lines, end + 1, limit, _enclosing(lines, headers[:number], header, end + 1, limit))
    return sections


def declared_name(header: str) -> str:
    """The name of the function or class that a header declares, or empty.

    ``void run(int a) {`` declares ``run``, and ``class Parser extends Reader {`` declares ``Parser``.
    """
    match = _CALLED.search(header) or _DECLARED.search(header) or _SPACED.search(header)
    return match[1] if match else ""


def _start(lines: Sequence[str], header: int) -> int:
    """The first line of the comment and the annotations before a header, or the header."""
    number = header
    while number > 1 and lines[number - 2].lstrip().startswith(BEFORE_HEADER):
        number -= 1
    return number


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _end(lines: Sequence[str], header: int, limit: int, is_indented: bool) -> int:
    """The last line of a function, up to a limit; without an end, its last line that is not blank."""
    indent = _indent(lines[header - 1])
    last = header
    for number in range(header + 1, limit + 1):
        line = lines[number - 1]
        text = line.lstrip()
        if not text:
            continue
        line_indent = len(line) - len(text)
        is_closing = _CLOSING.match(text) is not None
        if line_indent == indent and is_closing and not is_indented:
            return number
        if line_indent <= indent and (is_closing or (is_indented and text[0] not in ")]}")):
            return last
        last = number
    return last


def _enclosing(lines: Sequence[str], headers: Sequence[int], header: int, start: int, end: int) -> str:
    """The header of the class or function around lines: the last one with less indentation."""
    indents = [_indent(line) for line in lines[start - 1 : end] if line.strip()]
    if not indents:
        return ""
    enclosing = (number for number in (header, *reversed(headers)) if _indent(lines[number - 1]) < indents[0])
    number = next(enclosing, 0)
    return lines[number - 1].strip()[:MAX_NAME_CHARS] if number else ""


def _blocks(lines: Sequence[str], start: int, end: int, name: str) -> Iterator[CodeSection]:
    """Splits lines into blocks of at most ``MAX_BLOCK_LINES``, after a blank line if possible."""
    while start <= end:
        last = min(start + MAX_BLOCK_LINES - 1, end)
        if last < end:
            blank = (number for number in range(last, start, -1) if not lines[number - 1].strip())
            last = next(blank, last)
        yield CodeSection(start, last, 0, name)
        start = last + 1


@dataclass(frozen=True)
class PlaceCommit:
    """A commit that last changed ``num_lines`` lines of a place; its title is the first line of the message."""

    id: str
    created_at: datetime
    title: str
    num_lines: int


@dataclass(frozen=True)
class MatchedPlace:
    """Lines of a file that match a report."""

    path: str
    start: int  # as in ``CodeSection``
    end: int  # last line
    header: int  # line with the name of the function; 0 for a block
    name: str  # the header of the function, or of the class or function around the block
    score: float  # comparable among the places of one file only
    terms: tuple[str, ...]  # words shared with the report, largest weight first
    # the lines that match best, and the first ``MAX_FRAME_LINES`` that a stack trace names, in order
    lines: tuple[MatchedLine, ...]
    num_left_out: int  # number of further lines that a stack trace names
    is_named: bool  # whether a stack trace names it
    commits: tuple[PlaceCommit, ...] = ()  # commits that last changed it, newest first; none if Git took too long


class FileMatch(NamedTuple):
    """The words that a file shares with a report, largest weight first, and its places that match, best first."""

    terms: tuple[str, ...] = ()
    places: tuple[MatchedPlace, ...] = ()


class FramePlace(NamedTuple):
    """A stack frame that belongs to a file."""

    frame: Frame
    number: int  # position in the stack, 1 for the frame that raised the error
    weight: float  # 1 for that frame, falling to 0


def find_places(
    git: Git,
    commit: str,
    paths: Sequence[str],
    weights: Mapping[str, float],
    max_places: int,
    frames: Sequence[Frame] = (),
    max_files: int | None = None,
) -> dict[str, FileMatch]:
    """The places that match a report best, at most ``max_places`` per file, in the first ``max_files`` files.

    The score of a place is the sum of the weights of its words, lower case; identifiers of several parts count twice,
    and the name of a function once more. Places named by ``frames``, those of the report's stack traces, come first.

    Returns the match of each path; empty if it is not a file (such as a symbolic link), binary, longer than
    ``MAX_BYTES``, missing from a partial clone, or shares no word. Raises ValueError if there is no such commit, or it
    cannot be read.
    """
    matches = dict.fromkeys(paths, FileMatch())
    named = frames_in(frames, paths)
    searched = set(paths[:max_files])
    finder = _PlaceFinder(weights)
    for path, text in _read_texts(git, commit, paths):
        places = finder.find(path, text, named[path]) if path in searched else ()
        best = sorted(places, key=lambda place: -place.score)[:max_places]
        matches[path] = FileMatch(finder.terms(text), tuple(best))
    return matches


def _read_texts(git: Git, commit: str, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The path and content of each text file."""
    files = [entry for entry in find_entries(git, commit, paths) if entry.is_file]
    sizes = object_sizes(git, [file.id for file in files])
    files = [file for file in files if sizes.get(file.id, MAX_BYTES + 1) <= MAX_BYTES]
    for file, content in zip(files, read_blobs(git, [file.id for file in files]), strict=True):
        if b"\0" not in content[:BINARY_BYTES]:
            yield file.path, decode(content)[0]


class _PlaceFinder:
    """Finds the places of files that match one report."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self._max_score = 2 * EXACT_WEIGHT * sum(weights.values()) + 1.0  # above any score of words

    def terms(self, text: str) -> tuple[str, ...]:
        """The words that a text shares with the report, largest weight first."""
        terms = {shared.word for word in set(WORD.findall(text)) for shared in word_spans(word, self._weights)}
        return tuple(sorted(terms, key=lambda term: (-self._weights[term], term)))

    def find(self, path: str, text: str, frames: Sequence[FramePlace]) -> Iterator[MatchedPlace]:
        """The places of a file that share a word or are named by a frame, in order."""
        lines = [line.removesuffix("\r")[:MAX_LINE_CHARS] for line in text.split("\n")]
        if not lines[-1]:
            lines.pop()  # the file ends with a line feed
        # Most words of a file are not in the report: each is looked up once.
        hits = {word for word in set(WORD.findall(text)) if any(word_spans(word, self._weights))}
        if not hits and not frames:
            return
        sections = find_sections(lines, path)
        named = _named_sections(sections, lines, frames)
        for section in sections:
            place = self._match(path, section, lines, hits, named.get(section, []))
            if place is not None:
                yield place

    def _match(
        self, path: str, section: CodeSection, lines: Sequence[str], hits: set[str], frames: Sequence[FramePlace]
    ) -> MatchedPlace | None:
        terms: dict[str, float] = {}
        matched: dict[int, MatchedLine] = {}
        values: dict[int, float] = {}
        for number in range(section.start, section.end + 1):
            line = lines[number - 1]
            if hits.isdisjoint(WORD.findall(line)):
                continue
            shared = list(word_spans(line, self._weights))
            line_terms: dict[str, float] = {}
            for word, start, end in shared:
                is_exact = len(PART.findall(line[start:end])) > 1
                line_terms[word] = max(
                    line_terms.get(word, 0.0), self._weights[word] * (EXACT_WEIGHT if is_exact else 1.0)
                )
            terms |= {word: max(value, terms.get(word, 0.0)) for word, value in line_terms.items()}
            values[number] = sum(line_terms.values())
            spans = joined_spans([(word.start, word.end) for word in shared])
            matched[number] = MatchedLine(" ", number, line, spans)
        if not matched and not frames:
            return None
        best = set(sorted(values, key=lambda number: -values[number])[:MAX_LINES])
        # A deep recursion repeats lines, and a long function may be named at many lines.
        frame_lines = dict.fromkeys(frame.frame.line for frame in sorted(frames, key=lambda frame: frame.number))
        at_frames = [line for line in frame_lines if line is not None and section.start <= line <= section.end]
        numbers = best.union(at_frames[:MAX_FRAME_LINES])
        score = sum(terms.values()) + terms.get(normalise(_declared_name(section)), 0.0)
        if frames:
            score += self._max_score * (1 + max(frame.weight for frame in frames))
        return MatchedPlace(
            path,
            *section,
            score=score,
            terms=tuple(sorted(terms, key=lambda term: (-terms[term], term))[:MAX_TERMS]),
            lines=tuple(
                matched.get(number) or MatchedLine(" ", number, lines[number - 1], ()) for number in sorted(numbers)
            ),
            num_left_out=len(set(at_frames) - numbers),
            is_named=bool(frames),
        )


def frames_in(frames: Sequence[Frame], paths: Sequence[str]) -> dict[str, list[FramePlace]]:
    """The frames in each file, in the order of the report.

    A frame belongs to the files with its file name whose paths share the most last folders with the frame's path. A
    frame with a path must share at least the last folder, which excludes files of libraries.
    """
    by_path: dict[str, list[FramePlace]] = {path: [] for path in paths}
    by_name = defaultdict(list)
    for path in by_path:
        by_name[PurePosixPath(path).name].append(path)
    # Python tracebacks end with the function that raised the error, others begin with it.
    rest = [frame for frame in frames if not frame.file.endswith(".py")]
    ordered = [*rest, *(frame for frame in reversed(frames) if frame.file.endswith(".py"))]
    for number, frame in enumerate(ordered):
        parts = _parts(frame)
        num_common = {}
        for path in by_name.get(parts[-1], []):
            pairs = zip(reversed(path.split("/")), reversed(parts), strict=False)
            num_common[path] = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        for path, count in num_common.items():
            min_common = min(2, path.count("/") + 1) if "/" in frame.file or "\\" in frame.file else 1
            if count == max(num_common.values()) and count >= min_common:
                by_path[path].append(FramePlace(frame, number + 1, 1 - number / len(ordered)))
    return by_path


def _parts(frame: Frame) -> list[str]:
    """The path of a frame's file as folders and name; without folders, those of its package."""
    parts = frame.file.replace("\\", "/").split("/")
    return [*frame.class_name.split(".")[:-1], *parts] if len(parts) == 1 else parts


def _named_sections(
    sections: Sequence[CodeSection], lines: Sequence[str], frames: Sequence[FramePlace]
) -> dict[CodeSection, list[FramePlace]]:
    """The section that each frame names.

    The line may refer to another version of the file. So the section is the function with the name of the frame's
    method that is closest to the line or, without such a function, the section that contains the line.
    """
    by_section: dict[CodeSection, list[FramePlace]] = defaultdict(list)
    for place in frames:
        line = place.frame.line or 0
        method = _method(place.frame)
        named = [section for section in sections if method and method == _declared_name(section)]
        around = [section for section in sections if section.start <= line <= section.end]
        nearest = min(named, key=lambda section: max(section.start - line, line - section.end, 0), default=None)
        if nearest is None and around and line <= len(lines):
            nearest = around[0]
        if nearest is not None:
            by_section[nearest].append(place)
    return by_section


def _declared_name(section: CodeSection) -> str:
    return declared_name(section.name) if section.header else ""


def _method(frame: Frame) -> str:
    """The name of a frame's method in the source; for a constructor its class, for a lambda the method around it."""
    if frame.method in CONSTRUCTORS:
        return frame.class_name.rpartition(".")[2].rpartition("$")[2]
    parts = frame.method.split("$")
    return parts[1] if parts[0] == "lambda" and len(parts) > 1 else parts[0].rpartition(".")[2]
