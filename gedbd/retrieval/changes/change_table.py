"""Commits and their changed files as arrays."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import PurePosixPath

import numpy as np
import pandas as pd

from gedbd.io.progress import track
from gedbd.retrieval.changes.file_diff import FileDiff, read_file_diff
from gedbd.retrieval.changes.segments import Segments
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.text.code_words import CodeWords

MIN_PROGRESS_FILES = 5000
TRAILER = re.compile(r"^git-svn-id:.*$", re.MULTILINE)  # which git-svn writes below every message
FIX = re.compile(r"\b(?:fix|fixe[sd]|fixing|bug|bugs|bz)\b", re.IGNORECASE)
NUMBERS = ("num_files", "added_lines", "removed_lines", "is_cut", "is_fix", "test_share")
SOURCE = re.compile(
    r"\.(?:java|kt|scala|groovy|py|c|cc|cpp|cxx|h|hpp|cs|js|ts|jsx|tsx|go|rs|rb|php|jsp|aj)$", re.IGNORECASE
)


@dataclass(frozen=True)
class ChangeTable:
    """N commits in chronological order, and R file rows, one for each changed file of each commit, in their order.

    Attributes:
        numbers: ``(N, 6)`` float32: the columns ``NUMBERS``.
        message_words: For each commit ``(T, 2)`` int32: words of the message and their counts.
        row_commit: ``(R,)`` int64, ascending.
        row_path: ``(R,)`` int64, rows of ``paths``.
        row_old_path: ``(R,)`` int64, the path before a renaming; -1 without one.
        row_deleted: ``(R,)`` bool.
        row_shown: ``(R,)`` bool, whether the diff shows lines.
        row_words: For each file row ``(T, 3)`` int32: words of the diff, counts in added lines, counts elsewhere.
        row_edits: For each file row ``(E, 3)`` int32, see ``FileDiff``.
        paths: All paths in the order of their first file row; old paths without a row of their own stand at the end.
    """

    numbers: np.ndarray
    message_words: Segments
    row_commit: np.ndarray
    row_path: np.ndarray
    row_old_path: np.ndarray
    row_deleted: np.ndarray
    row_shown: np.ndarray
    row_words: Segments
    row_edits: Segments
    paths: list[str]

    def joined(self, later: "ChangeTable") -> "ChangeTable":
        """The commits of both; those of ``later`` come last."""
        number = {path: row for row, path in enumerate(self.paths)}
        new_number = np.array([number.setdefault(path, len(number)) for path in later.paths] + [-1], dtype=np.int64)
        return ChangeTable(
            numbers=np.concatenate([self.numbers, later.numbers]),
            message_words=self.message_words.joined(later.message_words),
            row_commit=np.concatenate([self.row_commit, later.row_commit + len(self.numbers)]),
            row_path=np.concatenate([self.row_path, new_number[later.row_path]]),
            row_old_path=np.concatenate([self.row_old_path, new_number[later.row_old_path]]),  # -1 stays -1
            row_deleted=np.concatenate([self.row_deleted, later.row_deleted]),
            row_shown=np.concatenate([self.row_shown, later.row_shown]),
            row_words=self.row_words.joined(later.row_words),
            row_edits=self.row_edits.joined(later.row_edits),
            paths=list(number),
        )

    def take(self, commits: np.ndarray) -> "ChangeTable":
        """Some commits in a given order."""
        starts = np.searchsorted(self.row_commit, np.arange(len(self.numbers) + 1))
        by_commit = Segments(starts, np.arange(len(self.row_commit)))
        rows = by_commit.take(commits)
        kept = rows.values
        old_paths = self.row_old_path[kept]
        # The order of the paths must not depend on the order in which commits were added.
        used, first = np.unique(np.concatenate([self.row_path[kept], old_paths[old_paths >= 0]]), return_index=True)
        used = used[np.argsort(first, kind="stable")]
        new_number = np.full(len(self.paths) + 1, -1, dtype=np.int64)
        new_number[used] = np.arange(len(used))
        return ChangeTable(
            numbers=self.numbers[commits],
            message_words=self.message_words.take(commits),
            row_commit=np.repeat(np.arange(len(commits)), rows.lengths),
            row_path=new_number[self.row_path[kept]],
            row_old_path=new_number[old_paths],
            row_deleted=self.row_deleted[kept],
            row_shown=self.row_shown[kept],
            row_words=self.row_words.take(kept),
            row_edits=self.row_edits.take(kept),
            paths=[self.paths[path] for path in used],
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything but the paths as arrays."""
        found: dict[str, np.ndarray] = {}
        for name in _column_names():
            value = getattr(self, name)
            if isinstance(value, Segments):
                found |= {f"{name}_starts": value.starts, name: value.values}
            else:
                found[name] = value
        return found

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray], paths: list[str]) -> "ChangeTable":
        """The table that ``arrays`` was called on."""
        columns = {
            name: Segments(arrays[f"{name}_starts"], arrays[name]) if f"{name}_starts" in arrays else arrays[name]
            for name in _column_names()
        }
        return cls(**columns, paths=paths)  # type: ignore[arg-type]


def empty_table() -> ChangeTable:
    """A table without a commit."""
    nothing = np.empty(0, dtype=np.int64)
    start = np.zeros(1, dtype=np.int64)
    return ChangeTable(
        numbers=np.empty((0, len(NUMBERS)), dtype=np.float32),
        message_words=Segments(start, np.empty((0, 2), dtype=np.int32)),
        row_commit=nothing,
        row_path=nothing,
        row_old_path=nothing,
        row_deleted=nothing.astype(bool),
        row_shown=nothing.astype(bool),
        row_words=Segments(start, np.empty((0, 3), dtype=np.int32)),
        row_edits=Segments(start, np.empty((0, 3), dtype=np.int32)),
        paths=[],
    )


def read_tables(commits: pd.DataFrame, files: pd.DataFrame, words: CodeWords, vocabulary: Vocabulary) -> ChangeTable:
    """Reads commits and their files, ``files`` in the order of the commits; new words are learned."""
    files = files.iloc[np.argsort(files["commit"].to_numpy(), kind="stable")]
    diffs = zip(files["diff"], files["paths"], strict=True)
    shown = track(diffs, "words of changes", transient=True, total=len(files), disable=len(files) < MIN_PROGRESS_FILES)
    reader = _TableReader(words, vocabulary)
    read = [reader.file_row(diff, path) for diff, path in shown]
    messages = (commits["title"] + "\n" + commits["description"]).tolist()
    row_commit = files["commit"].to_numpy(dtype=np.int64)
    tests = np.bincount(row_commit, [is_test(path) for path in files["paths"]], minlength=len(commits))
    of_table = [commits[name].to_numpy(dtype=np.float32) for name in NUMBERS[:4]]
    is_fix = [FIX.search(message) is not None for message in messages]
    test_share = tests / np.maximum(np.bincount(row_commit, minlength=len(commits)), 1)
    number: dict[str, int] = {}
    row_path = [number.setdefault(path, len(number)) for path in files["paths"]]
    row_old_path = [number.setdefault(row.old_path, len(number)) if row.old_path else -1 for row, _ in read]
    return ChangeTable(
        numbers=np.column_stack([*of_table, is_fix, test_share]).astype(np.float32),
        message_words=Segments.of([reader.message(message) for message in messages], np.empty((0, 2), dtype=np.int32)),
        row_commit=row_commit,
        row_path=np.array(row_path, dtype=np.int64),
        row_old_path=np.array(row_old_path, dtype=np.int64),
        row_deleted=np.array([row.is_deleted for row, _ in read], dtype=bool),
        row_shown=np.array([row.has_hunks for row, _ in read], dtype=bool),
        row_words=Segments.of([counts for _, counts in read], np.empty((0, 3), dtype=np.int32)),
        row_edits=Segments.of([row.edits for row, _ in read], np.empty((0, 3), dtype=np.int32)),
        paths=list(number),
    )


def is_test(path: str) -> bool:
    """Whether a path names tests, as ``src/test/A.java``, ``ATest.java`` or ``testdata/x``."""
    return "test" in path.lower()


def is_source(path: str) -> bool:
    """Whether a file holds source code, by the ending of its name."""
    return SOURCE.search(PurePosixPath(path).name) is not None


class _TableReader:
    """Counts the words of messages and diffs."""

    def __init__(self, words: CodeWords, vocabulary: Vocabulary) -> None:
        self._words = words
        self._vocabulary = vocabulary

    def message(self, message: str) -> np.ndarray:
        """Words of a message and their counts, ``(T, 2)``."""
        numbers, counts = np.unique(self._numbers(TRAILER.sub("", message)), return_counts=True)
        return np.column_stack([numbers, counts]).astype(np.int32)

    def file_row(self, diff: str, path: str) -> tuple[FileDiff, np.ndarray]:
        """The diff of a file without its texts, and its words: number, count in added lines, count elsewhere."""
        read = read_file_diff(diff, path)
        added = self._numbers(read.added)
        both = np.concatenate([added, self._numbers(read.other)])
        numbers, place = np.unique(both, return_inverse=True)
        in_added = np.bincount(place[: len(added)], minlength=len(numbers))
        elsewhere = np.bincount(place[len(added) :], minlength=len(numbers))
        counts = np.column_stack([numbers, in_added, elsewhere]).astype(np.int32)
        return read._replace(added="", other=""), counts

    def _numbers(self, text: str) -> np.ndarray:
        return self._vocabulary([self._words.of_text(text)], learn=True)[0]


def _column_names() -> list[str]:
    return [field.name for field in fields(ChangeTable) if field.name != "paths"]
