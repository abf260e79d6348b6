"""Locks between processes."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

RUN_LOCK = ".lock"  # in the folder of a run or of a fetch
OWNER = ".owner"  # ends the name of the file that says who holds a lock


class LockedError(ValueError):
    """Another process holds a lock."""


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder that one process at a time writes into; that process may take it again.

    Raises:
        LockedError: If another process holds it; the message names it.
    """
    with sole_process(folder / RUN_LOCK, f"{folder} is in use", nested=True):
        yield


@contextmanager
def sole_process(path: Path, refusal: str, nested: bool = False) -> Iterator[None]:
    """Holds a lock file until the block ends, so that only one process at a time runs the block; others do not wait.

    The system frees the lock when the process ends in any way. The file stays. Beside it, a file ``.owner`` says which
    process holds it, or held it when it was killed. On a network file system, processes of several machines exclude
    each other only if it supports ``flock`` between them, as NFS does with its lock service and many others do not.

    Args:
        path: The lock file, created if absent; its folder must exist.
        refusal: The beginning of the message, such as "index=my-index is served".
        nested: Whether a block in this process that holds the lock may take it again.

    Raises:
        LockedError: If another process holds the lock; the message names it.
    """
    owner = path.with_name(f"{path.name}{OWNER}")
    lock = FileLock(path, is_singleton=nested)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        holder = "another process"
        with suppress(OSError):
            holder = owner.read_text(encoding="utf-8", errors="replace").strip() or holder
        raise LockedError(f"{refusal} by {holder}: wait until it ends, stop it, or choose another folder") from None
    try:
        started = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
        # Not in the lock file: some versions of filelock empty that of another process. On a full disk nobody is named.
        owner.unlink(missing_ok=True)
        with suppress(OSError):
            owner.write_text(f"process {os.getpid()} on {socket.gethostname()} since {started}\n", encoding="utf-8")
        yield
    finally:
        if lock.lock_counter == 1:  # not for a block within another one
            with suppress(OSError):
                owner.unlink(missing_ok=True)
        lock.release()
