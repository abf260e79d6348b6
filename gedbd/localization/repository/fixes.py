"""Which commits fixed which reports, by the ids in their messages or by a table; and files that a data set names.

A message fixes a report if a pattern finds the report's id in it. Numbers inside dates, versions, addresses and longer
numbers do not count: ``bug 12`` does, ``bug 2013-12-01``, ``bug 1.2`` and ``bug 12%`` do not.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import FixedReports
from gedbd.corpora.relevance import Groups
from gedbd.localization.repository.commits import MIN_ID_LENGTH, Commit, CommitIds

NAMED_GROUP = "ids"
ID = re.compile(r"[A-Za-z][A-Za-z0-9_]*-\d+|\d+")
# As git revert writes it.
REVERT = re.compile(r'Revert "|[\s\S]*\bThis reverts commit [0-9a-f]{7}')
# Trackers' dates may lack a time or a zone, so a commit of the day before may still be a fix.
MAX_EARLY = timedelta(days=1)

MAX_PATH = 200  # characters of a URL before the number; without a limit, long messages take quadratic time
NUMBER = r"\d+(?![\w%]|[-.:/]\d)"
NUMBERS = rf"{NUMBER}(?:(?:, *| and | *& *)#?{NUMBER})*"
DEFAULT_PATTERNS = (
    r"(?<![\w-])(?P<ids>[A-Z][A-Z0-9_]*-\d+)(?!\w|[-.]\d)",
    rf"\b(?:(?:bug|pr|issue)[ :#]*|(?:bugs|prs|issues|bugzilla|bz)[ :#]+)(?P<ids>{NUMBERS})",
    rf"(?<![\w&/#])#(?P<ids>{NUMBER})",
    rf"\bshow_bug\.cgi\?(?:\w+=\w+&)*id=(?P<ids>{NUMBER})",
    rf"https?://[^\s/]{{1,{MAX_PATH}}}/[^\s?#]{{0,{MAX_PATH}}}?(?:issues|pull|bugs?|merge_requests)/(?P<ids>{NUMBER})",
)
# Git's dates have whole seconds, and only commits before a report count.
AFTER_BASE = pd.Timedelta(seconds=1)
MAX_NAME_CHARACTERS = 4096  # the longest path of Linux, which bounds the time that a name takes


class Fix(NamedTuple):
    """A commit that fixed reports, and the rows of these reports."""

    commit: Commit
    reports: list[int]


class Fixes(NamedTuple):
    """Fixes of reports: ascending rows of the fixed reports by id of the commit; and what does not count as a fix."""

    reports: dict[str, list[int]]
    warnings: tuple[str, ...]

    def renumbered(self, new_rows: Sequence[int] | np.ndarray) -> "Fixes":
        """The fixes with new rows of the reports, ``new_rows`` by old row; reports with row -1 are left out."""
        moved = {id_: sorted(int(new_rows[row]) for row in rows) for id_, rows in self.reports.items()}
        kept = {id_: [row for row in rows if row >= 0] for id_, rows in moved.items()}
        return self._replace(reports={id_: rows for id_, rows in kept.items() if rows})


class MessageFixes:
    """Finds fixes, commit by commit, by the ids in their messages.

    A commit that reverts another, a merge unless ``merges``, and a commit made more than a day before the report are
    not fixes. A fix that is reverted later stays one.

    There are N ``report_ids``, and ``(N,)`` dates ``created_at`` in UTC, ``NaT`` where one is unknown. ``patterns`` are
    regular expressions, case-insensitive, each with a group ``ids`` that holds one or more ids. Raises ValueError if a
    pattern cannot be read or has no such group.
    """

    def __init__(
        self, report_ids: Iterable[str], created_at: pd.Series, patterns: Sequence[str], merges: bool = False
    ) -> None:
        self._rows = {id_.upper(): row for row, id_ in enumerate(report_ids)}
        self._created_at = created_at
        self._patterns = [compile_pattern(pattern) for pattern in patterns]
        self._merges = merges
        self._reports: dict[str, list[int]] = {}
        self._counts: Counter[str] = Counter()

    def add(self, commit: Commit) -> bool:
        """Stores the commit if it is a fix; returns whether it is."""
        texts = [match[NAMED_GROUP] or "" for pattern in self._patterns for match in pattern.finditer(commit.message)]
        ids = {id_.upper() for text in texts for id_ in ID.findall(text)}
        rows = sorted(self._rows[id_] for id_ in ids if id_ in self._rows)
        if not rows:
            return False
        if REVERT.match(commit.message):
            self._counts["reverts"] += 1
            return False
        if len(commit.parents) > 1 and not self._merges:
            self._counts["merges"] += 1
            return False
        # A comparison with NaT is false.
        kept = [row for row in rows if not commit.created_at < self._created_at.iloc[row] - MAX_EARLY]
        self._counts["commits made more than a day before the report"] += len(kept) < len(rows)
        if kept:
            self._reports[commit.id] = kept
        return bool(kept)

    def fixes(self) -> Fixes:
        """The fixes so far, and how many commits do not count as one."""
        warnings = [
            f"{what} whose message names a report: {count:,}, not taken as fixes"
            for what, count in self._counts.items()
            if count
        ]
        return Fixes(self._reports, tuple(warnings))


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern of ids in messages. Raises ValueError if it cannot be read or has no group ``ids``."""
    try:
        compiled = re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"dataset.fix_patterns: {pattern!r} is not a regular expression ({error})") from error
    if NAMED_GROUP not in compiled.groupindex:
        raise ValueError(f"dataset.fix_patterns: {pattern!r} has no group (?P<{NAMED_GROUP}>...) around the id")
    return compiled


class TableFixes:
    """Finds the fixes that a table names, commit by commit.

    ``table`` has ``bug_id`` and ``fix_commit``, a full or abbreviated id, as text.
    """

    def __init__(self, table: pd.DataFrame, report_ids: Iterable[str]) -> None:
        rows = {id_: row for row, id_ in enumerate(report_ids)}
        reports = table["bug_id"].str.strip().map(rows)
        self._num_unknown = int(reports.isna().sum())
        self._reports: dict[str, set[int]] = {}
        for text, report in zip(table["fix_commit"].str.strip().str.lower(), reports, strict=True):
            if not pd.isna(report):
                self._reports.setdefault(text, set()).add(int(report))
        self._commits: dict[str, list[str]] = {text: [] for text in self._reports}
        self._lengths = {len(text) for text in self._reports if len(text) >= MIN_ID_LENGTH}

    def add(self, commit: Commit) -> bool:
        """Stores the commit if the table names it; returns whether it does."""
        named = [commit.id[:length] for length in self._lengths if commit.id[:length] in self._commits]
        for text in named:
            self._commits[text].append(commit.id)
        return bool(named)

    def fixes(self) -> Fixes:
        """The fixes so far, and how many rows name none."""
        fixed: dict[str, set[int]] = {}
        counts = Counter({"an unknown report": self._num_unknown})
        for text, ids in self._commits.items():
            if len(ids) == 1:
                fixed.setdefault(ids[0], set()).update(self._reports[text])
            else:
                counts["several commits" if ids else "a commit that the history lacks"] += len(self._reports[text])
        warnings = [
            f"fixes of the table that name {what}: {count:,}, dropped" for what, count in counts.items() if count
        ]
        return Fixes({id_: sorted(rows) for id_, rows in fixed.items()}, tuple(warnings))


class HistoryPaths:
    """All paths that occur in a history; finds them by the names that data sets use for files."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self._by_file: dict[str, set[str]] = defaultdict(set)

    def add(self, commit: Commit) -> None:
        """Adds the paths that a commit changes."""
        for change in commit.files:
            for path in filter(None, (change.path, change.old_path)):
                self._paths.add(path)
                self._by_file[path.rpartition("/")[2]].add(path)

    def find(self, name: str) -> list[str]:
        """The paths that match a name, ascending; none if the history lacks the file.

        A name is a path, the end of one (``weaver/Shadow.java``), a path with further folders before it
        (``org.aspectj/modules/weaver/src/Shadow.java``), or a class (``org.aspectj.weaver.Shadow.java``).
        """
        name = name.strip().replace("\\", "/").removeprefix("./").strip("/")
        if len(name) > MAX_NAME_CHARACTERS:
            return []
        stem, dot, ending = name.rpartition(".")
        is_class = "/" not in name and "." in stem and name not in self._by_file
        if is_class:
            name = f"{stem.replace('.', '/')}{dot}{ending}"
        if name in self._paths:
            return [name]
        of_file = self._by_file.get(name.rpartition("/")[2], set())
        longer = sorted(path for path in of_file if path.endswith(f"/{name}"))
        if longer or is_class:
            return longer
        # a/b/c/D.java is b/c/D.java or c/D.java, but not D.java, which any folder may hold.
        shorter = name.partition("/")[2]
        while "/" in shorter:
            if shorter in self._paths:
                return [shorter]
            shorter = shorter.partition("/")[2]
        return []


def find_fixed_paths(
    table: pd.DataFrame | None, ids: Iterable[str], fixes: Fixes, paths: HistoryPaths
) -> tuple[dict[int, tuple[str, ...]] | None, tuple[str, ...]]:
    """Find the files that were fixed, for reports without a fixing commit.

    ``table`` has the columns ``bug_id`` and ``path`` of text, the latter empty without a file; None for no table. Rows
    of reports that are not among ``ids``, or that have a commit in ``fixes``, do not count.

    Returns the ascending paths of each such report with at least one file in the history, by row, or None if the table
    names no file; and warnings that count the names that match no file, or several files, of the history.
    """
    if table is None or not (table["path"] != "").any():
        return None, ()
    rows = {id_: row for row, id_ in enumerate(ids)}
    by_commit = {row for rows in fixes.reports.values() for row in rows}
    fixed: dict[int, set[str]] = defaultdict(set)
    counts: Counter[str] = Counter()
    for id_, path in zip(table["bug_id"], table["path"], strict=True):
        row = rows.get(id_)
        if not path or row is None or row in by_commit:
            continue
        named = paths.find(path)
        fixed[row].update(named)
        counts["fixed files that the history lacks, dropped"] += not named
        counts["names of fixed files that match several files of the history, all of which count"] += len(named) > 1
    counts["reports whose fix names no file of the history"] = sum(not named for named in fixed.values())
    warnings = tuple(f"{what}: {count:,}" for what, count in counts.items() if count)
    return {row: tuple(sorted(named)) for row, named in sorted(fixed.items()) if named}, warnings


def date_by_base_commit(
    reports: FixedReports, commits: pd.DataFrame
) -> tuple[FixedReports, np.ndarray, tuple[str, ...]]:
    """Date reports by their base commit, whose files are searched, if the data set names one.

    The date is a second later than the commit, so that it and all older commits are before the report. Reports whose
    commit is not in the history are left out: a data set such as SWE-bench has reports of several projects. Raises
    ValueError if the history has no base commit of any report.

    Returns the reports in chronological order; ``(N,)`` their new rows, -1 where left out; and a warning that counts
    these.
    """
    named = reports.fixes[reports.fixes["base_commit"] != ""].drop_duplicates("bug_id")
    if named.empty:
        return reports, np.arange(len(reports)), ()
    commit_ids = CommitIds(commits["id"].tolist())
    base_rows = {id_: commit_ids.row(base) for id_, base in zip(named["bug_id"], named["base_commit"], strict=True)}
    dates = {id_: commits["created_at"].iloc[row] for id_, row in base_rows.items() if row is not None}
    if not dates:
        first = named.iloc[0]
        raise ValueError(
            f"{reports.name}: the history has no base commit of any report, such as {first['base_commit']} of"
            f" {first['bug_id']}; give the clone of one of its projects"
        )
    table = reports.reports
    base_dates = table["id"].map(dates) + AFTER_BASE
    is_kept = ~(table["id"].isin(base_rows) & base_dates.isna())
    table = table.assign(created_at=base_dates.fillna(table["created_at"]))[is_kept]
    table = table.sort_values("created_at", kind="stable")
    new_rows = np.full(len(reports), -1)
    new_rows[table.index] = np.arange(len(table))  # the index holds the old rows
    documents = replace(reports.documents, table=table.reset_index(drop=True))
    dated = replace(reports, documents=documents, relevance=Groups(np.arange(len(table), dtype=np.int64)))
    num_left_out = len(reports) - len(table)
    warning = f"reports whose base commit is not in the history: {num_left_out:,}, left out"
    return dated, new_rows, (warning,) if num_left_out else ()
