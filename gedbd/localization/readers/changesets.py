"""Read a data set of bug localization: reports, changesets, and the commits that introduced the bugs."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import ChangeCorpus, Corpus, Documents
from gedbd.corpora.dates import EXPECTED, check_ids, in_chronological_order, parse_date
from gedbd.corpora.readers.bug_reports import DOCUMENT_FIELDS, text_warnings
from gedbd.corpora.readers.csv_file import read_table
from gedbd.corpora.readers.export_pages import JsonLine, read_json_lines
from gedbd.corpora.relevance import Groups, Links
from gedbd.io.files import corpus_name
from gedbd.localization.repository.commits import (
    ChangeTables,
    Commit,
    CommitIds,
    FileChange,
    LinkRow,
    change_tables,
    make_links,
    parse_patch,
)
from gedbd.localization.repository.inducing import link_hunks

# Required keys of a record and their types; ``truncated`` is optional.
FIELDS = {"commit": str, "parents": list, "commit_date": str, "message": str, "files": list, "diff": str}
ENDINGS = ("", ".xz", ".gz")
REPORTS = "bugs.csv"
CHANGESETS = "changesets.jsonl"
INDUCING = "inducing.csv"
COLUMNS = {"id": "bug_id", "title": "summary", "description": "description", "created_at": "report_time"}
FULL_ID = "fix_commit_full"
FILE_SEPARATOR = ";"


def read_localization(path: str, name: str | None = None, max_diff_chars: int = 100_000) -> ChangeCorpus:
    """Read a folder with ``bugs.csv``, ``changesets.jsonl`` and ``inducing.csv``, each plain, ``.xz`` or ``.gz``.

    ``bugs.csv`` has the columns bug_id, summary, report_time, fix_commit (``fix_commit_full`` is preferred), and may
    have description and status; ``inducing.csv`` has bug_id, inducing_commit, and may have fix_commit and files, the
    paths separated by ``;``. Dates without a time zone are in UTC. Links to inducing files and hunks exist if the
    data names files, see ``gedbd.localization.repository.inducing``.

    ``path`` is the folder, ``name`` a short name (``None`` takes it from the path), ``max_diff_chars`` the maximum
    length of the diff of a commit, file or hunk, in characters. Raises ValueError, which names file and row, if a file
    is missing or damaged, or a row is malformed.
    """
    folder = Path(path).expanduser()
    title = name or corpus_name(folder)
    reports_file = find_file(folder, REPORTS)
    bugs, bug_warnings = _read(reports_file, ("bug_id", "summary", "report_time", "fix_commit"))
    named, link_warnings = _read(find_file(folder, INDUCING), ("bug_id", "inducing_commit"))
    changesets = Changesets(find_file(folder, CHANGESETS))
    reports = read_reports(title, bugs, reports_file)
    tables = change_tables(title, changesets, max_diff_chars)
    resolver = _Resolver(reports, tables)
    fixing = resolver.fixing(bugs)
    inducing = resolver.inducing(named)
    warnings = (
        *bug_warnings,
        *link_warnings,
        *reports.warnings,
        *changesets.warnings,
        *tables.warnings,
        *resolver.warnings,
    )
    if "file" in inducing:
        inducing["hunk"], hunk_warnings = link_hunks(fixing, inducing["file"], tables)
        warnings = (*warnings, *hunk_warnings)
    return ChangeCorpus(title, reports, tables.commits, tables.files, tables.hunks, fixing, inducing, warnings=warnings)


def find_file(folder: Path, name: str) -> Path:
    """The file of a folder, plain or packed. Raises ValueError if there is none."""
    for ending in ENDINGS:
        if (folder / f"{name}{ending}").is_file():
            return folder / f"{name}{ending}"
    raise ValueError(
        f"{folder}: there is no {name}, plain or packed as .xz or .gz; set dataset.path= to a complete folder"
    )


def _read(path: Path, needed: tuple[str, ...]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """A table of text, stripped, and warnings. Raises ValueError if a column is missing."""
    table, warnings = read_table(path)
    missing = [column for column in needed if column not in table]
    if missing:
        raise ValueError(f"{path}, row 1: no column {missing[0]!r}; the columns are {', '.join(table.columns)}")
    return pd.DataFrame({column: table[column].str.strip() for column in table}), warnings


def read_reports(name: str, bugs: pd.DataFrame, path: Path) -> Corpus:
    """The reports in chronological order, each in its own group.

    ``status`` such as ``resolved fixed`` becomes status and resolution.
    """
    check_ids(bugs["bug_id"], str(path), COLUMNS["id"])
    present = {field: bugs[column] for field, column in COLUMNS.items() if column in bugs}
    reports = pd.DataFrame(present, index=bugs.index, dtype=str)
    if "status" in bugs:
        words = bugs["status"].str.partition(" ")
        reports = reports.assign(status=words[0], resolution=words[2])
    warnings = text_warnings(reports.reindex(columns=list(COLUMNS), fill_value=""), COLUMNS)
    reports, date_warnings = in_chronological_order(reports, str(path), COLUMNS["created_at"], "ISO8601")
    table = reports.reindex(columns=list(DOCUMENT_FIELDS), fill_value="").reset_index(drop=True)
    documents = Documents(name, table, (*warnings, *date_warnings))
    return Corpus(documents, Groups(np.arange(len(table), dtype=np.int64)))


class _Resolver:
    """Turns ids of reports and commits into rows, and counts what it drops."""

    def __init__(self, reports: Corpus, tables: ChangeTables) -> None:
        self._reports = {id_: row for row, id_ in enumerate(reports.documents.ids)}
        self._commits = CommitIds(tables.commits.ids.tolist())
        self._dates = tables.commits.table["created_at"]
        self._tables = tables
        self._counts: Counter[str] = Counter()

    def fixing(self, bugs: pd.DataFrame) -> Links:
        """Links from the reports to the commits that fixed them."""
        rows = []
        ids = bugs[FULL_ID].where(bugs[FULL_ID] != "", bugs["fix_commit"]) if FULL_ID in bugs else bugs["fix_commit"]
        for report, id_ in zip(bugs["bug_id"], ids, strict=True):
            commit = self._commits.row(id_)
            if commit is None:
                self._counts["reports whose fix commit is not among the changesets"] += 1
            else:
                rows.append((self._reports[report], commit, self._dates[commit]))
        return make_links(rows, len(self._reports), len(self._tables.commits), "table")

    def inducing(self, named: pd.DataFrame) -> dict[str, Links]:
        """Links to the inducing commits and, where the files are named, to their files."""
        files = {id_: row for row, id_ in enumerate(self._tables.files.ids)}
        to_commits: list[LinkRow] = []
        to_files: list[LinkRow] = []
        for row in named.to_dict("records"):
            report = self._reports.get(row["bug_id"])
            commit = self._commits.row(row["inducing_commit"])
            if report is None or commit is None:
                what = "report" if report is None else "changeset"
                self._counts[f"inducing commits with an unknown {what}, dropped"] += 1
                continue
            fix = self._commits.row(row.get("fix_commit", ""))
            made_at = pd.NaT if fix is None else self._dates[fix]
            to_commits.append((report, commit, made_at))
            for path in filter(None, row.get("files", "").split(FILE_SEPARATOR)):
                file = files.get(f"{self._tables.commits.ids[commit]}:{path.strip()}")
                if file is None:
                    self._counts["files of inducing commits that are not among the changed files, dropped"] += 1
                else:
                    to_files.append((report, file, made_at))
        links = {"commit": make_links(to_commits, len(self._reports), len(self._tables.commits), "table")}
        if "files" in named:
            links["file"] = make_links(to_files, len(self._reports), len(files), "table")
        return links

    @property
    def warnings(self) -> tuple[str, ...]:
        """Counts of what was dropped."""
        return tuple(f"{what}: {count:,}" for what, count in self._counts.items())


class Changesets:
    """The changesets of a file, oldest first; ``warnings`` are complete after the last one is read.

    A file lists them newest first, as ``git log`` does. A commit dated before its parent takes the parent's date.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._counts: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Commit]:
        """Yields the commits. Raises ValueError for a malformed record, a repeated id, or an empty file."""
        records = list(read_json_lines(self.path))
        if not records:
            raise ValueError(f"{self.path}: the file is empty; it needs one changeset per line")
        dates: dict[str, datetime] = {}
        for row, record in reversed(records):
            commit = self._commit(f"{self.path}, row {row}", record, dates)
            if commit.id in dates:
                raise ValueError(
                    f"{self.path}, row {row}: the commit {commit.id} occurs twice; keep only one of the two"
                )
            dates[commit.id] = commit.created_at
            yield commit

    @property
    def warnings(self) -> tuple[str, ...]:
        """Counts of irregularities so far."""
        return tuple(f"{what}: {count:,}" for what, count in self._counts.items() if count)

    def _commit(self, location: str, record: JsonLine, dates: dict[str, datetime]) -> Commit:
        """The commit of a record; ``dates`` holds those of the commits before it."""
        for name, kind in FIELDS.items():
            if not isinstance(record.get(name), kind):
                raise ValueError(f"{location}: {name!r} must be a {'list' if kind is list else 'string'}")
        for name in ("parents", "files"):
            if not all(isinstance(item, str) for item in record[name]):
                raise ValueError(f"{location}: {name!r} must be a list of strings")
        if not record["commit"].isalnum():
            raise ValueError(f"{location}: 'commit' must be the id of a commit")
        try:
            created_at = parse_date(record["commit_date"])
        except ValueError as error:
            raise ValueError(
                f"{location}: unreadable commit_date {record['commit_date']!r}; expected: {EXPECTED}"
            ) from error
        latest = max([created_at, *(dates[parent] for parent in record["parents"] if parent in dates)])
        self._counts["commits dated before their parent, given the date of the parent"] += latest > created_at
        is_cut = bool(record.get("truncated", False))
        changes = parse_patch(record["diff"].strip("\n").split("\n"))
        files = self._all_files(changes, record["files"], is_cut)
        return Commit(record["commit"], tuple(record["parents"]), latest, record["message"], files, is_cut)

    def _all_files(self, changes: list[FileChange], named: list[str], is_cut: bool) -> tuple[FileChange, ...]:
        """The files that the diff shows, and those that the record only names; a cut diff lacks the last ones."""
        if is_cut and changes and changes[-1].path not in named:
            changes = changes[:-1]  # its path was cut off too
        paths = {change.path for change in changes} | {change.old_path for change in changes}
        absent = [path for path in dict.fromkeys(named) if path not in paths]
        if not is_cut:
            self._counts["files missing from a complete diff, kept without hunks"] += len(absent)
        return (*changes, *(FileChange("M", path, path, False, False, (), is_cut) for path in absent))
