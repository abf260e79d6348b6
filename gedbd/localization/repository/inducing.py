"""Bug-inducing changes by SZZ (Sliwerski, Zimmermann and Zeller, "When Do Changes Induce Fixes?", MSR 2005).

As in AG-SZZ (Kim, Zimmermann, Pan and Whitehead, "Automatic Identification of Bug-Introducing Changes", ASE 2006),
comments, blank lines and formatting are ignored. Instead of an annotation graph, ``git blame -w -M`` in the first
parent of the fix gives the origin of each line that the fix removed or changed. Only commits before the report count. A
fix that only adds lines has no inducing change.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.relevance import Links
from gedbd.io.console import item_progress
from gedbd.localization.repository.blame import FORMAT, BlamedLine, Trace, cached_trace, trace_fix
from gedbd.localization.repository.change_tables import ChangeTables
from gedbd.localization.repository.commits import LinkBuilder
from gedbd.localization.repository.fixes import Fix
from gedbd.localization.repository.git_command import Git, MissingObjectError
from gedbd.localization.repository.row_cache import RowCache
from gedbd.text.diffs import changed_lines

HUNK_SOURCE = "equal lines"
MIN_WORD_CHARACTERS = 8  # of a line, to ignore common ones such as "} finally {"
WORD_CHARACTER = re.compile(r"\w")
COMMENT = re.compile(r"//|/\*|\*|#|<!--|--")
# The removed lines of a fix by path.
RemovedLines = Mapping[str, set[str]]
SOURCE = "blame"
MISSING = "older versions of its files missing"
AFTER_REPORT = "all of the removed code newer than the report, or part of another fix of it"


class Inducing(NamedTuple):
    """Links from reports to inducing changes by granularity, and warnings."""

    links: dict[str, Links]
    warnings: tuple[str, ...]


def find_inducing(
    git: Git,
    fixes: Sequence[Fix],
    created_at: pd.Series,
    tables: ChangeTables,
    suffixes: Sequence[str] | None = None,
    cache_dir: Path | None = None,
    options: object = None,
) -> Inducing:
    """Finds the changes that induced the bugs of fixed reports.

    Args:
        git: The repository.
        fixes: The fixes.
        created_at: ``(N,)`` UTC dates of the reports; a missing date (``NaT``) counts as right before the fix.
        tables: The history.
        suffixes: Suffixes of source files, such as ``.java``; None for all text files.
        cache_dir: Folder of the cache; None for no cache.
        options: Other options that the hunks depend on, for the key of the cache.
    """
    collector = _Collector(tables, created_at, fixes)
    endings = None if suffixes is None else sorted(suffix.lower() for suffix in suffixes)
    opened = nullcontext() if cache_dir is None else RowCache(cache_dir, "blame", [FORMAT, endings, options])
    with opened as cache, item_progress("fixes") as progress:
        for fix in progress.track(fixes, description="blaming fixed code"):
            try:
                if cache is None:
                    trace = trace_fix(git, fix.commit, endings)
                else:
                    trace = cached_trace(cache, git, fix.commit, endings)
            except MissingObjectError:
                trace = Trace([], MISSING)  # not cached, as the object may be fetched later
            collector.add(fix, trace)
    warnings = collector.warnings
    if cache is not None and cache.was_damaged:
        warnings = (f"{cache.path} was damaged: the fixes are traced again", *warnings)
    return Inducing(collector.links(), warnings)


class _Collector:
    """Collects links from the traces of fixes."""

    def __init__(self, tables: ChangeTables, created_at: pd.Series, fixes: Sequence[Fix]) -> None:
        self._created_at = created_at
        self._fixed_by = {(row, fix.commit.id) for fix in fixes for row in fix.reports}
        documents = {"commit": tables.commits, "file": tables.files, "hunk": tables.hunks}
        self._links = {name: LinkBuilder(len(created_at), len(table), SOURCE) for name, table in documents.items()}
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
        self._links["commit"].add(report, row, fixed_at)
        file = self._files.get(f"{line.commit_id}:{line.path}")
        hunk = None if file is None else self._hunk(file, line.line)
        if file is not None:
            self._links["file"].add(report, file, fixed_at)
        if hunk is None:
            self._lines["a hunk that was cut off"] += 1
        else:
            self._links["hunk"].add(report, hunk, fixed_at)
        return True

    def _hunk(self, file: int, line: int) -> int | None:
        """The row of the hunk that introduced a line of a file; None if it was cut off."""
        # The last hunk that starts at or before the line: of (file, start) (4, 3) and (4, 20), the second for line 25.
        row = bisect_right(self._hunk_starts, (file, line)) - 1
        if row < 0 or self._hunk_starts[row][0] != file or line >= self._hunk_ends[row]:
            return None
        return row

    def links(self) -> dict[str, Links]:
        """The links by granularity."""
        return {name: builder.links() for name, builder in self._links.items()}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Counts of fixes without inducing changes, by reason."""
        reasons = [f"fixes without inducing commits, {reason}: {count:,}" for reason, count in self._reasons.items()]
        lines = [f"lines blamed on {origin}: {count:,}" for origin, count in self._lines.items()]
        return (*reasons, *lines)


def link_hunks(fixing: Links, inducing_files: Links, tables: ChangeTables) -> tuple[Links, tuple[str, ...]]:
    """Links reports to the hunks that induced their bugs by adding a line that the fix removes.

    Returns:
        The links, dated as the links to files, and a warning with counts of reports with and without such links.
    """
    hunks = _rows_of_each(tables.hunks.table["file"].to_numpy(), len(tables.files))
    hunks_of_commit = _rows_of_each(tables.hunks.table["commit"].to_numpy(), len(tables.commits))
    paths = tables.hunks.table["paths"].tolist()
    diffs = tables.hunks.table["diff"].tolist()
    builder = LinkBuilder(inducing_files.num_queries, len(tables.hunks), HUNK_SOURCE)
    linked = set()
    for report in inducing_files.table["query"].unique().tolist():
        links = inducing_files.table[inducing_files.table["query"] == report]
        fixes = [row for commit in fixing.relevant(report) for row in hunks_of_commit[commit]]
        removed = _removed_lines([paths[row] for row in fixes], [diffs[row] for row in fixes])
        for file, made_at in zip(links["document"], links["made_at"], strict=True):
            for row in hunks[file]:
                if _of_same_file(removed, paths[row]) & _code_lines(diffs[row], "+"):
                    builder.add(report, row, made_at)
                    linked.add(report)
    total = inducing_files.table["query"].nunique()
    warning = (
        f"reports with inducing files whose inducing hunks are found by equal lines: {len(linked):,}; not found, as"
        f" diffs were cut or lines were changed in between: {total - len(linked):,}"
    )
    return builder.links(), (warning,)


def _rows_of_each(owner: np.ndarray, count: int) -> list[list[int]]:
    """The rows of each owner: ``[0, 0, 2]`` of 3 owners gives rows 0 and 1, none, and 2."""
    ends = np.cumsum(np.bincount(owner, minlength=count))
    return [rows.tolist() for rows in np.split(np.argsort(owner, kind="stable"), ends[:-1])]


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
