"""The stored index of a repository: one file, replaced as a whole."""

import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gedbd.io.files import replacing
from gedbd.retrieval.changes.change_history import ChangeHistory

SCHEMA = 2  # to be raised when the arrays or what they are made from change
HEADER = "header"
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, IndexError, TypeError, NotImplementedError)


@dataclass(frozen=True)
class Header:
    """What an index was made from.

    Attributes:
        commit: The id of the last commit of the history.
        settings: Options that the content depends on, as plain values.
        is_complete: Whether all commits up to the last one are there; otherwise the file is a checkpoint.
        num_commits: How many commits are there.
        num_merges: How many merges were left out.
        schema: The version of the file's layout.
    """

    commit: str
    settings: dict[str, Any]
    is_complete: bool
    num_commits: int
    num_merges: int = 0
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
