"""Commits as three tables of documents: commits, files of commits, hunks of files."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import CHANGE_COLUMNS, COMMIT_COLUMNS, HUNK_COLUMNS, Documents
from gedbd.localization.repository.commits import Commit, FileChange, Hunk

MAX_REPEATED_CHARS = 10_000  # of a message, which every file and hunk of its commit repeats
NO_FILE = "/dev/null"  # how a unified diff writes the missing side of an added or deleted file


class ChangeTables(NamedTuple):
    """The tables of ``ChangeCorpus``."""

    commits: Documents
    files: Documents
    hunks: Documents
    warnings: tuple[str, ...]


class TableBuilder:
    """Collects the rows of the three tables from one commit after the other.

    A changed line is in memory up to three times: in its commit, file and hunk. Only texts cut to ``max_diff_chars``
    are kept; files and hunks repeat the first ``MAX_REPEATED_CHARS`` characters of their commit's message.
    """

    def __init__(self, name: str, max_diff_chars: int) -> None:
        self.name = name
        self.max_diff_chars = max_diff_chars
        self._commits: list[tuple[object, ...]] = []
        self._files: list[tuple[object, ...]] = []
        self._hunks: list[tuple[object, ...]] = []
        self._counts: Counter[str] = Counter()

    def add(self, commit: Commit) -> None:
        """Adds the rows of a commit, which comes after its parents."""
        title, _, description = commit.message.strip().partition("\n")
        files = joined_by_path(commit.files)
        row = len(self._commits)
        texts = (title.strip(), description.strip())
        repeated = (commit.created_at, *(text[:MAX_REPEATED_CHARS] for text in texts))
        if max(map(len, texts)) > MAX_REPEATED_CHARS:
            self._counts[f"commits whose files repeat only {MAX_REPEATED_CHARS:,} characters of a long message"] += 1
        added = 0
        removed = 0
        diffs: list[str] = []
        num_chars = 0
        for change in files:
            signs = Counter(line[:1] for hunk in change.hunks for line in hunk.lines)
            added += signs["+"]
            removed += signs["-"]
            whole = self._add_file(f"{commit.id}:{change.path}", repeated, change, row)
            if num_chars <= self.max_diff_chars:  # one character more shows that the limit was exceeded
                diffs.append(whole[: self.max_diff_chars + 1])
                num_chars += len(whole) + 1
        diff = self._cut("commits", "\n".join(diffs))
        paths = "\n".join(change.path for change in files)
        numbers = (len(commit.parents) > 1, len(files), added, removed, commit.is_cut)
        self._commits.append(
            (commit.id, commit.created_at, *texts, paths, diff, row, " ".join(commit.parents), *numbers)
        )
        self._counts["commits with files or lines left out"] += commit.is_cut
        without = sum(change.is_cut and not change.hunks and not change.is_binary for change in files)
        self._counts["files without a diff, as the commit was cut before them"] += without

    def _add_file(self, id_: str, texts: tuple[object, ...], change: FileChange, commit: int) -> str:
        """Adds the row of a file and those of its hunks, and gives the whole diff."""
        row = len(self._files)
        hunks = [hunk_text(hunk) for hunk in change.hunks]
        whole = "\n".join([file_header(change), *hunks])
        self._files.append((id_, *texts, change.path, self._cut("files", whole), commit))
        for number, (hunk, text) in enumerate(zip(change.hunks, hunks, strict=True), start=1):
            numbers = (row, hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count)
            self._hunks.append((f"{id_}:{number}", *texts, change.path, self._cut("hunks", text), commit, *numbers))
        return whole

    def _cut(self, what: str, text: str) -> str:
        """The beginning of a diff; those that are longer are counted."""
        if len(text) <= self.max_diff_chars:
            return text
        self._counts[f"{what} with a diff of more than {self.max_diff_chars:,} characters, cut there"] += 1
        return text[: self.max_diff_chars]

    def tables(self) -> ChangeTables:
        """The tables in chronological order; commits of one moment stay in the order in which they were added."""
        commits = _frame(self._commits, (*CHANGE_COLUMNS, *COMMIT_COLUMNS))
        files = _frame(self._files, CHANGE_COLUMNS)
        hunks = _frame(self._hunks, (*CHANGE_COLUMNS, *HUNK_COLUMNS))
        order = commits["created_at"].argsort(kind="stable").to_numpy()
        commits = commits.iloc[order].reset_index(drop=True).assign(commit=np.arange(len(commits)))
        # Order [2, 0, 1] puts the commit that was added third into row 0: the new rows of the old ones are [1, 2, 0].
        new_row = np.argsort(order)
        files, file_row = _renumbered(files, "commit", new_row)
        hunks, _ = _renumbered(hunks.assign(commit=new_row[hunks["commit"]]), "file", file_row)
        warnings = tuple(f"{what}: {count:,}" for what, count in self._counts.items() if count)
        documents = [Documents(self.name, table) for table in (commits, files, hunks)]
        return ChangeTables(documents[0], documents[1], documents[2], warnings)


def change_tables(name: str, commits: Iterable[Commit], max_diff_chars: int) -> ChangeTables:
    """The tables of commits, parents first."""
    builder = TableBuilder(name, max_diff_chars)
    for commit in commits:
        builder.add(commit)
    return builder.tables()


def joined_by_path(files: Iterable[FileChange]) -> list[FileChange]:
    """The changes of a commit, one a path, so that ids are unique: a patch may show a path twice."""
    joined: dict[str, FileChange] = {}
    for change in files:
        before = joined.get(change.path)
        if before is not None:
            is_cut = before.is_cut or change.is_cut
            change = before._replace(status="T", hunks=(*before.hunks, *change.hunks), is_cut=is_cut)
        joined[change.path] = change
    return list(joined.values())


def file_header(change: FileChange) -> str:
    """The lines of a unified diff above the hunks of a file."""
    old = f"a/{change.old_path or change.path}"
    new = f"b/{change.path}"
    lines = [f"diff --git {old} {new}"]
    if change.is_binary:
        lines.append(f"Binary files {old} and {new} differ")
    if change.hunks:
        lines.append(f"--- {NO_FILE if change.status == 'A' else old}")
        lines.append(f"+++ {NO_FILE if change.status == 'D' else new}")
    return "\n".join(lines)


def hunk_text(hunk: Hunk) -> str:
    """A hunk of a unified diff, with its header."""
    section = f" {hunk.section}" if hunk.section else ""
    header = f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@"
    return "\n".join([header + section, *hunk.lines])


def _frame(rows: list[tuple[object, ...]], columns: tuple[str, ...]) -> pd.DataFrame:
    """Rows as a table; ``created_at`` is UTC also where there is no row."""
    table = pd.DataFrame(rows, columns=list(columns))
    rows.clear()  # the table holds them now
    return table.assign(created_at=pd.to_datetime(table["created_at"], utc=True))


def _renumbered(table: pd.DataFrame, column: str, new_row: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
    """A table whose ``column`` refers to the rows of another one, sorted as those are; and the new rows of this one."""
    table = table.assign(**{column: new_row[table[column].to_numpy(dtype=np.int64)]})
    order = table[column].argsort(kind="stable").to_numpy()
    return table.iloc[order].reset_index(drop=True), np.argsort(order)
