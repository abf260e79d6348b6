"""Commits, the parser of the diffs that Git writes, and commits as tables of documents: commits, files, hunks."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pandas as pd
from pandas.api.typing import NaTType

from gedbd.corpora.corpus import CHANGE_COLUMNS, COMMIT_COLUMNS, HUNK_COLUMNS, Documents
from gedbd.corpora.relevance import Links
from gedbd.localization.repository.git_command import SUBMODULE_MODE, unquote
from gedbd.text.diffs import FILE_HEADER, MARKS, NEW_FILE, NEW_HUNK, DiffReader, HunkHeader

MIN_ID_LENGTH = 4  # Git's own limit for abbreviations
LINK_COLUMNS = ["query", "document", "source", "made_at"]
MODES = {"new file mode ": "A", "deleted file mode ": "D", "old mode ": "M", "new mode ": "M"}
NAMES = {"rename from ": "R", "rename to ": "R", "copy from ": "C", "copy to ": "C"}


class Limits(NamedTuple):
    """How much of a commit is kept. What is left out is flagged with ``is_cut`` and counted, and not held in memory."""

    max_files: int = 1_000  # files of a commit
    max_file_chars: int = 100_000  # characters of the hunks of a file
    max_commit_chars: int = 2_000_000  # characters of the hunks of all files of a commit
    max_line_chars: int = 1_000  # characters of a line, with its prefix
    max_message_bytes: int = 100_000  # bytes of a message


NO_LIMITS = Limits(*(2**62,) * len(Limits._fields))


class Hunk(NamedTuple):
    """Neighbouring changed lines of a file, with three lines of context around them."""

    old_start: int  # first line before the change, from 1; the line before the hunk if ``old_count`` is 0
    old_count: int  # number of lines before the change
    new_start: int  # first line after the change, likewise
    new_count: int  # number of lines after the change
    section: str  # what Git shows after ``@@``: mostly the signature of the class or function around the hunk
    # lines with their prefix ``" "``, ``"+"`` or ``"-"``, without the line end; a carriage return stays. Of a cut
    # file they may be fewer than the counts say.
    lines: tuple[str, ...]


class FileChange(NamedTuple):
    """What a commit does to a file."""

    # A(dded), M(odified, or only the mode), D(eleted), R(enamed), C(opied) or T(ype changed: file, symbolic link,
    # submodule)
    status: str
    path: str  # path after the change; of a deleted file, its path before
    old_path: str  # path before the change; empty for an added file
    is_binary: bool  # the content is not text, or is larger than 16 MB; there are no hunks
    is_submodule: bool  # before or after the change, the path is a submodule; its hunk holds commit ids
    hunks: tuple[Hunk, ...]  # changed lines; none if only the name or mode changed
    is_cut: bool  # a limit left out lines or parts of lines, or the diff ends in the middle of a hunk


class Commit(NamedTuple):
    """A commit and what it changes relative to its first parent."""

    id: str  # hexadecimal object name
    parents: tuple[str, ...]  # ids of the parents; none for a root commit, two and more for a merge
    created_at: datetime  # time of the commit (not of its author), in UTC; never before that of a parent
    message: str
    files: tuple[FileChange, ...]  # changed files, by path
    is_cut: bool  # files were left out, or one of ``files`` is cut


class CommitIds:
    """Finds rows by full or abbreviated commit ids, ignoring case."""

    def __init__(self, ids: Sequence[str]) -> None:
        # Sorted with their rows: the ids that begin with "ab" follow the place where "ab" itself would be.
        self._sorted = sorted((id_.lower(), row) for row, id_ in enumerate(ids))

    def row(self, text: str) -> int | None:
        """The row of the only commit whose id begins with a text; None if there is none, or more than one."""
        prefix = text.strip().lower()
        if len(prefix) < MIN_ID_LENGTH:
            return None
        start = bisect_left(self._sorted, (prefix, -1))
        rows = [row for id_, row in self._sorted[start : start + 2] if id_.startswith(prefix)]
        return rows[0] if len(rows) == 1 else None


LinkRow = tuple[int, int, pd.Timestamp | NaTType]
"""The rows of a report and of a document, and when the link was made in UTC, ``NaT`` if unknown."""


def make_links(rows: Sequence[LinkRow], num_reports: int, num_documents: int, source: str) -> Links:
    """Links of reports to the rows of one table, by both; each pair once, with the earliest date."""
    table = pd.DataFrame(rows, columns=["query", "document", "made_at"])
    table = table.astype({"query": "int64", "document": "int64"}).assign(source=source)
    table["made_at"] = pd.to_datetime(table["made_at"], utc=True)
    table = table.sort_values(["query", "document", "made_at"], kind="stable")
    kept = table.drop_duplicates(["query", "document"])[LINK_COLUMNS].reset_index(drop=True)
    return Links(kept, num_reports, num_documents)


def parse_patch(lines: Iterable[str], limits: Limits = NO_LIMITS) -> list[FileChange]:
    """The files of a diff, whose lines may end with a line feed.

    Lines of a hunk are recognised by the counts in its header, never by how they look. A diff that was cut anywhere,
    lacks its ``---`` lines or has unknown lines is read as far as possible, and its file flagged as cut. Split a text
    by line feeds: ``splitlines`` also splits at characters that occur inside lines.
    """
    parser = PatchParser(limits)
    for line in lines:
        parser.add(line[:-1] if line.endswith("\n") else line)
    return parser.finish()


class PatchParser:
    """Parses the lines of a diff one by one; ``num_dropped_files`` counts the files beyond the limit."""

    def __init__(self, limits: Limits) -> None:
        self.num_dropped_files = 0
        self._limits = limits
        self._files: list[FileChange] = []
        self._file: _OpenFile | None = None
        self._chars_left = limits.max_commit_chars
        self._reader = DiffReader()

    def add(self, line: str) -> None:
        """Take a line without its line feed."""
        was_in_hunk = self._reader.is_in_hunk
        kind = self._reader.kind(line)
        if kind == NEW_FILE:
            self._close_file(is_cut=was_in_hunk)
            self._file = _OpenFile(line, self._limits, self._chars_left)
        elif self._file is None or (was_in_hunk and line.startswith("\\")):  # "\ No newline at end of file"
            return
        elif kind == NEW_HUNK:
            self._file.open_hunk(self._reader.hunk, is_cut=was_in_hunk)
        elif kind in MARKS:
            self._file.add_line(line or " ")
        elif was_in_hunk or line.startswith("@@ "):
            self._file.is_cut = True
        else:
            self._file.add_header(line)

    def finish(self) -> list[FileChange]:
        """The files, after the last line."""
        self._close_file(is_cut=self._reader.is_in_hunk)
        return self._files

    def _close_file(self, is_cut: bool) -> None:
        if self._file is None:
            return
        self._file.is_cut |= is_cut
        change = self._file.change()
        self._chars_left -= self._file.num_chars
        self._file = None
        before = self._files[-1] if self._files else change
        if (before.status, change.status, before.path) == ("D", "A", change.path):
            # Git shows a change of type, such as from file to link, as a deletion and an addition.
            self._files[-1] = FileChange(
                "T",
                change.path,
                before.path,
                before.is_binary or change.is_binary,
                before.is_submodule or change.is_submodule,
                before.hunks + change.hunks,
                before.is_cut or change.is_cut,
            )
        elif len(self._files) < self._limits.max_files:
            self._files.append(change)
        else:
            self.num_dropped_files += 1


class _OpenFile:
    """A file of a diff whose lines are still being read."""

    def __init__(self, header: str, limits: Limits, chars_left: int) -> None:
        self.num_chars = 0
        self.is_cut = False
        self._max_line_chars = limits.max_line_chars
        self._max_chars = max(0, min(limits.max_file_chars, chars_left))
        self._old_path, self._path = _header_paths(header[len(FILE_HEADER) :])
        self._status = "M"
        self._is_binary = False
        self._is_submodule = False
        self._hunks: list[Hunk] = []
        self._hunk: HunkHeader | None = None
        self._lines: list[str] = []

    def open_hunk(self, hunk: HunkHeader, is_cut: bool) -> None:
        """Take the header of a hunk; ``is_cut`` if the one before it lacks lines."""
        self._close_hunk()
        self.is_cut |= is_cut
        self._hunk = hunk._replace(section=hunk.section[: self._max_line_chars])

    def add_line(self, line: str) -> None:
        """Take a line of a hunk, as far as the limits allow."""
        if len(line) > self._max_line_chars:
            self.is_cut = True
            line = line[: self._max_line_chars]
        if self.num_chars + len(line) > self._max_chars:
            self.is_cut = True
            self._max_chars = 0  # drops all later lines too, even shorter ones
            return
        self.num_chars += len(line)
        self._lines.append(line)

    def add_header(self, line: str) -> None:
        """Take a line outside of hunks."""
        if line.startswith(("Binary files ", "GIT binary patch")):
            self._is_binary = True
        elif line.startswith("index "):
            self._is_submodule |= line.endswith(f" {SUBMODULE_MODE}")
        elif line.startswith("+++ "):
            # Git puts a tab after paths with spaces. Unlike the path of the "diff" line, this one is unambiguous.
            path = unquote(line[4:].rstrip("\t"))
            if path.startswith("b/"):
                self._path = path[2:]
                self._old_path = self._path if self._status == "M" else self._old_path
        else:
            self._add_mode_or_name(line)

    def change(self) -> FileChange:
        """The file, after its last line."""
        self._close_hunk()
        old_path = "" if self._status == "A" else self._old_path
        flags = (self._is_binary, self._is_submodule)
        return FileChange(self._status, self._path, old_path, *flags, tuple(self._hunks), self.is_cut)

    def _close_hunk(self) -> None:
        if self._hunk is not None and self._lines:
            self._hunks.append(Hunk(*self._hunk, tuple(self._lines)))
        self._lines = []

    def _add_mode_or_name(self, line: str) -> None:
        for prefix, status in MODES.items():
            if line.startswith(prefix):
                self._is_submodule |= line.endswith(SUBMODULE_MODE)
                self._status = status if self._status == "M" else self._status
        for prefix, status in NAMES.items():
            if line.startswith(prefix):
                self._status = status
                name = unquote(line[len(prefix) :])
                if prefix.endswith("from "):
                    self._old_path = name
                else:
                    self._path = name


def _header_paths(names: str) -> tuple[str, str]:
    """Both paths of ``a/x b/x``, which may contain spaces; later lines name renames.

    The two have the same length: "a/x y b/x y" has 11 characters, the first path is characters 0 to 5.
    """
    middle = len(names) // 2
    old = unquote(names[:middle])
    new = unquote(names[middle + 1 :])
    if names[middle : middle + 1] == " " and old[2:] == new[2:]:
        return old[2:], new[2:]
    # A rename, or a line that was cut.
    before, _, after = names.partition('" "' if names.startswith('"') else " b/")
    if names.startswith('"'):
        return unquote(f'{before}"')[2:], unquote(f'"{after}')[2:]
    return unquote(before)[2:], unquote(after or before[2:])


MAX_REPEATED_CHARS = 10_000  # of a message, which every file and hunk of its commit repeats
NO_FILE = "/dev/null"  # how a unified diff writes the missing side of an added or deleted file


class ChangeTables(NamedTuple):
    """The tables of ``ChangeCorpus``."""

    commits: Documents
    files: Documents
    hunks: Documents
    warnings: tuple[str, ...]


class TableBuilder:
    """Collects the rows of the three tables, commit by commit.

    Only texts cut to ``max_diff_chars`` are kept; files and hunks repeat the first ``MAX_REPEATED_CHARS`` characters of
    their commit's message.
    """

    def __init__(self, name: str, max_diff_chars: int) -> None:
        self.name = name
        self.max_diff_chars = max_diff_chars
        self._commits: list[tuple[object, ...]] = []
        self._files: list[tuple[object, ...]] = []
        self._hunks: list[tuple[object, ...]] = []
        self._counts: Counter[str] = Counter()

    def add(self, commit: Commit) -> None:
        """Adds the rows of a commit, which is no older than those before it."""
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
            file_diff = self._add_file(f"{commit.id}:{change.path}", repeated, change, row)
            if num_chars <= self.max_diff_chars:  # one character more shows that the limit was exceeded
                diffs.append(file_diff[: self.max_diff_chars + 1])
                num_chars += len(file_diff) + 1
        diff = self._cut("commits", "\n".join(diffs))
        paths = "\n".join(change.path for change in files)
        numbers = (len(commit.parents) > 1, len(files), added, removed, commit.is_cut)
        self._commits.append(
            (commit.id, commit.created_at, *texts, paths, diff, row, " ".join(commit.parents), *numbers)
        )
        self._counts["commits with files or lines left out"] += commit.is_cut
        num_without_diff = sum(change.is_cut and not change.hunks and not change.is_binary for change in files)
        self._counts["files without a diff, as the commit was cut before them"] += num_without_diff

    def _add_file(self, id_: str, texts: tuple[object, ...], change: FileChange, commit: int) -> str:
        """Adds the rows of a file and of its hunks, and returns the whole diff."""
        row = len(self._files)
        hunks = [hunk_text(hunk) for hunk in change.hunks]
        file_diff = "\n".join([file_header(change), *hunks])
        self._files.append((id_, *texts, change.path, self._cut("files", file_diff), commit))
        for number, (hunk, text) in enumerate(zip(change.hunks, hunks, strict=True), start=1):
            numbers = (row, hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count)
            self._hunks.append((f"{id_}:{number}", *texts, change.path, self._cut("hunks", text), commit, *numbers))
        return file_diff

    def _cut(self, what: str, text: str) -> str:
        """Cuts a diff at ``max_diff_chars``, and counts the cut diffs."""
        if len(text) <= self.max_diff_chars:
            return text
        self._counts[f"{what} with a diff of more than {self.max_diff_chars:,} characters, cut there"] += 1
        return text[: self.max_diff_chars]

    def tables(self) -> ChangeTables:
        """The tables of the commits so far."""
        commits = _frame(self._commits, (*CHANGE_COLUMNS, *COMMIT_COLUMNS))
        files = _frame(self._files, CHANGE_COLUMNS)
        hunks = _frame(self._hunks, (*CHANGE_COLUMNS, *HUNK_COLUMNS)).astype({"file": np.int64})
        warnings = tuple(f"{what}: {count:,}" for what, count in self._counts.items() if count)
        documents = [Documents(self.name, table) for table in (commits, files, hunks)]
        return ChangeTables(documents[0], documents[1], documents[2], warnings)


def change_tables(name: str, commits: Iterable[Commit], max_diff_chars: int) -> ChangeTables:
    """The tables of commits, parents first; commits with the same date keep their order."""
    builder = TableBuilder(name, max_diff_chars)
    for commit in sorted(commits, key=lambda commit: commit.created_at):
        builder.add(commit)
    return builder.tables()


def joined_by_path(files: Iterable[FileChange]) -> list[FileChange]:
    """The changes of a commit, one per path, so that ids are unique: a patch may show a path twice."""
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
        lines += [f"--- {NO_FILE if change.status == 'A' else old}", f"+++ {NO_FILE if change.status == 'D' else new}"]
    return "\n".join(lines)


def hunk_text(hunk: Hunk) -> str:
    """A hunk of a unified diff, with its header."""
    section = f" {hunk.section}" if hunk.section else ""
    header = f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@"
    return "\n".join([header + section, *hunk.lines])


def _frame(rows: list[tuple[object, ...]], columns: tuple[str, ...]) -> pd.DataFrame:
    """Rows as a table; ``created_at`` is UTC, and ``commit`` a number, even without rows."""
    table = pd.DataFrame(rows, columns=list(columns)).astype({"commit": np.int64})
    rows.clear()  # the table holds them now
    return table.assign(created_at=pd.to_datetime(table["created_at"], utc=True))
