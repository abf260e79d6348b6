"""The stored state of a repository's index, and its update to a commit."""

import json
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from filelock import BaseFileLock, FileLock

from gedbd.io.files import UNFINISHED, replacing
from gedbd.localization.change_ranking.change_history import ChangeHistory
from gedbd.localization.repository.commit_history import ADVICE, History
from gedbd.localization.repository.commits import Commit, Limits, TableBuilder
from gedbd.localization.repository.git_command import Git

MAX_BATCH_COMMITS = 1_000
MAX_BATCH_CHARS = 20_000_000  # of changed lines in memory
CHECKPOINT_S = 60.0
SCHEMA = 4  # raised when the arrays or their computation change
HEADER = "header"
SNAPSHOT = "index.npz"
CHECKPOINT = "unfinished.npz"
LOCK = "index.lock"
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, IndexError, TypeError, NotImplementedError)


class IndexLimits(NamedTuple):
    """Limits of what is indexed."""

    max_files: int = 1_000  # maximum number of files of a commit
    max_diff_chars: int = 20_000  # maximum number of characters of the diff of a commit, and of a file
    merges: bool = False  # whether merges are indexed; the commits that they merge contain the same changes

    def reading(self) -> Limits:
        """The limits for reading commits."""
        return Limits(max_files=self.max_files, max_file_chars=max(self.max_diff_chars, 1))


class Indexed(NamedTuple):
    """The result of ``update_history``."""

    history: ChangeHistory
    num_added: int  # number of commits read
    num_removed: int  # number of commits that the revision no longer reaches, or that were read again with another date
    num_merges: int  # number of skipped merges
    num_missing: int  # number of commits skipped for missing objects
    warnings: tuple[str, ...]  # counts of what was skipped or guessed


def update_history(
    git: Git,
    commit: str,
    start: ChangeHistory,
    limits: IndexLimits,
    checkpoint: Callable[[ChangeHistory], None] | None = None,
) -> Indexed:
    """Updates a history, which is not modified, to the one that ends at a commit.

    Only new commits are read, and those whose date has changed: it depends on the history around them. ``checkpoint``
    is called with the history so far, about once a minute.

    Raises:
        ValueError: An object of the repository is damaged, or objects of all commits are missing.
    """
    history = History(git, commit, None, limits.reading())
    merges = set() if limits.merges else {dated.id for dated in history.dated if dated.is_merge}
    history.leave_out(merges)
    dates = dict(zip(start.ids, pd.DatetimeIndex(start.created_at).tz_localize("UTC"), strict=True))
    kept = {dated.id for dated in history.dated if dates.get(dated.id) == dated.created_at}
    removed = set(dates) - kept
    # A copy: other threads may rank with the previous history.
    updated = ChangeHistory.of_arrays(start.arrays()).without(removed) if len(start) else ChangeHistory()
    history.leave_out(kept)
    last_checkpoint = time.monotonic()
    for batch in _batches(history):
        builder = TableBuilder("", limits.max_diff_chars)
        for read_commit in batch:
            builder.add(read_commit)
        tables = builder.tables()
        updated.add(tables.commits.table, tables.files.table)
        if checkpoint is not None and time.monotonic() - last_checkpoint >= CHECKPOINT_S:
            checkpoint(updated)
            last_checkpoint = time.monotonic()
    num_missing = len(history.missing)
    if num_missing and not len(updated):
        raise ValueError(f"{git.path}: no commit can be read: {ADVICE}")
    return Indexed(updated, len(history) - num_missing, len(removed), len(merges), num_missing, history.warnings)


def _batches(history: History) -> Iterator[Sequence[Commit]]:
    """Batches of commits that fit into memory."""
    batch: list[Commit] = []
    num_chars = 0
    for commit in history:
        batch.append(commit)
        num_chars += sum(len(line) for change in commit.files for hunk in change.hunks for line in hunk.lines)
        if len(batch) >= MAX_BATCH_COMMITS or num_chars >= MAX_BATCH_CHARS:
            yield batch
            batch = []
            num_chars = 0
    if batch:
        yield batch


@dataclass(frozen=True)
class Header:
    """Metadata of a stored index."""

    commit: str  # id of the last commit of the history
    settings: dict[str, Any]  # options that the content depends on, as plain values
    is_complete: bool  # whether it has all commits up to the last one; otherwise it is a checkpoint
    num_commits: int  # number of commits
    num_merges: int = 0  # number of skipped merges
    num_missing: int = 0  # number of commits skipped for missing objects
    schema: int = SCHEMA  # version of the file's layout

    def serves(self, settings: Mapping[str, Any]) -> bool:
        """Whether the index was made by this version with these options."""
        return self.schema == SCHEMA and self.settings == dict(settings)


class Snapshot(NamedTuple):
    """The state of an index."""

    header: Header
    history: ChangeHistory


class DamagedSnapshotError(ValueError):
    """A stored index is damaged or incomplete."""


def write_snapshot(file: Path, snapshot: Snapshot) -> None:
    """Replaces the file atomically: a killed process leaves the old content."""
    header = json.dumps(asdict(snapshot.header)).encode()
    arrays = {HEADER: np.frombuffer(header, dtype=np.uint8)} | snapshot.history.arrays()
    with replacing(file) as unfinished, unfinished.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)


def read_snapshot(file: Path, current: Header | None = None) -> Snapshot | None:
    """The stored index; None if there is none, or it has the header ``current``.

    Raises:
        DamagedSnapshotError: The file is damaged.
    """
    if not file.exists():
        return None
    try:
        with np.load(file, allow_pickle=False) as stored:
            header = Header(**json.loads(stored[HEADER].tobytes()))
            if header == current or header.schema != SCHEMA:
                return None if header == current else Snapshot(header, ChangeHistory())
            history = ChangeHistory.of_arrays({name: stored[name] for name in stored.files if name != HEADER})
    except DAMAGE as error:
        raise DamagedSnapshotError(f"{file} is damaged ({error})") from error
    if len(history) != header.num_commits:
        raise DamagedSnapshotError(f"{file} is damaged ({len(history):,} commits of {header.num_commits:,})")
    return Snapshot(header, history)


class IndexFolder:
    """Stores the states of one index. Only writing requires the lock.

    Args:
        folder: Folder of the index, created with the lock.
        settings: Options that the content depends on, as plain values.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.path = folder
        self._settings = dict(settings)

    def lock(self) -> BaseFileLock:
        """The lock, not acquired. The system releases it when the process ends."""
        self.path.mkdir(0o700, parents=True, exist_ok=True)
        return FileLock(self.path / LOCK)

    def read(self, current: Header) -> tuple[Snapshot | None, tuple[str, ...]]:
        """The stored state, or None if there is none or it is current; and warnings about an unusable one."""
        try:
            stored = read_snapshot(self.path / SNAPSHOT, current)
        except DamagedSnapshotError as error:
            return None, (f"{error}: all commits are read again",)
        if stored is None or stored.header.serves(self._settings):
            return stored, ()
        return None, ("the index was built with other options or by another version: all commits are read again",)

    def best_start(self, history: ChangeHistory) -> ChangeHistory:
        """The start of an update: the history, or that of an interrupted update if it has more commits."""
        try:
            unfinished = read_snapshot(self.path / CHECKPOINT)
        except DamagedSnapshotError:
            return history
        if unfinished is None or not unfinished.header.serves(self._settings):
            return history
        return max(history, unfinished.history, key=len)

    def checkpoint(self, commit: str, history: ChangeHistory) -> None:
        """Stores the commits read so far by an update to a commit."""
        header = Header(commit, self._settings, is_complete=False, num_commits=len(history))
        write_snapshot(self.path / CHECKPOINT, Snapshot(header, history))

    def store(self, commit: str, history: ChangeHistory, num_merges: int, num_missing: int) -> Snapshot:
        """Replaces the stored state, and deletes the checkpoint and files of killed processes."""
        header = Header(commit, self._settings, True, len(history), num_merges, num_missing)
        snapshot = Snapshot(header, history)
        write_snapshot(self.path / SNAPSHOT, snapshot)
        (self.path / CHECKPOINT).unlink(missing_ok=True)
        for file in self.path.glob(f".*{UNFINISHED}*"):
            file.unlink(missing_ok=True)
        return snapshot
