"""Which changes induced the bugs that later changes fixed.

The method is of the SZZ family (Sliwerski, Zimmermann and Zeller, "When Do Changes Induce Fixes?", MSR 2005). It has
the filters of AG-SZZ (Kim, Zimmermann, Pan and Whitehead, "Automatic Identification of Bug-Introducing Changes", ASE
2006): comments, blank lines and formatting do not count. In the place of the annotation graph, ``git blame -w -M`` in
the first parent of the fix names the origin of each line that the fix removed or changed. As in the original, only
commits made before the report count. A fix that only adds lines names no inducing change.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from gedbd.corpora.relevance import Links
from gedbd.corpora.repository.blame import BlamedLine
from gedbd.corpora.repository.documents import ChangeTables
from gedbd.corpora.repository.fixes import Fix
from gedbd.corpora.repository.git import Git
from gedbd.corpora.repository.report_links import LinkBuilder
from gedbd.corpora.repository.traces import Trace, TraceCache, trace_fix
from gedbd.io.progress import item_progress

SOURCE = "blame"
AFTER_REPORT = "all of the removed code newer than the report, or part of another fix of it"


class Inducing(NamedTuple):
    """Links from reports to inducing changes by granularity, and warnings with counts."""

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
    """Finds the changes that induced the bugs of fixed reports; see the module's docstring.

    Args:
        git: The repository.
        fixes: The fixes.
        created_at: ``(N,)`` UTC dates of the reports. A report without a date (``NaT``) is taken to be made just
            before its fix.
        tables: The history.
        suffixes: Of source files, such as ``.java``; None for all text files.
        cache_dir: Folder of the cache; None for none.
        options: What else the hunks of the fixes depend on, such as limits: part of the cache's key.
    """
    collector = _Collector(tables, created_at, fixes)
    endings = None if suffixes is None else sorted(suffix.lower() for suffix in suffixes)
    opened = nullcontext() if cache_dir is None else TraceCache(cache_dir, endings, options)
    with opened as cache, item_progress("fixes") as progress:
        for fix in progress.track(fixes, description="blaming fixed code"):
            trace = trace_fix(git, fix.commit, endings) if cache is None else cache.trace(git, fix.commit)
            collector.add(fix, trace)
    warnings = collector.warnings
    if cache is not None and cache.was_damaged:
        warnings = (f"{cache.file} was damaged: the fixes are traced again", *warnings)
    return Inducing(collector.links(), warnings)


class _Collector:
    """Collects links from the traces of fixes."""

    def __init__(self, tables: ChangeTables, created_at: pd.Series, fixes: Sequence[Fix]) -> None:
        self._created_at = created_at
        self._fixed_by = {(row, fix.commit.id) for fix in fixes for row in fix.reports}
        self._places = _Places(tables)
        documents = {"commit": tables.commits, "file": tables.files, "hunk": tables.hunks}
        self._links = {name: LinkBuilder(len(created_at), len(table), SOURCE) for name, table in documents.items()}
        self._reasons: Counter[str] = Counter()
        self._lines: Counter[str] = Counter()

    def add(self, fix: Fix, trace: Trace) -> None:
        """Adds the links of all reports of a fix."""
        origins = dict.fromkeys(trace.origins)
        fixed_at = pd.Timestamp(fix.commit.created_at)
        is_linked = [self._add_origin(report, fixed_at, line) for report in fix.reports for line in origins]
        if not any(is_linked):
            self._reasons[trace.reason or AFTER_REPORT] += 1

    def _add_origin(self, report: int, fixed_at: pd.Timestamp, line: BlamedLine) -> bool:
        """Links a report to the commit, the file and the hunk that a line comes from, if that commit counts."""
        commit = self._places.commit(line.commit_id)
        if commit is None:
            self._lines["commits outside of the history"] += 1
            return False
        row, made_at = commit
        reported_at = self._created_at.iloc[report]
        is_later = not pd.isna(reported_at) and made_at >= reported_at
        if is_later or (report, line.commit_id) in self._fixed_by:
            return False
        self._links["commit"].add(report, row, fixed_at)
        file, hunk = self._places.file_and_hunk(line)
        if file is not None:
            self._links["file"].add(report, file, fixed_at)
        if hunk is None:
            self._lines["a hunk that was cut off"] += 1
        else:
            self._links["hunk"].add(report, hunk, fixed_at)
        return True

    def links(self) -> dict[str, Links]:
        """The links by granularity."""
        return {name: builder.links() for name, builder in self._links.items()}

    @property
    def warnings(self) -> tuple[str, ...]:
        """How many fixes have no inducing change, by reason."""
        reasons = [f"fixes without inducing commits, {reason}: {count:,}" for reason, count in self._reasons.items()]
        lines = [f"lines blamed on {what}: {count:,}" for what, count in self._lines.items()]
        return (*reasons, *lines)


class _Places:
    """Finds the rows of a blamed line in the tables of commits, files and hunks."""

    def __init__(self, tables: ChangeTables) -> None:
        commits = tables.commits.table
        dates = zip(commits["commit"], commits["created_at"], strict=True)
        self._commits = dict(zip(commits["id"], dates, strict=True))
        self._files = {id_: row for row, id_ in enumerate(tables.files.ids)}
        hunks = tables.hunks.table
        self._hunk_ends = (hunks["new_start"] + hunks["new_count"]).tolist()
        # File and first line of each hunk, ascending, as the hunks of a file follow each other.
        self._hunk_starts = list(zip(hunks["file"].tolist(), hunks["new_start"].tolist(), strict=True))

    def commit(self, id_: str) -> tuple[int, pd.Timestamp] | None:
        """Row and date of a commit; None if it is not in the history."""
        return self._commits.get(id_)

    def file_and_hunk(self, line: BlamedLine) -> tuple[int | None, int | None]:
        """The rows of the file and of the hunk that introduced a line; None where they were cut off."""
        file = self._files.get(f"{line.commit_id}:{line.path}")
        if file is None:
            return None, None
        # The last hunk that begins at the line or before it: of (file, start) (4, 3) and (4, 20), line 25 is in the
        # second.
        row = bisect_right(self._hunk_starts, (file, line.line)) - 1
        if row < 0 or self._hunk_starts[row][0] != file or line.line >= self._hunk_ends[row]:
            return file, None
        return file, row
