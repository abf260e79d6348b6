"""Commits and their changed files as arrays."""

import re
from collections import defaultdict
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gedbd.io.console import track
from gedbd.localization.change_ranking.report_words import WordCounts
from gedbd.retrieval.growing_arrays import RaggedArray
from gedbd.retrieval.inverted_index import Vocabulary
from gedbd.text.diffs import FILE_HEADER, NEW_HUNK, DiffReader
from gedbd.text.words import CodeWords

HEADER = f"{FILE_HEADER}a/"
DELETED = "+++ /dev/null"
TRAILER = re.compile(r"^git-svn-id:.*$", re.MULTILINE)  # git-svn appends it to every message
FIX = re.compile(r"\b(?:fix|fixe[sd]|fixing|bug|bugs|bz)\b", re.IGNORECASE)
LINES = ("added", "removed", "unchanged")
UNKNOWN = -1
# Assumed number of lines of a file whose diff was cut before the added lines.
ASSUMED_LINES = 100
MAX_LINES = 100_000
MAX_RENAMES = 10  # through which the lines of a file are followed
NUMBERS = ("num_files", "added_lines", "removed_lines", "is_cut", "is_fix", "test_share")
SOURCE = re.compile(
    r"\.(?:java|kts?|scala|groovy|clj[cs]?|aj|jspx?|py|pyx|c|cc|cpp|cxx|h|hh|hpp|hxx|inl|cu|cs|fs|vb|mm?|swift|dart|js|mjs"
    r"|cjs|ts|mts|jsx|tsx|vue|svelte|go|rs|rb|erb|php|pl|pm|lua|r|jl|exs?|erl|hs|elm|mli?|nim|zig|sol|s|asm|f90|f|pas|ada"
    r"|adb|sql|sh|bash|ps1|bat|cmake|css|scss|less)$",
    re.IGNORECASE,
)


class Owners(NamedTuple):
    """The commits that the lines of a file come from."""

    commits: np.ndarray  # ``(O,)`` rows of commits, ascending; lines of unknown origin are left out
    lines: np.ndarray  # ``(O,)`` number of lines of each commit
    total: int  # number of all lines, including those of unknown origin


NO_OWNERS = Owners(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64), 0)


class FileLines:
    """The lines of one file, each as the row of the commit that it comes from.

    Equal to ``git blame`` if the history is linear and all diffs are complete. Lines that no diff shows come from the
    first commit of the file if its diff was cut; otherwise their origin is unknown. Arrays are never changed in place,
    so a copy is independent. ``lines`` are the initial ones, ``(L,)`` int32: those of the file that this one was
    renamed from.
    """

    def __init__(self, lines: np.ndarray | None = None) -> None:
        self.lines = np.empty(0, dtype=np.int32) if lines is None else lines
        self._base = UNKNOWN
        self._is_new = lines is None

    def apply(self, commit: int, edits: np.ndarray, is_deleted: bool = False, has_hunks: bool = True) -> None:
        """Applies the change of a commit, given by its row; for ``edits`` and ``has_hunks`` see ``FileDiff``."""
        if self._is_new and not has_hunks:
            self._base = commit
            self.lines = np.full(ASSUMED_LINES, commit, dtype=np.int32)
        self._is_new = False
        if is_deleted:
            self.lines = np.empty(0, dtype=np.int32)
            return
        # The edits may reach lines that no earlier diff showed.
        num_missing = min(int((edits[:, 0] + edits[:, 1]).max(initial=0)), MAX_LINES) - len(self.lines)
        self.lines = np.concatenate([self.lines, np.full(max(num_missing, 0), self._base, dtype=np.int32)])
        pieces = []
        end = 0  # of the old lines copied so far
        for start, removed, added in edits.tolist():
            if start + removed + added > MAX_LINES:
                break
            pieces += [self.lines[end:start], np.full(added, commit, dtype=np.int32)]
            end = max(end, start + removed)
        self.lines = np.concatenate([*pieces, self.lines[end:]])[:MAX_LINES]

    @property
    def owners(self) -> Owners:
        """The commits that the lines come from."""
        commits, lines = np.unique(self.lines, return_counts=True)
        is_known = commits != UNKNOWN
        return Owners(commits[is_known], lines[is_known], len(self.lines))


@dataclass(frozen=True)
class ChangeTable:
    """N commits in chronological order, and R file rows: one for each changed file of each commit.

    The lookup tables that queries read are built at first use.
    """

    numbers: np.ndarray  # ``(N, 6)`` float32: the columns ``NUMBERS``
    message_words: RaggedArray  # for each commit ``(T, 2)`` int32: words of the message and their counts
    row_commit: np.ndarray  # ``(R,)`` int64, ascending
    row_path: np.ndarray  # ``(R,)`` int64, rows of ``paths``
    row_old_path: np.ndarray  # ``(R,)`` int64, the path before a rename, or -1
    row_deleted: np.ndarray  # ``(R,)`` bool
    row_shown: np.ndarray  # ``(R,)`` bool, whether the diff shows lines
    # for each file row ``(T, 4)`` int32: words of the diff, and their counts in added, removed and unchanged lines
    row_words: RaggedArray
    row_edits: RaggedArray  # for each file row ``(E, 3)`` int32, see ``FileDiff``
    paths: list[str]  # all paths in the order of their first file row; old paths without a file row come last

    def joined(self, later: "ChangeTable") -> "ChangeTable":
        """The commits of both; those of ``later`` come last."""
        number = {path: row for row, path in enumerate(self.paths)}
        new_number = np.array([number.setdefault(path, len(number)) for path in later.paths] + [-1], dtype=np.int64)
        renumbered = replace(
            later,
            row_commit=later.row_commit + len(self.numbers),
            row_path=new_number[later.row_path],
            row_old_path=new_number[later.row_old_path],  # -1 stays -1
        )
        columns: dict[str, Any] = {}
        for name in COLUMNS:
            first, second = getattr(self, name), getattr(renumbered, name)
            is_ragged = isinstance(first, RaggedArray)
            columns[name] = first.joined(second) if is_ragged else np.concatenate([first, second])
        return ChangeTable(**columns, paths=list(number))

    def take(self, commits: np.ndarray) -> "ChangeTable":
        """The table of the rows ``commits``, in this order."""
        starts = np.searchsorted(self.row_commit, np.arange(len(self.numbers) + 1))
        by_commit = RaggedArray(starts, np.arange(len(self.row_commit)))
        rows = by_commit.take(commits)
        file_rows = rows.values
        old_paths = self.row_old_path[file_rows]
        # The order of the paths must not depend on the order in which commits were added.
        used, first = np.unique(
            np.concatenate([self.row_path[file_rows], old_paths[old_paths >= 0]]), return_index=True
        )
        used = used[np.argsort(first, kind="stable")]
        new_number = np.full(len(self.paths) + 1, -1, dtype=np.int64)
        new_number[used] = np.arange(len(used))
        columns: dict[str, Any] = {}
        for name in COLUMNS:
            column = getattr(self, name)
            kept = file_rows if name.startswith("row_") else commits
            columns[name] = column.take(kept) if isinstance(column, RaggedArray) else column[kept]
        columns["row_commit"] = np.repeat(np.arange(len(commits)), rows.lengths)
        columns["row_path"] = new_number[columns["row_path"]]
        columns["row_old_path"] = new_number[old_paths]
        return ChangeTable(**columns, paths=[self.paths[path] for path in used])

    def arrays(self) -> dict[str, np.ndarray]:
        """All columns but the paths as arrays."""
        arrays: dict[str, np.ndarray] = {}
        for name in COLUMNS:
            value = getattr(self, name)
            if isinstance(value, RaggedArray):
                arrays |= {f"{name}_starts": value.starts, name: value.values}
            else:
                arrays[name] = value
        return arrays

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray], paths: list[str]) -> "ChangeTable":
        """The table from the result of ``arrays``."""
        columns = {
            name: RaggedArray(arrays[f"{name}_starts"], arrays[name]) if f"{name}_starts" in arrays else arrays[name]
            for name in COLUMNS
        }
        return cls(**columns, paths=paths)  # type: ignore[arg-type]

    @cached_property
    def path_vocabulary(self) -> Vocabulary:
        """Numbers of the words of the paths."""
        return Vocabulary()

    @cached_property
    def _known(self) -> dict[int, tuple[int, FileLines, Owners]]:
        """For a path, a number of its first changes, and lines and owners after them.

        Never changed in place, so that threads may share them.
        """
        return {}

    def num_rows(self, num_commits: int) -> int:
        """Number of file rows of the first commits."""
        return int(np.searchsorted(self.row_commit, num_commits, side="left"))

    def frequency(self, words: np.ndarray, before: int) -> np.ndarray:
        """Number of the first ``before`` commits whose message or diff contains each word, ``(W,) -> (W,)``."""
        num_rows = self.num_rows(before)
        counts = []
        for word in words.tolist():
            in_diffs = self.row_commit[self.counts_in_rows.find(word, num_rows)[0]]
            counts.append(len(np.union1d(in_diffs, self.counts_in_messages.find(word, before)[0])))
        return np.array(counts, dtype=np.int64)

    def file_frequency(self, words: np.ndarray, before: int) -> np.ndarray:
        """Number of paths whose diffs in the first ``before`` commits contain each word, ``(W,) -> (W,)``."""
        num_rows = self.num_rows(before)
        rows = [self.counts_in_rows.find(word, num_rows)[0] for word in words.tolist()]
        return np.array([len(np.unique(self.row_path[word_rows])) for word_rows in rows], dtype=np.int64)

    @cached_property
    def counts_in_rows(self) -> WordCounts:
        """Words of the diffs by file row, see ``row_words``."""
        return WordCounts(self.row_words)

    @cached_property
    def counts_in_messages(self) -> WordCounts:
        """Words of the messages by commit."""
        return WordCounts(self.message_words)

    @cached_property
    def path_words(self) -> WordCounts:
        """Words of the paths, without suffixes, by path."""
        words = CodeWords()
        texts = (words.of_text(path.removesuffix(PurePosixPath(path).suffix)) for path in self.paths)
        return WordCounts.of(texts, self.path_vocabulary)

    @cached_property
    def paths_of_name(self) -> Mapping[str, list[int]]:
        """Paths by lower-case file name without suffix."""
        paths: dict[str, list[int]] = defaultdict(list)
        for number, path in enumerate(self.paths):
            paths[PurePosixPath(path).stem.lower()].append(number)
        return dict(paths)

    @cached_property
    def is_test(self) -> np.ndarray:
        """``(P,)`` bool, whether each path belongs to tests."""
        return np.array([is_test(path) for path in self.paths], dtype=bool)

    @cached_property
    def is_source(self) -> np.ndarray:
        """``(P,)`` bool, whether each path is a source file."""
        return np.array([is_source(path) for path in self.paths], dtype=bool)

    @cached_property
    def folders(self) -> np.ndarray:
        """``(P,)`` int64, the number of each path's folder."""
        return pd.Series([path.rpartition("/")[0] for path in self.paths], dtype=object).factorize()[0]

    def existing(self, num_rows: int) -> np.ndarray:
        """Which paths exist after the first file rows, ``(P,)`` bool: not those deleted or renamed."""
        rows = np.arange(num_rows)
        count = self.num_paths(num_rows)
        last = np.full(count, UNKNOWN)
        last[self.row_path[:num_rows]] = rows
        old_path = self.row_old_path[:num_rows]
        is_renaming = (old_path >= 0) & (old_path < count)
        renamed = np.full(count, UNKNOWN)
        renamed[old_path[is_renaming]] = rows[is_renaming]
        return np.asarray((last >= 0) & ~self.row_deleted[last] & (renamed <= last))

    def num_paths(self, num_rows: int) -> int:
        """Number of distinct paths in the first file rows; paths are numbered in the order of their first row."""
        return int(self.row_path[:num_rows].max(initial=-1)) + 1

    @cached_property
    def rows_of_path(self) -> RaggedArray:
        """The file rows of each path, ascending."""
        sizes = np.bincount(self.row_path, minlength=len(self.paths))
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return RaggedArray(starts, np.argsort(self.row_path, kind="stable"))

    def owners(self, path: int, num_changes: int) -> Owners:
        """The commits that a file's lines come from after its first changes, in the order of ``rows_of_path``."""
        first, known, owners = self._known.get(path, (0, FileLines(), NO_OWNERS))
        if first == num_changes:
            return owners
        # Queries mostly come in chronological order: continue from the last one.
        first, lines = (first, copy(known)) if first < num_changes else (0, FileLines())
        for row in self.rows_of_path[path][first:num_changes].tolist():
            lines = self._changed(lines, row, 0)
        owners = lines.owners
        self._known[path] = num_changes, lines, owners
        return owners

    def _changed(self, lines: FileLines, row: int, depth: int) -> FileLines:
        """The lines of a file after the change in a file row."""
        old_path = int(self.row_old_path[row])
        if not len(lines.lines) and old_path >= 0 and depth < MAX_RENAMES:
            lines = FileLines(self._lines_before(old_path, row, depth + 1))
        commit = int(self.row_commit[row])
        lines.apply(commit, self.row_edits[row], bool(self.row_deleted[row]), bool(self.row_shown[row]))
        return lines

    def _lines_before(self, path: int, row: int, depth: int) -> np.ndarray:
        """The lines of a path before the commit of a file row."""
        rows = self.rows_of_path[path]
        lines = FileLines()
        # A rename deletes the old path in the same commit, in an earlier or later row.
        for earlier in rows[self.row_commit[rows] < self.row_commit[row]].tolist():
            lines = self._changed(lines, earlier, depth)
        return lines.lines


COLUMNS = tuple(field.name for field in fields(ChangeTable) if field.name != "paths")


def empty_table() -> ChangeTable:
    """A table without commits."""
    empty = np.empty(0, dtype=np.int64)
    start = np.zeros(1, dtype=np.int64)
    return ChangeTable(
        numbers=np.empty((0, len(NUMBERS)), dtype=np.float32),
        message_words=RaggedArray(start, np.empty((0, 2), dtype=np.int32)),
        row_commit=empty,
        row_path=empty,
        row_old_path=empty,
        row_deleted=empty.astype(bool),
        row_shown=empty.astype(bool),
        row_words=RaggedArray(start, np.empty((0, 1 + len(LINES)), dtype=np.int32)),
        row_edits=RaggedArray(start, np.empty((0, 3), dtype=np.int32)),
        paths=[],
    )


def read_tables(commits: pd.DataFrame, files: pd.DataFrame, words: CodeWords, vocabulary: Vocabulary) -> ChangeTable:
    """Reads commits and their files; adds new words to the vocabulary."""
    files = files.iloc[np.argsort(files["commit"].to_numpy(), kind="stable")]
    rows = zip(files["diff"], files["paths"], strict=True)
    diffs: list[FileDiff] = []
    row_words = []
    for diff, path in track(rows, "words of changes", len(files)):
        file_diff = read_file_diff(diff, path)
        texts = [vocabulary([words.of_text(getattr(file_diff, name))], learn=True)[0] for name in LINES]
        distinct, positions = np.unique(np.concatenate(texts), return_inverse=True)
        ends = np.cumsum([len(text) for text in texts])[:-1]
        counts = [np.bincount(text, minlength=len(distinct)) for text in np.split(positions, ends)]
        row_words.append(np.column_stack([distinct, *counts]).astype(np.int32))
        diffs.append(file_diff._replace(added="", removed="", unchanged=""))
    messages = (commits["title"] + "\n" + commits["description"]).tolist()
    message_texts = (words.of_text(TRAILER.sub("", message)) for message in messages)
    message_words = WordCounts.of(message_texts, vocabulary).texts
    row_commit = files["commit"].to_numpy(dtype=np.int64)
    tests = np.bincount(row_commit, [is_test(path) for path in files["paths"]], minlength=len(commits))
    numbers = [commits[name].to_numpy(dtype=np.float32) for name in NUMBERS[:4]]
    is_fix = [FIX.search(message) is not None for message in messages]
    test_share = tests / np.maximum(np.bincount(row_commit, minlength=len(commits)), 1)
    number: dict[str, int] = {}
    row_path = [number.setdefault(path, len(number)) for path in files["paths"]]
    row_old_path = [number.setdefault(row.old_path, len(number)) if row.old_path else -1 for row in diffs]
    empty = empty_table()
    return ChangeTable(
        numbers=np.column_stack([*numbers, is_fix, test_share]).astype(np.float32),
        message_words=message_words,
        row_commit=row_commit,
        row_path=np.array(row_path, dtype=np.int64),
        row_old_path=np.array(row_old_path, dtype=np.int64),
        row_deleted=np.array([row.is_deleted for row in diffs], dtype=bool),
        row_shown=np.array([row.has_hunks for row in diffs], dtype=bool),
        row_words=RaggedArray.of(row_words, empty.row_words.values),
        row_edits=RaggedArray.of([row.edits for row in diffs], empty.row_edits.values),
        paths=list(number),
    )


def is_test(path: str) -> bool:
    """Whether a path belongs to tests, such as ``src/test/A.java``, ``ATest.java`` or ``testdata/x``."""
    return "test" in path.lower()


def is_source(path: str) -> bool:
    """Whether a file holds source code, by its suffix."""
    return SOURCE.search(PurePosixPath(path).name) is not None


class FileDiff(NamedTuple):
    """The diff of one file of a commit."""

    added: str  # text of the added lines
    removed: str  # text of the removed lines
    unchanged: str  # text of the lines around them, and of the sections in hunk headers
    # ``(E, 3)`` int32: position in the old file from 0, number of removed lines, number of added lines. Lines 5 and 6
    # that are replaced by one line are 4, 2, 1
    edits: np.ndarray
    old_path: str  # the path before a rename or copy, or empty
    is_deleted: bool  # whether the file is deleted
    has_hunks: bool  # whether the diff shows changed lines; False for binary files, or if it was cut before the file


def read_file_diff(diff: str, path: str) -> FileDiff:
    """Reads a diff of ``ChangeCorpus.files``, which may be cut off anywhere; ``path`` is the path after the change."""
    reader = DiffReader()
    texts: dict[str, list[str]] = {"+": [], "-": [], " ": []}
    edits: list[list[int]] = []
    is_deleted = False
    has_hunks = False
    position = 0  # in the old file, from 0
    is_in_edit = False  # whether the last line belongs to the last edit
    lines = diff.split("\n")
    for line in lines:
        kind = reader.kind(line)
        if kind in texts:
            texts[kind].append(line[1:])
            if kind != " ":
                if not is_in_edit:
                    edits.append([position, 0, 0])
                edits[-1][1 if kind == "-" else 2] += 1
            is_in_edit = kind != " "
            position += kind != "+"
            continue
        if kind == NEW_HUNK:
            has_hunks = True
            texts[" "].append(reader.hunk.section)
            # "-4,0" is after line 4, at position 4; "-4,1" removes line 4, at position 3.
            position = max(reader.hunk.old_start - (reader.hunk.old_count > 0), 0)
        is_deleted = is_deleted or line == DELETED
        is_in_edit = is_in_edit and reader.is_in_hunk and kind != NEW_HUNK
    return FileDiff(
        added="\n".join(texts["+"]),
        removed="\n".join(texts["-"]),
        unchanged="\n".join(texts[" "]),
        edits=np.array(edits, dtype=np.int32).reshape(-1, 3),
        old_path=_old_path(lines[0], path),
        is_deleted=is_deleted,
        has_hunks=has_hunks,
    )


def _old_path(first_line: str, path: str) -> str:
    """The path before a rename: ``x.c`` for ``diff --git a/x.c b/y.c``; empty without a rename."""
    old = first_line.removeprefix(HEADER).removesuffix(f" b/{path}")
    return old if len(old) < len(first_line) - len(HEADER) and old != path else ""
