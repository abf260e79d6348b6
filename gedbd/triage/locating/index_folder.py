"""The folder of a repository's index: the last complete state, and that of an update that was cut off."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock

from gedbd.io.files import UNFINISHED
from gedbd.retrieval.changes.history import ChangeHistory
from gedbd.triage.locating.snapshot import (
    DamagedSnapshotError,
    Header,
    Snapshot,
    read_header,
    read_snapshot,
    write_snapshot,
)

SNAPSHOT = "index.npz"
CHECKPOINT = "unfinished.npz"
LOCK = "index.lock"


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

    def read(self, known: Header | None) -> tuple[Snapshot | None, tuple[str, ...]]:
        """The stored state, None if there is none or it is the known one; and warnings about one of no use."""
        file = self.path / SNAPSHOT
        try:
            header = read_header(file)
            if header is None or header == known:
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
        write_snapshot(self.path / CHECKPOINT, self._snapshot(commit, history, is_complete=False))

    def store(self, commit: str, history: ChangeHistory, num_merges: int) -> Snapshot:
        """Replaces the stored state, and deletes the checkpoint and what killed processes left."""
        snapshot = self._snapshot(commit, history, is_complete=True, num_merges=num_merges)
        write_snapshot(self.path / SNAPSHOT, snapshot)
        (self.path / CHECKPOINT).unlink(missing_ok=True)
        for file in self.path.glob(f".*{UNFINISHED}*"):
            file.unlink(missing_ok=True)
        return snapshot

    def _snapshot(self, commit: str, history: ChangeHistory, is_complete: bool, num_merges: int = 0) -> Snapshot:
        return Snapshot(Header(commit, self._settings, is_complete, len(history), num_merges), history)
