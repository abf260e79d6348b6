"""Read the history of a git repository, the commits that fixed reports, and those that induced the bugs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gedbd.corpora.changes import ChangeCorpus
from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.csv_file import read_table
from gedbd.corpora.repository.change_tables import TableBuilder
from gedbd.corpora.repository.commit_history import read_history
from gedbd.corpora.repository.commits import Commit, Limits, LinkBuilder
from gedbd.corpora.repository.fixes import DEFAULT_PATTERNS, Fix, Fixes, MessageFixes, TableFixes
from gedbd.corpora.repository.inducing import find_inducing
from gedbd.io.files import corpus_name

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

    The tables are in memory: about four times the characters of all diffs, each cut to ``max_diff_chars``, three times.
    The whole changes of the commits that fix reports are there too until they are blamed.

    Args:
        path: The repository: a work tree, or a bare one.
        name: Short name; ``None`` takes it from the path.
        revision: A branch, tag or commit.
        reports: The bug reports; ``None`` for the history alone.
        fix_patterns: Patterns of ids in messages, see ``MessageFixes``; ``None`` for ``DEFAULT_PATTERNS``.
        fixes: A CSV file with ``bug_id`` and ``fix_commit``, in the place of messages.
        merges: Whether a merge whose message names a report is a fix.
        suffixes: Endings of source files, whose removed lines are blamed; ``None`` for all text files.
        max_diff_chars: The longest diff of a commit, file or hunk, in characters.
        max_files: The most files of a commit.
        cache_dir: Where parsed commits and blamed lines are kept; ``None`` for nowhere.

    Raises:
        ValueError: The path is no repository, the revision has no commits, a pattern or the table is wrong, they are
            given without reports, or no commit fixes a report.
    """
    place = Path(path).expanduser()
    title = name or corpus_name(place.resolve())
    if isinstance(reports, ChangeCorpus):
        raise ValueError(f"dataset.reports: {reports.name} is a history of changes; choose the reports of a tracker")
    if reports is None and (fix_patterns is not None or fixes is not None):
        raise ValueError("there are fixes but no reports: add reports, for example with dataset@dataset.reports=csv")
    finder = None if reports is None else _finder(reports, fix_patterns, fixes, merges)
    # No diff is cut before the tables cut it; blame needs hunks also where these are short.
    usual = Limits()
    max_file_chars = max(usual.max_file_chars, max_diff_chars)
    limits = Limits(max_files, max_file_chars, max(usual.max_commit_chars, max_diff_chars))
    history = read_history(place, revision, cache_dir, limits)
    builder = TableBuilder(title, max_diff_chars)
    named: dict[str, Commit] = {}  # the whole commits that may be fixes
    for commit in history:
        builder.add(commit)
        if finder is not None and finder.add(commit):
            named[commit.id] = commit
    tables = builder.tables()
    alone = ChangeCorpus(title, None, *tables[:3], warnings=(*history.warnings, *tables.warnings))
    if reports is None or finder is None:
        return alone
    found = finder.found()
    if not found.reports:
        raise ValueError(_no_fix(place, reports, fixes, found))
    commits = tables.commits.table
    row_of = dict(zip(commits["id"], commits["commit"], strict=True))
    links = LinkBuilder(len(reports), len(commits), "message" if fixes is None else "table")
    for id_, rows in found.reports.items():
        for report in rows:
            links.add(report, row_of[id_], commits["created_at"].iloc[row_of[id_]])
    chosen = [Fix(named[id_], rows) for id_, rows in found.reports.items()]
    folder = None if cache_dir is None else Path(cache_dir).expanduser()
    created_at = reports.reports["created_at"]
    inducing = find_inducing(history.git, chosen, created_at, tables, suffixes, folder, list(limits))
    warnings = (*reports.warnings, *alone.warnings, *found.warnings, *inducing.warnings)
    return replace(alone, reports=reports, fixing=links.links(), inducing=inducing.links, warnings=warnings)


def _finder(reports: Corpus, patterns: Sequence[str] | None, table: str | None, merges: bool) -> FixFinder:
    """What finds the fixes of reports, in a table if there is one."""
    ids = reports.documents.ids
    if table is None:
        return MessageFixes(
            ids, reports.reports["created_at"], DEFAULT_PATTERNS if patterns is None else patterns, merges
        )
    fixes, warnings = read_table(Path(table).expanduser(), None, wanted=("bug_id", "fix_commit"))
    missing = [column for column in ("bug_id", "fix_commit") if column not in fixes]
    if missing:
        raise ValueError(f"dataset.fixes={table}, row 1: there is no column {missing[0]!r}")
    return TableFixes(fixes, ids, warnings)


def _no_fix(place: Path, reports: Corpus, table: str | None, found: Fixes) -> str:
    """Why no fix was found, in one line."""
    told = f" ({'; '.join(found.warnings)})" if found.warnings else ""
    if table is None:
        return (
            f"{place}: no commit message refers to any of the {len(reports):,} reports, such as "
            f"{reports.documents.ids.iloc[0]}; set dataset.fix_patterns or dataset.fixes{told}"
        )
    return f"dataset.fixes={table}: none of its rows names a report and a commit of {place}{told}"
