"""Bug-inducing changes by SZZ (Sliwerski, Zimmermann and Zeller, "When Do Changes Induce Fixes?", MSR 2005).

As in AG-SZZ (Kim, Zimmermann, Pan and Whitehead, "Automatic Identification of Bug-Introducing Changes", ASE 2006),
comments, blank lines and formatting are ignored. Instead of an annotation graph, ``git blame -w -M`` in the first
parent of the fix gives the origin of each line that the fix removed or changed. Only commits before the report count. A
fix that only adds lines has no inducing change.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.relevance import Links
from gedbd.io.console import track
from gedbd.localization.repository.commits import ChangeTables, Commit, FileChange, Hunk, LinkRow, make_links
from gedbd.localization.repository.fixes import Fix
from gedbd.localization.repository.git_command import Git, MissingObjectError, decode, encoded_paths, unquote
from gedbd.localization.repository.row_cache import RowCache
from gedbd.text.diffs import changed_lines

# A string that does not end on its line is taken to end there, because quotes are also apostrophes.
QUOTED = r'"(?:\\.|[^"\\\n])*(?:"|$)|\'(?:\\.|[^\'\\\n])*(?:\'|$)'
TEXT_BLOCK = r'"""(?:\\[\s\S]|(?!""")[^\\])*(?:"""|\Z)'
TEMPLATE = r"`(?:\\[\s\S]|[^`\\])*(?:`|\Z)"
TRIPLE_QUOTED = rf"{TEXT_BLOCK}|'''(?:\\[\s\S]|(?!''')[^\\])*(?:'''|\Z)"
BLOCK = r"/\*[\s\S]*?(?:\*/|\Z)"
LINE = r"//[^\n]*"
HASH = r"\#[^\n]*"
MARKUP = r"<!--[\s\S]*?(?:-->|\Z)"

# The comments of the languages with these suffixes, over several lines or up to the end of a line, and their string
# literals, in which comment signs mean nothing.
SYNTAXES = {
    (".java", ".kt", ".kts", ".scala", ".groovy", ".aj", ".cs", ".swift", ".dart"): (
        f"{BLOCK}|{LINE}",
        f"{TEXT_BLOCK}|{QUOTED}",
    ),
    (".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".m", ".mm", ".rs", ".proto"): (f"{BLOCK}|{LINE}", QUOTED),
    (".js", ".jsx", ".mjs", ".ts", ".tsx", ".go"): (f"{BLOCK}|{LINE}", f"{TEMPLATE}|{QUOTED}"),
    (".css",): (BLOCK, QUOTED),
    (".php",): (f"{BLOCK}|{LINE}|{HASH}", QUOTED),
    # A string that is a statement of its own, such as a docstring, is a comment.
    (".py", ".pyi"): (rf"{HASH}|^[ \t]*(?:{TRIPLE_QUOTED})(?=[ \t]*(?:\#.*)?$)", f"{TRIPLE_QUOTED}|{QUOTED}"),
    (".rb", ".pl", ".pm", ".r"): (HASH, QUOTED),
    (".sh", ".bash", ".yaml", ".yml", ".toml", ".cmake"): (rf"(?<![^\s;]){HASH}", QUOTED),
    (".properties",): (r"^[ \t]*[#!][^\n]*", r"(?!)"),
    (".xml", ".html", ".htm", ".xhtml", ".svg"): (MARKUP, r"(?!)"),
    (".sql",): (rf"{BLOCK}|--[^\n]*", QUOTED),
}
BY_SUFFIX = {suffix: syntax for suffixes, syntax in SYNTAXES.items() for suffix in suffixes}
SIGN = re.compile(r"[^\n]")
FORMAT = 1  # of cached traces; increase it when other lines are traced
ROOT = "no parent"
NO_SOURCE = "no source file"
ONLY_ADDED = "only additions"
NO_CODE = "only comments, blank lines and formatting removed"
ENTRY = re.compile(rb"([0-9a-f]{40,64}) (\d+) (\d+) (\d+)\n")  # first line in the commit and in this file, number
# Ignores the file of skipped commits that the repository's configuration may name.
BLAME = ("blame", "--no-textconv", "--no-ignore-revs-file", "-w", "-M", "--incremental")
MAX_RANGES = 1_000  # of a command line


def code_lines(source: str, path: str) -> set[int]:
    r"""The numbers, from 1, of the lines of a file that contain more than blanks and comments.

    ``x(); // why`` is code, and so is ``"// text"``; the lines of ``/* ... */`` are not. The suffix of the path names
    the language; for an unknown one, all lines that are not blank count as code. Lines end with ``\n``.
    """
    pattern = _tokens(PurePosixPath(path).suffix.lower())
    if pattern is not None:
        # Comments become blanks and line breaks; strings stay.
        source = pattern.sub(lambda token: token[0] if token["comment"] is None else SIGN.sub(" ", token[0]), source)
    return {number for number, line in enumerate(source.split("\n"), start=1) if line.strip()}


@cache
def _tokens(suffix: str) -> re.Pattern[str] | None:
    """A pattern that finds comments and string literals from left to right; None for an unknown suffix."""
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


class BlamedRun(NamedTuple):
    """Neighbouring lines that one commit last touched."""

    commit_id: str
    path: str  # in that commit
    old_line: int  # number of the first line there
    line: int  # number of the first line in the blamed file
    num_lines: int
    facts: dict[bytes, bytes]  # of the commit, such as ``summary``, by Git's names


def blame_runs(
    git: Git, revision: str, name: bytes, ranges: Iterable[tuple[int, int]], seconds: float | None = None
) -> Generator[BlamedRun, None, None]:
    """Blames ranges, first and last line, of a file by ``git blame -w -M``, the newest commits first.

    Neither white space nor a move within the file counts. Git is stopped after ``seconds``. Raises ValueError if there
    is no such commit, file or line.
    """
    facts: dict[str, dict[bytes, bytes]] = {}  # Git writes them once a commit
    id_ = ""
    old_line = first_line = num_lines = 0
    limits = [f"-L{first},{last}" for first, last in ranges]
    with git.stream(*BLAME, *limits, revision, "--", name, seconds=seconds) as lines:
        for line in lines:
            entry = ENTRY.fullmatch(line)
            key, _, value = line.rstrip(b"\n").partition(b" ")
            if entry is not None:
                id_ = entry[1].decode("ascii")
                facts.setdefault(id_, {})
                old_line, first_line, num_lines = (int(number) for number in entry.groups()[1:])
            elif key != b"filename":
                facts[id_][key] = value
            elif line.endswith(b"\n"):  # otherwise Git was stopped within the line
                yield BlamedRun(id_, unquote(decode(value)[0]), old_line, first_line, num_lines, facts[id_])


def blame_lines(git: Git, commit: str, path: str, lines: Sequence[int]) -> list[BlamedLine]:
    """The origin of each of M lines, numbered from 1, see ``blame_runs``.

    Raises ValueError if there is no such commit, file or line.
    """
    if lines and min(lines) < 1:
        raise ValueError(f"{git.path}: line {min(lines)} of {path}: lines are numbered from 1")
    revision = git.resolve(commit)
    name = stored_name(git, revision, path)
    ranges = list(_ranges(lines))
    origins: dict[int, BlamedLine] = {}
    for start in range(0, len(ranges), MAX_RANGES):
        for run in blame_runs(git, revision, name, ranges[start : start + MAX_RANGES]):
            for number in range(run.num_lines):
                origins[run.line + number] = BlamedLine(run.commit_id, run.path, run.old_line + number)
    return [origins[line] for line in lines]


def _ranges(lines: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last line of each run of neighbours: (3, 4) and (9, 9) for lines 4, 9, 3."""
    # Neighbours have the same difference from their positions: 3 - 0 and 4 - 1, but 9 - 2.
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


def is_source(change: FileChange, suffixes: Sequence[str] | None) -> bool:
    """Whether a text file has a suffix such as ``.java``, before the change if it existed; None allows any suffix."""
    if change.is_binary or change.is_submodule:
        return False
    suffix = PurePosixPath(change.old_path or change.path).suffix
    return suffixes is None or suffix.lower() in suffixes


def removed_code(change: FileChange, old_text: str) -> list[int]:
    """The numbers of the removed lines that held code, ascending; ``old_text`` is the whole file before the change.

    Comments, blank lines, and lines of which only the formatting changed do not count.
    """
    code = code_lines(old_text, change.old_path)
    return [number for hunk in change.hunks for number in _removed_without_formatting(hunk) if number in code]


def _removed_without_formatting(hunk: Hunk) -> Iterator[int]:
    """The numbers of the removed lines of a hunk, without formatting.

    Formatting is a block of changed lines that differs only in white space, and a removed line that differs only in
    white space from an added line of its hunk, such as an indented line.
    """
    blocks = [
        (removed, added)
        for removed, added in changed_blocks(hunk)
        if _squeezed("".join(text for _, text in removed)) != _squeezed("".join(added))
    ]
    added = Counter(_squeezed(text) for _, added_lines in blocks for text in added_lines)
    for number, text in (line for removed, _ in blocks for line in removed):
        if added[_squeezed(text)]:
            added[_squeezed(text)] -= 1  # one added line accounts for one removed line
        else:
            yield number


def changed_blocks(hunk: Hunk) -> Iterator[tuple[list[tuple[int, str]], list[str]]]:
    """Runs of changed lines: those removed, with their numbers in the old file, and those added.

    The hunk ``-a +b  c -d`` from line 7 on has ``(7, a), b`` and ``(9, d)``.
    """
    number = hunk.old_start
    for is_changed, run in groupby(hunk.lines, key=lambda line: line.startswith(("+", "-"))):
        lines = list(run)
        old = [line[1:] for line in lines if not line.startswith("+")]
        if is_changed:
            yield list(enumerate(old, start=number)), [line[1:] for line in lines if line.startswith("+")]
        number += len(old)


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
    # Lines that a copy lacks are still in its source file.
    unlike_copies = [change for change in sources if change.status != "C"]
    changed = [
        change for change in unlike_copies if any(line.startswith("-") for hunk in change.hunks for line in hunk.lines)
    ]
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


HUNK_SOURCE = "equal lines"
MIN_WORD_CHARACTERS = 8  # of a line, to ignore common ones such as "} finally {"
WORD_CHARACTER = re.compile(r"\w")
COMMENT = re.compile(r"//|/\*|\*|#|<!--|--")
# The removed lines of a fix by path.
RemovedLines = Mapping[str, set[str]]
SOURCE = "blame"
MISSING = "older versions of its files missing"
AFTER_REPORT = "all of the removed code newer than the report, or part of another fix of it"


def find_inducing(
    git: Git,
    fixes: Sequence[Fix],
    created_at: pd.Series,
    tables: ChangeTables,
    suffixes: Sequence[str] | None = None,
    cache_dir: Path | None = None,
    options: object = None,
) -> tuple[dict[str, Links], tuple[str, ...]]:
    """Links from fixed reports to the changes that introduced their bugs, by granularity, and warnings.

    ``created_at (N,)`` are the UTC dates of the reports; a missing date (``NaT``) counts as right before the fix.
    ``suffixes`` are those of source files, such as ``.java``; None for all text files. ``cache_dir`` is None for no
    cache; ``options`` are others that the hunks depend on, for its key.
    """
    collector = _Collector(tables, created_at, fixes)
    endings = None if suffixes is None else sorted(suffix.lower() for suffix in suffixes)
    opened = nullcontext() if cache_dir is None else RowCache(cache_dir, "blame", [FORMAT, endings, options])
    with opened as cache:
        for fix in track(fixes, "blaming fixed code", unit="fixes"):
            stored = None if cache is None else cache.value(fix.commit.id)
            if stored is not None:
                collector.add(fix, Trace([BlamedLine(*origin) for origin in stored[0]], stored[1]))
                continue
            try:
                trace = trace_fix(git, fix.commit, endings)
                if cache is not None:
                    cache.put(fix.commit.id, trace)
            except MissingObjectError:
                trace = Trace([], MISSING)  # not cached, as the object may be fetched later
            collector.add(fix, trace)
    num_documents = (len(tables.commits), len(tables.files), len(tables.hunks))
    links = {
        name: make_links(rows, len(created_at), count, SOURCE)
        for (name, rows), count in zip(collector.rows.items(), num_documents, strict=True)
    }
    warnings = collector.warnings
    if cache is not None and cache.was_damaged:
        warnings = (f"{cache.path} was damaged: the fixes are traced again", *warnings)
    return links, warnings


class _Collector:
    """Collects links from the traces of fixes."""

    def __init__(self, tables: ChangeTables, created_at: pd.Series, fixes: Sequence[Fix]) -> None:
        self._created_at = created_at
        self._fixed_by = {(row, fix.commit.id) for fix in fixes for row in fix.reports}
        self.rows: dict[str, list[LinkRow]] = {"commit": [], "file": [], "hunk": []}
        self._reasons: Counter[str] = Counter()
        self._lines: Counter[str] = Counter()
        commits = tables.commits.table
        dates = zip(commits["commit"], commits["created_at"], strict=True)
        self._commits = dict(zip(commits["id"], dates, strict=True))  # row and date
        self._files = {id_: row for row, id_ in enumerate(tables.files.ids)}
        hunks = tables.hunks.table
        self._hunk_ends = (hunks["new_start"] + hunks["new_count"]).tolist()
        # File and first line of each hunk, ascending, as the hunks of a file follow each other.
        self._hunk_starts = list(zip(hunks["file"].tolist(), hunks["new_start"].tolist(), strict=True))

    def add(self, fix: Fix, trace: Trace) -> None:
        """Adds the links of all reports of a fix."""
        origins = dict.fromkeys(trace.origins)
        fixed_at = pd.Timestamp(fix.commit.created_at)
        is_linked = [self._add_origin(report, fixed_at, line) for report in fix.reports for line in origins]
        if not any(is_linked):
            self._reasons[trace.reason or AFTER_REPORT] += 1

    def _add_origin(self, report: int, fixed_at: pd.Timestamp, line: BlamedLine) -> bool:
        """Links a report to the commit, file and hunk of a line; returns whether the commit counts."""
        commit = self._commits.get(line.commit_id)
        if commit is None:
            self._lines["commits outside of the history"] += 1
            return False
        row, made_at = commit
        # A comparison with NaT is false.
        if made_at >= self._created_at.iloc[report] or (report, line.commit_id) in self._fixed_by:
            return False
        self.rows["commit"].append((report, row, fixed_at))
        file = self._files.get(f"{line.commit_id}:{line.path}")
        hunk = None if file is None else self._hunk(file, line.line)
        if file is not None:
            self.rows["file"].append((report, file, fixed_at))
        if hunk is None:
            self._lines["a hunk that was cut off"] += 1
        else:
            self.rows["hunk"].append((report, hunk, fixed_at))
        return True

    def _hunk(self, file: int, line: int) -> int | None:
        """The row of the hunk that introduced a line of a file; None if it was cut off."""
        # The last hunk that starts at or before the line: of (file, start) (4, 3) and (4, 20), the second for line 25.
        row = bisect_right(self._hunk_starts, (file, line)) - 1
        if row < 0 or self._hunk_starts[row][0] != file or line >= self._hunk_ends[row]:
            return None
        return row

    @property
    def warnings(self) -> tuple[str, ...]:
        """Counts of fixes without inducing changes, by reason."""
        reasons = [f"fixes without inducing commits, {reason}: {count:,}" for reason, count in self._reasons.items()]
        lines = [f"lines blamed on {origin}: {count:,}" for origin, count in self._lines.items()]
        return (*reasons, *lines)


def link_hunks(fixing: Links, inducing_files: Links, tables: ChangeTables) -> tuple[Links, tuple[str, ...]]:
    """Links reports to the hunks that introduced their bugs by adding a line that the fix removes.

    The links have the dates of the links to files; a warning counts the reports with and without such links.
    """
    hunks = rows_of_each(tables.hunks.table["file"].to_numpy(), len(tables.files))
    hunks_of_commit = rows_of_each(tables.hunks.table["commit"].to_numpy(), len(tables.commits))
    paths = tables.hunks.table["paths"].tolist()
    diffs = tables.hunks.table["diff"].tolist()
    rows: list[LinkRow] = []
    linked = set()
    for report in inducing_files.table["query"].unique().tolist():
        links = inducing_files.table[inducing_files.table["query"] == report]
        fixes = [row for commit in fixing.relevant(report) for row in hunks_of_commit[commit].tolist()]
        removed = _removed_lines([paths[row] for row in fixes], [diffs[row] for row in fixes])
        for file, made_at in zip(links["document"], links["made_at"], strict=True):
            for row in hunks[file].tolist():
                if _of_same_file(removed, paths[row]) & _code_lines(diffs[row], "+"):
                    rows.append((report, row, made_at))
                    linked.add(report)
    total = inducing_files.table["query"].nunique()
    warning = (
        f"reports with inducing files whose inducing hunks are found by equal lines: {len(linked):,}; not found, as"
        f" diffs were cut or lines were changed in between: {total - len(linked):,}"
    )
    return make_links(rows, inducing_files.num_queries, len(tables.hunks), HUNK_SOURCE), (warning,)


def rows_of_each(owner: np.ndarray, count: int) -> list[np.ndarray]:
    """The rows of each owner, ascending: ``[0, 0, 2]`` of 3 owners gives rows 0 and 1, none, and 2."""
    ends = np.cumsum(np.bincount(owner, minlength=count))
    return np.split(np.argsort(owner, kind="stable"), ends[:-1])


def _removed_lines(paths: Sequence[str], diffs: Sequence[str]) -> RemovedLines:
    """The lines of code that a fix removes and does not add again, by path."""
    removed: dict[str, set[str]] = defaultdict(set)
    added: dict[str, set[str]] = defaultdict(set)
    for path, diff in zip(paths, diffs, strict=True):
        removed[path] |= _code_lines(diff, "-")
        added[path] |= _code_lines(diff, "+")
    return {path: lines - added[path] for path, lines in removed.items()}


def _of_same_file(removed: RemovedLines, path: str) -> set[str]:
    """The removed lines of a path, or of all files with its name if the path has moved."""
    if path in removed:
        return removed[path]
    name = PurePosixPath(path).name
    return {line for other, lines in removed.items() if PurePosixPath(other).name == name for line in lines}


def _code_lines(hunk: str, sign: str) -> set[str]:
    """The stripped lines of a sign that may contain code."""
    stripped = (line.strip() for line_sign, line in changed_lines(hunk) if line_sign == sign)
    texts = (text for text in stripped if not COMMENT.match(text))
    return {text for text in texts if len(WORD_CHARACTER.findall(text)) >= MIN_WORD_CHARACTERS}
