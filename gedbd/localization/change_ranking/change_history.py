"""The commits of a repository as arrays, and the lookup tables that queries read."""

from collections import defaultdict
from collections.abc import Mapping
from copy import copy
from functools import cached_property
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.localization.change_ranking.change_table import ChangeTable, empty_table, is_source, is_test, read_tables
from gedbd.localization.change_ranking.report_words import WordCounts
from gedbd.retrieval.growing_arrays import RaggedArray
from gedbd.retrieval.inverted_index import Vocabulary
from gedbd.text.words import CodeWords

UNKNOWN = -1
# Assumed number of lines of a file whose diff was cut before the added lines.
ASSUMED_LINES = 100
MAX_LINES = 100_000
MAX_RENAMES = 10  # through which the lines of a file are followed
SEPARATOR = "\0"  # occurs in no path, word or id


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


class ChangeIndex:
    """Lookup tables of a history, each built at first use."""

    def __init__(self, table: ChangeTable) -> None:
        self.table = table
        self.path_vocabulary = Vocabulary()
        # For a path, a number of its first changes, and lines and owners after them; never changed in place, so that
        # threads may share them.
        self._known: dict[int, tuple[int, FileLines, Owners]] = {}

    def num_rows(self, num_commits: int) -> int:
        """Number of file rows of the first commits."""
        return int(np.searchsorted(self.table.row_commit, num_commits, side="left"))

    def frequency(self, words: np.ndarray, before: int) -> np.ndarray:
        """Number of the first ``before`` commits whose message or diff contains each word, ``(W,) -> (W,)``."""
        num_rows = self.num_rows(before)
        counts = []
        for word in words.tolist():
            in_diffs = self.table.row_commit[self.row_words.find(word, num_rows)[0]]
            counts.append(len(np.union1d(in_diffs, self.message_words.find(word, before)[0])))
        return np.array(counts, dtype=np.int64)

    def file_frequency(self, words: np.ndarray, before: int) -> np.ndarray:
        """Number of paths whose diffs in the first ``before`` commits contain each word, ``(W,) -> (W,)``."""
        num_rows = self.num_rows(before)
        rows = [self.row_words.find(word, num_rows)[0] for word in words.tolist()]
        return np.array([len(np.unique(self.table.row_path[word_rows])) for word_rows in rows], dtype=np.int64)

    @cached_property
    def row_words(self) -> WordCounts:
        """Words of the diffs by file row, counted as in ``ChangeTable.row_words``."""
        return WordCounts(self.table.row_words)

    @cached_property
    def message_words(self) -> WordCounts:
        """Words of the messages by commit."""
        return WordCounts(self.table.message_words)

    @cached_property
    def path_words(self) -> WordCounts:
        """Words of the paths, without suffixes, by path."""
        words = CodeWords()
        texts = (words.of_text(path.removesuffix(PurePosixPath(path).suffix)) for path in self.table.paths)
        return WordCounts.of(texts, self.path_vocabulary)

    @cached_property
    def paths_of_name(self) -> Mapping[str, list[int]]:
        """Paths by lower-case file name without suffix."""
        paths: dict[str, list[int]] = defaultdict(list)
        for number, path in enumerate(self.table.paths):
            paths[PurePosixPath(path).stem.lower()].append(number)
        return dict(paths)

    @cached_property
    def is_test(self) -> np.ndarray:
        """``(P,)`` bool, whether each path belongs to tests."""
        return np.array([is_test(path) for path in self.table.paths], dtype=bool)

    @cached_property
    def is_source(self) -> np.ndarray:
        """``(P,)`` bool, whether each path is a source file."""
        return np.array([is_source(path) for path in self.table.paths], dtype=bool)

    @cached_property
    def folders(self) -> np.ndarray:
        """``(P,)`` int64, the number of each path's folder."""
        number: dict[str, int] = {}
        folders = [number.setdefault(path.rpartition("/")[0], len(number)) for path in self.table.paths]
        return np.array(folders, dtype=np.int64)

    def existing(self, num_rows: int) -> np.ndarray:
        """Which paths exist after the first file rows, ``(P,)`` bool: not those deleted or renamed."""
        table = self.table
        rows = np.arange(num_rows)
        count = self.num_paths(num_rows)
        last = np.full(count, UNKNOWN)
        last[table.row_path[:num_rows]] = rows
        old_path = table.row_old_path[:num_rows]
        is_renaming = (old_path >= 0) & (old_path < count)
        renamed = np.full(count, UNKNOWN)
        renamed[old_path[is_renaming]] = rows[is_renaming]
        return np.asarray((last >= 0) & ~table.row_deleted[last] & (renamed <= last))

    def num_paths(self, num_rows: int) -> int:
        """Number of distinct paths in the first file rows; paths are numbered in the order of their first row."""
        return int(self.table.row_path[:num_rows].max(initial=-1)) + 1

    @cached_property
    def rows_of_path(self) -> RaggedArray:
        """The file rows of each path, ascending."""
        sizes = np.bincount(self.table.row_path, minlength=len(self.table.paths))
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return RaggedArray(starts, np.argsort(self.table.row_path, kind="stable"))

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
        table = self.table
        old_path = int(table.row_old_path[row])
        if not len(lines.lines) and old_path >= 0 and depth < MAX_RENAMES:
            lines = FileLines(self._lines_before(old_path, row, depth + 1))
        commit = int(table.row_commit[row])
        lines.apply(commit, table.row_edits[row], bool(table.row_deleted[row]), bool(table.row_shown[row]))
        return lines

    def _lines_before(self, path: int, row: int, depth: int) -> np.ndarray:
        """The lines of a path before the commit of a file row."""
        rows = self.rows_of_path[path]
        lines = FileLines()
        # A rename deletes the old path in the same commit, in an earlier or later row.
        for earlier in rows[self.table.row_commit[rows] < self.table.row_commit[row]].tolist():
            lines = self._changed(lines, earlier, depth)
        return lines.lines


class ChangeQuery(NamedTuple):
    """A report as a query; without a date, all commits are before it."""

    title: str
    description: str
    created_at: pd.Timestamp | None = None


class ChangeHistory:
    """The commits of a repository in chronological order.

    Attributes:
        ids: Ids of the commits.
        created_at: ``(N,)`` dates of the commits.
        vocabulary: Numbers of the words of messages and diffs.
        table: Counts and edits of commits and their files.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.created_at = np.empty(0, dtype="datetime64[s]")
        self.vocabulary = Vocabulary()
        self.table = empty_table()

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def index(self) -> ChangeIndex:
        """The lookup tables, built at first use."""
        return ChangeIndex(self.table)

    def add(self, commits: pd.DataFrame, files: pd.DataFrame) -> None:
        """Adds new commits of any date; ``commit`` of a file is a row of ``commits``."""
        self.table = self.table.joined(read_tables(commits, files, CodeWords(), self.vocabulary))
        self.ids = self.ids + commits["id"].tolist()
        dates = commits["created_at"].dt.tz_localize(None).to_numpy().astype("datetime64[s]")
        self.created_at = np.concatenate([self.created_at, dates])
        self._take(np.argsort(self.created_at, kind="stable"))

    def without(self, ids: set[str]) -> "ChangeHistory":
        """The history without the commits ``ids``."""
        other = copy(self)
        other._take(np.array([row for row, id_ in enumerate(self.ids) if id_ not in ids], dtype=np.int64))
        return other

    def num_before(self, moment: pd.Timestamp | None) -> int:
        """Number of commits before a time; all for None."""
        if moment is None:
            return len(self)
        return int(np.searchsorted(self.created_at, in_utc(moment), side="left"))

    def arrays(self) -> dict[str, np.ndarray]:
        """The history as arrays, for storage."""
        arrays = {"created_at": self.created_at}
        for name, values in (("ids", self.ids), ("terms", self.vocabulary.terms), ("paths", self.table.paths)):
            content = "".join(value + SEPARATOR for value in values).encode("utf-8", "surrogatepass")
            arrays[name] = np.frombuffer(content, dtype=np.uint8)
        return arrays | self.table.arrays()

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "ChangeHistory":
        """The history from the result of ``arrays``."""
        history = cls()
        history.ids = _decoded(arrays["ids"])
        history.created_at = arrays["created_at"]
        history.vocabulary = Vocabulary(_decoded(arrays["terms"]))
        history.table = ChangeTable.of_arrays(arrays, _decoded(arrays["paths"]))
        return history

    def _take(self, rows: np.ndarray) -> None:
        """Keeps the commits ``rows`` in this order."""
        self.ids = [self.ids[row] for row in rows]
        self.created_at = self.created_at[rows]
        self.table = self.table.take(rows)
        self.__dict__.pop("index", None)  # of the previous table


def in_utc(moment: pd.Timestamp) -> np.datetime64:
    """A time in UTC to the microsecond; a time without a zone counts as UTC."""
    utc = moment if moment.tzinfo is None else moment.tz_convert(None)
    return utc.as_unit("us").to_datetime64()


def _decoded(array: np.ndarray) -> list[str]:
    return array.tobytes().decode("utf-8", "surrogatepass").split(SEPARATOR)[:-1]
