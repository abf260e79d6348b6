"""Find in a history the files and commits that a data set of bug localization names."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import FixedReports
from gedbd.corpora.relevance import Groups
from gedbd.localization.repository.commits import Commit, CommitIds
from gedbd.localization.repository.fixes import Fixes

# Git's dates have whole seconds, and only commits before a report count.
BEHIND_BASE = pd.Timedelta(seconds=1)
MAX_NAME_CHARACTERS = 4096  # the longest path of Linux, which bounds the time that a name takes


class HistoryPaths:
    """The paths of a history, of any time; finds them by the names that data sets give to files."""

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
        """The paths that a name means, ascending; none if the history lacks the file.

        Args:
            name: A path, the end of one (``weaver/Shadow.java``), a path with further folders before it
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

    Args:
        table: ``bug_id`` and ``path``, text, the latter empty where there is none; None for no table.
        ids: N ids of reports; rows of others do not count.
        fixes: The fixing commits; files of their reports do not count.
        paths: Those of the history.

    Returns:
        For each such report of which at least one file is found, by its row and ascending, the paths, None if the table
        names no file; and warnings that count the names of which the history lacks the file, or has several.
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
        found = paths.find(path)
        fixed[row].update(found)
        counts["fixed files that the history lacks, dropped"] += not found
        counts["names of fixed files that fit several files of the history, of which all count"] += len(found) > 1
    counts["reports whose fix names no file of the history"] = sum(not found for found in fixed.values())
    warnings = tuple(f"{what}: {count:,}" for what, count in counts.items() if count)
    return {row: tuple(sorted(found)) for row, found in sorted(fixed.items()) if found}, warnings


def date_by_base_commit(
    reports: FixedReports, commits: pd.DataFrame
) -> tuple[FixedReports, np.ndarray, tuple[str, ...]]:
    """Give reports the date of the commit whose files are to be searched, where the data set names one.

    The date is a second later than the commit, so that it and all older commits are before the report. Reports whose
    commit is not in the history are left out: a data set such as SWE-bench has reports of several projects.

    Args:
        reports: N reports.
        commits: ``id`` and ``created_at`` of the commits of the history.

    Returns:
        The reports in chronological order; ``(N,)`` their new rows, -1 where left out; and a warning that counts these.

    Raises:
        ValueError: None of the base commits is in the history.
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
    based = table["id"].map(dates) + BEHIND_BASE
    is_kept = ~(table["id"].isin(base_rows) & based.isna())
    table = table.assign(created_at=based.fillna(table["created_at"]))[is_kept]
    table = table.sort_values("created_at", kind="stable")
    new_rows = np.full(len(reports), -1)
    new_rows[table.index] = np.arange(len(table))  # the index holds the old rows
    documents = replace(reports.documents, table=table.reset_index(drop=True))
    dated = replace(reports, documents=documents, relevance=Groups(np.arange(len(table), dtype=np.int64)))
    num_left_out = len(reports) - len(table)
    warning = f"reports whose base commit is not in the history: {num_left_out:,}, left out"
    return dated, new_rows, (warning,) if num_left_out else ()
