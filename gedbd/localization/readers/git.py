"""Read the history of a git repository, the commits that fixed reports, and those that introduced the bugs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from gedbd.corpora.corpus import FIX_COLUMNS, ChangeCorpus, Corpus, FixedReports
from gedbd.corpora.readers.csv_file import read_table
from gedbd.io.files import corpus_name
from gedbd.localization.repository.commit_history import ADVICE, History
from gedbd.localization.repository.commits import Commit, Limits, TableBuilder, make_links
from gedbd.localization.repository.fixes import (
    DEFAULT_PATTERNS,
    Fix,
    HistoryPaths,
    MessageFixes,
    TableFixes,
    date_by_base_commit,
    find_fixed_paths,
)
from gedbd.localization.repository.git_command import Git
from gedbd.localization.repository.inducing import find_inducing

FixFinder = MessageFixes | TableFixes


def read_git(
    path: str,
    name: str | None = None,
    revision: str = "HEAD",
    reports: Corpus | ChangeCorpus | None = None,
    fix_patterns: Sequence[str] | None = None,
    fixes: str | None = None,
    merges: bool = False,
    suffixes: Sequence[str] | None = None,
    max_diff_chars: int = 100_000,
    max_files: int = 1_000,
    cache_dir: str | None = None,
) -> ChangeCorpus:
    """Read all commits that a revision reaches and, if there are reports, their fixing and inducing commits.

    The tables stay in memory: about four times the characters of all diffs, which are stored three times, each cut to
    ``max_diff_chars``. The full changes of fixing commits also stay in memory until they are blamed.

    Args:
        path: The repository: a work tree, or a bare one.
        name: Short name; ``None`` takes it from the path.
        revision: A branch, tag or commit.
        reports: The bug reports; ``None`` for the history alone. ``FixedReports`` contain their fixes.
            Reports with a base commit get its date plus one second, so that the files of this commit exist at the
            report's date; reports whose base commit is not in the history are left out.
        fix_patterns: Patterns of ids in messages, see ``MessageFixes``; ``None`` for ``DEFAULT_PATTERNS``.
        fixes: A CSV file with ``bug_id``, and ``fix_commit``, the ``path`` of a fixed file, or both. It replaces the
            fixes in messages and in ``FixedReports``.
        merges: Whether a merge whose message names a report is a fix.
        suffixes: Suffixes of source files, whose removed lines are blamed; ``None`` for all text files.
        max_diff_chars: Maximum length of the diff of a commit, file or hunk, in characters.
        max_files: Maximum number of files of a commit.
        cache_dir: Folder of the cache of parsed commits and blamed lines; ``None`` for no cache.

    Raises:
        ValueError: The path is not a repository, the revision has no commits, objects of all commits are missing, a
            pattern or the table is invalid or comes without reports, or nothing in the history fixes a report.
    """
    folder = Path(path).expanduser()
    title = name or corpus_name(folder)
    if isinstance(reports, ChangeCorpus):
        raise ValueError(f"dataset.reports: {reports.name} is a history of changes; choose the reports of a tracker")
    if reports is None and (fix_patterns is not None or fixes is not None):
        raise ValueError("there are fixes but no reports: add reports, for example with dataset@dataset.reports=csv")
    table, table_warnings = _fix_table(reports, fix_patterns, fixes)
    finder = None if reports is None else _finder(reports, table, fix_patterns, merges)
    # Only the tables cut diffs: blame also needs the hunks that they cut.
    default = Limits()
    max_file_chars = max(default.max_file_chars, max_diff_chars)
    limits = Limits(max_files, max_file_chars, max(default.max_commit_chars, max_diff_chars))
    history = History(Git(folder), revision, cache_dir, limits)
    builder = TableBuilder(title, max_diff_chars)
    named: dict[str, Commit] = {}  # complete commits that may be fixes
    paths = HistoryPaths()
    for commit in history:
        builder.add(commit)
        if finder is not None and finder.add(commit):
            named[commit.id] = commit
        if table is not None:
            paths.add(commit)
    if history.missing and len(history.missing) == len(history):
        raise ValueError(f"{folder}: no commit can be read: {ADVICE}")
    tables = builder.tables()
    history_only = ChangeCorpus(title, None, *tables[:3], warnings=(*history.warnings, *tables.warnings))
    if reports is None or finder is None:
        return history_only
    commits = tables.commits.table
    fixed = finder.fixes()
    if isinstance(reports, FixedReports):
        reports, new_rows, date_warnings = date_by_base_commit(reports, commits)
        fixed = fixed.renumbered(new_rows)
        table_warnings = (*table_warnings, *date_warnings)
    fixed_paths, path_warnings = find_fixed_paths(table, reports.documents.ids, fixed, paths)
    if not fixed.reports and not fixed_paths:
        raise ValueError(
            _no_fix_message(folder, reports, fixes, table is None, (*table_warnings, *fixed.warnings, *path_warnings))
        )
    row_of = dict(zip(commits["id"], commits["commit"], strict=True))
    dates = commits["created_at"]
    link_rows = [(row, row_of[id_], dates.iloc[row_of[id_]]) for id_, rows in fixed.reports.items() for row in rows]
    fix_commits = [Fix(named[id_], rows) for id_, rows in fixed.reports.items()]
    cache = None if cache_dir is None else Path(cache_dir).expanduser()
    created_at = reports.reports["created_at"]
    inducing, trace_warnings = find_inducing(
        history.git, fix_commits, created_at, tables, suffixes, cache, list(limits)
    )
    warnings = (
        *reports.warnings,
        *history_only.warnings,
        *table_warnings,
        *fixed.warnings,
        *path_warnings,
        *trace_warnings,
    )
    return replace(
        history_only,
        reports=reports,
        fixing=make_links(link_rows, len(reports), len(commits), "message" if table is None else "table"),
        inducing=inducing if fix_commits else {},  # a file without a commit does not tell what introduced its bug
        fixed_paths=fixed_paths,
        warnings=warnings,
    )


def _fix_table(
    reports: Corpus | None, patterns: Sequence[str] | None, fixes: str | None
) -> tuple[pd.DataFrame | None, tuple[str, ...]]:
    """The columns ``FIX_COLUMNS`` of the file ``fixes``, or else of the data set; None to search messages."""
    if fixes is None:
        if not isinstance(reports, FixedReports) or patterns is not None:
            return None, ()
        return reports.fixes[(reports.fixes[["fix_commit", "path"]] != "").any(axis=1)], ()
    table, warnings = read_table(Path(fixes).expanduser(), None, expected=FIX_COLUMNS)
    if "bug_id" not in table:
        raise ValueError(f"dataset.fixes={fixes}, row 1: there is no column 'bug_id'")
    if not {"fix_commit", "path"} & set(table):
        raise ValueError(f"dataset.fixes={fixes}, row 1: there is neither a column 'fix_commit' nor 'path'")
    present = {column: table[column].str.strip() for column in FIX_COLUMNS if column in table}
    return pd.DataFrame(present, dtype=str).reindex(columns=list(FIX_COLUMNS), fill_value=""), warnings


def _finder(reports: Corpus, table: pd.DataFrame | None, patterns: Sequence[str] | None, merges: bool) -> FixFinder:
    """The finder of fixing commits: in the table if there is one, else in messages."""
    ids = reports.documents.ids
    if table is None:
        return MessageFixes(
            ids, reports.reports["created_at"], DEFAULT_PATTERNS if patterns is None else patterns, merges
        )
    # Rows that only name a file are left to ``find_fixed_paths``, but those of unknown reports are counted here.
    names_commit = (table["fix_commit"] != "") | (table["path"] == "") | ~table["bug_id"].isin(ids)
    return TableFixes(table[names_commit], ids)


def _no_fix_message(
    folder: Path, reports: Corpus, fixes: str | None, by_message: bool, warnings: tuple[str, ...]
) -> str:
    """The reason for which no fix was found, in one line."""
    reasons = f" ({'; '.join(warnings)})" if warnings else ""
    if fixes is not None:
        return f"dataset.fixes={fixes}: none of its rows names a report and a commit or file of {folder}{reasons}"
    if not by_message:
        return (
            f"{folder}: it has none of the fixing commits and fixed files of {reports.name};"
            f" is it a clone of that project?{reasons}"
        )
    return (
        f"{folder}: no commit message refers to any of the {len(reports):,} reports, such as "
        f"{reports.documents.ids.iloc[0]}; set dataset.fix_patterns or dataset.fixes{reasons}"
    )
