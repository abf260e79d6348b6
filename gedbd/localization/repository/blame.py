"""Which commits last touched the lines of code that a fix removed or changed."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import PurePosixPath
from typing import NamedTuple

from gedbd.localization.repository.commits import Commit, FileChange, Hunk
from gedbd.localization.repository.git_command import Git, decode, encoded_paths, unquote
from gedbd.localization.repository.row_cache import RowCache

# A text that does not end on its line is taken to end there, as quotes also occur as apostrophes.
QUOTED = r'"(?:\\.|[^"\\\n])*(?:"|$)|\'(?:\\.|[^\'\\\n])*(?:\'|$)'
TEXT_BLOCK = r'"""(?:\\[\s\S]|(?!""")[^\\])*(?:"""|\Z)'
TEMPLATE = r"`(?:\\[\s\S]|[^`\\])*(?:`|\Z)"
TRIPLE_QUOTED = rf"{TEXT_BLOCK}|'''(?:\\[\s\S]|(?!''')[^\\])*(?:'''|\Z)"
BLOCK = r"/\*[\s\S]*?(?:\*/|\Z)"
LINE = r"//[^\n]*"
HASH = r"\#[^\n]*"
MARKUP = r"<!--[\s\S]*?(?:-->|\Z)"

# The comments of the languages with these suffixes, over several lines or up to the end of a line, and their texts in
# quotes, in which the signs of a comment mean nothing.
SYNTAXES = {
    (".java", ".kt", ".kts", ".scala", ".groovy", ".aj", ".cs", ".swift", ".dart"): (
        f"{BLOCK}|{LINE}",
        f"{TEXT_BLOCK}|{QUOTED}",
    ),
    (".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".m", ".mm", ".rs", ".proto"): (f"{BLOCK}|{LINE}", QUOTED),
    (".js", ".jsx", ".mjs", ".ts", ".tsx", ".go"): (f"{BLOCK}|{LINE}", f"{TEMPLATE}|{QUOTED}"),
    (".css",): (BLOCK, QUOTED),
    (".php",): (f"{BLOCK}|{LINE}|{HASH}", QUOTED),
    # A text that is a statement of its own, such as a docstring, is a comment.
    (".py", ".pyi"): (rf"{HASH}|^[ \t]*(?:{TRIPLE_QUOTED})(?=[ \t]*(?:\#.*)?$)", f"{TRIPLE_QUOTED}|{QUOTED}"),
    (".rb", ".pl", ".pm", ".r"): (HASH, QUOTED),
    (".sh", ".bash", ".yaml", ".yml", ".toml", ".cmake"): (rf"(?<![^\s;]){HASH}", QUOTED),
    (".properties",): (r"^[ \t]*[#!][^\n]*", r"(?!)"),
    (".xml", ".html", ".htm", ".xhtml", ".svg"): (MARKUP, r"(?!)"),
    (".sql",): (rf"{BLOCK}|--[^\n]*", QUOTED),
}
BY_SUFFIX = {suffix: syntax for suffixes, syntax in SYNTAXES.items() for suffix in suffixes}
SIGN = re.compile(r"[^\n]")
FORMAT = 1  # of cached traces, to be raised whenever other lines are traced
ROOT = "no parent"
NO_SOURCE = "no source file"
ONLY_ADDED = "only additions"
NO_CODE = "only comments, blank lines and formatting removed"
RECORD = re.compile(rb"([0-9a-f]{40,64}) (\d+) (\d+)")
MAX_RANGES = 1_000  # of a command line


def code_lines(source: str, path: str) -> set[int]:
    r"""The numbers, from 1, of the lines of a file that hold more than blanks and comments.

    ``x(); // why`` is code, and so is ``"// a text"``; the lines of ``/* ... */`` are not. The suffix of the path names
    the language; for an unknown one, all lines that are not blank count as code. Lines end with ``\n``.
    """
    pattern = _tokens(PurePosixPath(path).suffix.lower())
    if pattern is not None:
        # Comments become blanks with line breaks; texts stay.
        source = pattern.sub(lambda token: token[0] if token["comment"] is None else SIGN.sub(" ", token[0]), source)
    return {number for number, line in enumerate(source.split("\n"), start=1) if line.strip()}


@cache
def _tokens(suffix: str) -> re.Pattern[str] | None:
    """A pattern that finds comments and texts from left to right; None for an unknown suffix."""
    syntax = BY_SUFFIX.get(suffix)
    if syntax is None:
        return None
    comment, text = syntax
    return re.compile(f"(?P<comment>{comment})|{text}", re.MULTILINE)


class BlamedLine(NamedTuple):
    """Where a line comes from: the commit that last touched it, and the path and number it had there."""

    commit_id: str
    path: str
    line: int


def blame_lines(git: Git, commit: str, path: str, lines: Sequence[int]) -> list[BlamedLine]:
    """The origin of each of M lines, by ``git blame -w -M``: neither white space nor a move within a file counts.

    Lines are numbered from 1.

    Raises:
        ValueError: There is no such commit, file or line.
    """
    if lines and min(lines) < 1:
        raise ValueError(f"{git.path}: line {min(lines)} of {path}: lines are numbered from 1")
    revision = git.resolve(commit)
    name = stored_name(git, revision, path)
    ranges = list(_ranges(lines))
    origins: dict[int, BlamedLine] = {}
    for start in range(0, len(ranges), MAX_RANGES):
        origins |= _blame(git, revision, name, ranges[start : start + MAX_RANGES])
    return [origins[line] for line in lines]


def _ranges(lines: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last line of each run of neighbours: (3, 4) and (9, 9) for lines 4, 9, 3."""
    # Neighbours have the same distance to their places: 3 - 0 and 4 - 1, but 9 - 2.
    for _, run in groupby(enumerate(sorted(set(lines))), key=lambda item: item[1] - item[0]):
        numbers = [number for _, number in run]
        yield numbers[0], numbers[-1]


def stored_name(git: Git, revision: str, path: str) -> bytes:
    """The path as the repository spells it: names that are not UTF-8 were decoded."""
    names = encoded_paths(path)
    for name in names[1:]:  # there is one only for a path outside of ASCII
        if git.run("ls-tree", "-z", revision, "--", name):
            return name
    return names[0]


def _blame(git: Git, revision: str, path: bytes, ranges: Sequence[tuple[int, int]]) -> dict[int, BlamedLine]:
    """The origin of each line of some ranges."""
    # The repository's configuration may name a file of commits that blame looks through; it does not count here.
    arguments = ["blame", "--no-textconv", "--no-ignore-revs-file", "-w", "-M", "--porcelain"]
    arguments += [f"-L{first},{last}" for first, last in ranges]
    origins: dict[int, BlamedLine] = {}
    paths: dict[str, str] = {}  # repeated for each group only if a commit had lines in several files
    commit = ""
    old_line = new_line = 0
    for line in git.run(*arguments, revision, "--", path).split(b"\n"):
        if line.startswith(b"\t"):  # the content ends the record of a line
            origins[new_line] = BlamedLine(commit, paths[commit], old_line)
        elif line.startswith(b"filename "):
            paths[commit] = unquote(decode(line[len(b"filename ") :])[0])
        elif match := RECORD.match(line):
            commit = match[1].decode("ascii")
            old_line = int(match[2])
            new_line = int(match[3])
    return origins


class Block(NamedTuple):
    """Neighbouring changed lines of a hunk: removed ones as number in the old file (from 1) and text, added texts."""

    removed: list[tuple[int, str]]
    added: list[str]


def is_source(change: FileChange, suffixes: Sequence[str] | None) -> bool:
    """Whether a text file's name, before the change if it has one, ends with a suffix such as ``.java``; None: any."""
    if change.is_binary or change.is_submodule:
        return False
    suffix = PurePosixPath(change.old_path or change.path).suffix
    return suffixes is None or suffix.lower() in suffixes


def removed_code(change: FileChange, old_text: str) -> list[int]:
    """The numbers of the removed lines that held code, ascending; ``old_text`` is the whole file before the change.

    Comments and blank lines do not count, nor does formatting: a block of changed lines that is the same before and
    after but for white space, and a removed line that is among the added ones of its hunk but for white space, such as
    one that is indented.
    """
    code = code_lines(old_text, change.old_path)
    return [number for hunk in change.hunks for number in _changed_for_good(hunk) if number in code]


def _changed_for_good(hunk: Hunk) -> Iterator[int]:
    """The numbers of the removed lines of a hunk that are no formatting."""
    blocks = [
        block
        for block in changed_blocks(hunk)
        if _squeezed("".join(text for _, text in block.removed)) != _squeezed("".join(block.added))
    ]
    added = Counter(_squeezed(text) for block in blocks for text in block.added)
    for number, text in (line for block in blocks for line in block.removed):
        if added[_squeezed(text)]:
            added[_squeezed(text)] -= 1  # one added line accounts for one removed line
        else:
            yield number


def changed_blocks(hunk: Hunk) -> Iterator[Block]:
    """Yields the blocks of a hunk: the hunk ``-a +b  c -d`` from line 7 on has ``(7, a), b`` and ``(9, d)``."""
    block = Block([], [])
    number = hunk.old_start
    for line in hunk.lines:
        sign = line[:1]
        if sign == "+":
            block.added.append(line[1:])
            continue
        if sign == "-":
            block.removed.append((number, line[1:]))
        elif block.removed or block.added:
            yield block
            block = Block([], [])
        number += 1
    if block.removed or block.added:
        yield block


def _squeezed(text: str) -> str:
    return "".join(text.split())


class Trace(NamedTuple):
    """The origins of the code that a fix removed or changed; if there are none, ``reason`` says why."""

    origins: list[BlamedLine]
    reason: str


def trace_fix(git: Git, fix: Commit, suffixes: Sequence[str] | None) -> Trace:
    """Blames the code that a commit removed or changed, in its first parent; ``suffixes`` None: of all text files."""
    if not fix.parents:
        return Trace([], ROOT)
    sources = [change for change in fix.files if is_source(change, suffixes)]
    changed = [change for change in sources if _removes(change)]
    if not changed:
        return Trace([], ONLY_ADDED if sources else NO_SOURCE)
    origins: list[BlamedLine] = []
    for change in changed:
        name = stored_name(git, fix.parents[0], change.old_path)
        old_text, _ = decode(git.run("cat-file", "blob", fix.parents[0].encode("ascii") + b":" + name))
        lines = removed_code(change, old_text)
        if lines:
            origins += blame_lines(git, fix.parents[0], change.old_path, lines)
    return Trace(origins, "" if origins else NO_CODE)


def _removes(change: FileChange) -> bool:
    """Whether lines are gone; those that a copy lacks are still in the file that it was copied from."""
    return change.status != "C" and any(line.startswith("-") for hunk in change.hunks for line in hunk.lines)


def cached_trace(cache: RowCache, git: Git, fix: Commit, suffixes: Sequence[str] | None) -> Trace:
    """The trace of ``trace_fix``, from the cache if it is there."""
    stored = cache.value(fix.id)
    if stored is not None:
        origins, reason = stored
        return Trace([BlamedLine(*origin) for origin in origins], reason)
    trace = trace_fix(git, fix, suffixes)
    cache.put(fix.id, trace)
    return trace
