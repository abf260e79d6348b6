"""The stored state of a repository's index, and how it is brought up to a commit."""

import json
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from filelock import BaseFileLock, FileLock

from gedbd.io.files import UNFINISHED, replacing
from gedbd.localization.change_ranking.change_history import ChangeHistory
from gedbd.localization.repository.change_tables import TableBuilder
from gedbd.localization.repository.commit_dates import ADVICE
from gedbd.localization.repository.commit_history import History
from gedbd.localization.repository.commits import Commit, Limits
from gedbd.localization.repository.git_command import Git

MAX_BATCH_COMMITS = 1_000
MAX_BATCH_CHARS = 20_000_000  # of the changed lines that are in memory at a time
CHECKPOINT_S = 60.0
SCHEMA = 4  # to be raised when the arrays or what they are made from change
HEADER = "header"
SNAPSHOT = "index.npz"
CHECKPOINT = "unfinished.npz"
LOCK = "index.lock"
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, IndexError, TypeError, NotImplementedError)


class IndexLimits(NamedTuple):
    """How much of a commit is indexed.

    Attributes:
        max_files: Files of a commit.
        max_diff_chars: Characters of the diff of a commit, and of that of a file.
        merges: Whether merges are indexed. What they change is changed by the commits that they merge.
    """

    max_files: int = 1_000
    max_diff_chars: int = 20_000
    merges: bool = False

    def reading(self) -> Limits:
        """The limits under which commits are read."""
        return Limits(max_files=self.max_files, max_file_chars=max(self.max_diff_chars, 1))


class Indexed(NamedTuple):
    """A history that was brought up to a commit.

    Attributes:
        history: The commits.
        num_added: Commits that were read.
        num_removed: Commits that the revision no longer reaches, or that were read again with another date.
        num_merges: Merges that were left out.
        num_missing: Commits that were left out, as objects are missing.
        warnings: What reading left out or guessed, with counts.
    """

    history: ChangeHistory
    num_added: int
    num_removed: int
    num_merges: int
    num_missing: int
    warnings: tuple[str, ...]


def bring_up_to(
    git: Git,
    commit: str,
    start: ChangeHistory,
    limits: IndexLimits,
    checkpoint: Callable[[ChangeHistory], None] | None = None,
) -> Indexed:
    """The history that ends at a commit, from an earlier or another state of it.

    Commits that are there already are not read again. The date of a commit depends on the history around it, so a
    commit whose date differs is.

    Args:
        git: The repository.
        commit: The id of the last commit.
        start: The state to begin with, which stays as it is.
        limits: How much of a commit is indexed.
        checkpoint: Receives the history so far, about once a minute. What came after is lost if the process is killed.

    Raises:
        ValueError: An object of the repository is damaged, or objects of all commits are missing.
    """
    history = History(git, commit, None, limits.reading())
    merges = set() if limits.merges else {dated.id for dated in history.dated if dated.is_merge}
    history.leave_out(merges)
    dates = dict(zip(start.ids, pd.DatetimeIndex(start.created_at).tz_localize("UTC"), strict=True))
    stays = {dated.id for dated in history.dated if dates.get(dated.id) == dated.created_at}
    removed = set(dates) - stays
    # A copy: other threads may rank with the state to begin with.
    reached = ChangeHistory.of_arrays(start.arrays()).without(removed) if len(start) else ChangeHistory()
    history.leave_out(stays)
    last_checkpoint = time.monotonic()
    for batch in _batches(history):
        builder = TableBuilder("", limits.max_diff_chars)
        for added in batch:
            builder.add(added)
        tables = builder.tables()
        reached.add(tables.commits.table, tables.files.table)
        if checkpoint is not None and time.monotonic() - last_checkpoint >= CHECKPOINT_S:
            checkpoint(reached)
            last_checkpoint = time.monotonic()
    num_missing = len(history.missing)
    if num_missing and not len(reached):
        raise ValueError(f"{git.path}: no commit can be read: {ADVICE}")
    return Indexed(reached, len(history) - num_missing, len(removed), len(merges), num_missing, history.warnings)


def _batches(history: History) -> Iterator[Sequence[Commit]]:
    """Commits in groups that fit into memory."""
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
    """What an index was made from.

    Attributes:
        commit: The id of the last commit of the history.
        settings: Options that the content depends on, as plain values.
        is_complete: Whether all commits up to the last one are there; otherwise the file is a checkpoint.
        num_commits: How many commits are there.
        num_merges: How many merges were left out.
        num_missing: How many commits were left out, as objects are missing.
        schema: The version of the file's layout.
    """

    commit: str
    settings: dict[str, Any]
    is_complete: bool
    num_commits: int
    num_merges: int = 0
    num_missing: int = 0
    schema: int = SCHEMA

    def serves(self, settings: Mapping[str, Any]) -> bool:
        """Whether the index was made by this version with these options."""
        return self.schema == SCHEMA and self.settings == dict(settings)


class Snapshot(NamedTuple):
    """A stored index."""

    header: Header
    history: ChangeHistory


class DamagedSnapshotError(ValueError):
    """A file that holds no index, or only a part of one."""


def write_snapshot(file: Path, snapshot: Snapshot) -> None:
    """Replaces the file as a whole: a process that is killed leaves the old content."""
    header = json.dumps(asdict(snapshot.header)).encode()
    arrays = {HEADER: np.frombuffer(header, dtype=np.uint8)} | snapshot.history.arrays()
    with replacing(file) as unfinished, unfinished.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)


def read_header(file: Path) -> Header | None:
    """What the stored index was made from; None if there is none.

    Raises:
        DamagedSnapshotError: The file is damaged.
    """
    if not file.exists():
        return None
    with _opened(file) as stored:
        return _header(stored)


def read_snapshot(file: Path) -> Snapshot | None:
    """The stored index; None if there is none.

    Raises:
        DamagedSnapshotError: The file is damaged.
    """
    if not file.exists():
        return None
    with _opened(file) as stored:
        header = _header(stored)
        history = ChangeHistory.of_arrays({name: stored[name] for name in stored.files if name != HEADER})
        if len(history) != header.num_commits:
            raise ValueError(f"{len(history):,} commits of {header.num_commits:,}")
    return Snapshot(header, history)


@contextmanager
def _opened(file: Path) -> Iterator[np.lib.npyio.NpzFile]:
    """The arrays of a file; what is wrong with them becomes ``DamagedSnapshotError``."""
    try:
        with np.load(file, allow_pickle=False) as stored:
            yield stored
    except DAMAGE as error:
        raise DamagedSnapshotError(f"{file} is damaged ({error})") from error


def _header(stored: np.lib.npyio.NpzFile) -> Header:
    return Header(**json.loads(stored[HEADER].tobytes()))


class IndexFolder:
    """Stores the states of one index. Whoever writes holds the lock; whoever reads need not.

    Args:
        folder: Made when the lock is first asked for.
        settings: Options that the content depends on, as plain values.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.path = folder
        self._settings = dict(settings)

    def lock(self) -> BaseFileLock:
        """The lock, not yet taken. The system frees that of a process that ends in any way."""
        self.path.mkdir(0o700, parents=True, exist_ok=True)
        return FileLock(self.path / LOCK)

    def read(self, current: Header) -> tuple[Snapshot | None, tuple[str, ...]]:
        """The stored state, None if there is none or it is the known one; and warnings about one of no use."""
        file = self.path / SNAPSHOT
        try:
            header = read_header(file)
            if header is None or header == current:
                return None, ()
            if not header.serves(self._settings):
                return None, (
                    "the index was built with other options or by another version: all commits are read again",
                )
            return read_snapshot(file), ()
        except DamagedSnapshotError as error:
            return None, (f"{error}: all commits are read again",)

    def best_start(self, history: ChangeHistory) -> ChangeHistory:
        """What an update begins with: a state, or that of an update that was cut off if it holds more commits."""
        try:
            unfinished = read_snapshot(self.path / CHECKPOINT)
        except DamagedSnapshotError:
            return history  # as if the update had been cut off earlier
        if unfinished is None or not unfinished.header.serves(self._settings):
            return history
        return max(history, unfinished.history, key=len)

    def checkpoint(self, commit: str, history: ChangeHistory) -> None:
        """Stores the commits so far of an update to a commit."""
        header = Header(commit, self._settings, is_complete=False, num_commits=len(history))
        write_snapshot(self.path / CHECKPOINT, Snapshot(header, history))

    def store(self, commit: str, history: ChangeHistory, num_merges: int, num_missing: int) -> Snapshot:
        """Replaces the stored state, and deletes the checkpoint and what killed processes left."""
        header = Header(commit, self._settings, True, len(history), num_merges, num_missing)
        snapshot = Snapshot(header, history)
        write_snapshot(self.path / SNAPSHOT, snapshot)
        (self.path / CHECKPOINT).unlink(missing_ok=True)
        for file in self.path.glob(f".*{UNFINISHED}*"):
            file.unlink(missing_ok=True)
        return snapshot
