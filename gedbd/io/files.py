"""Files written as a whole or not at all, folders with one writer, and JSON files that name themselves if damaged."""

import errno
import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from glob import escape as glob_escape
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

UNFINISHED = ".part"
LOCK_FILE = ".lock"  # held while a process writes into the folder


class FolderInUseError(ValueError):
    """Another process writes into the folder."""


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder; the end of the process frees it too, even by ``kill -9``.

    A process that holds the lock may take it again.

    Raises:
        FolderInUseError: If another process holds it. The message names that process.
    """
    path = folder / LOCK_FILE
    # Read before the lock is asked for: some versions of filelock empty the file then.
    holder = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    try:
        held = FileLock(path, blocking=False, is_singleton=True).acquire()
    except Timeout as error:
        named = "".join(character for character in holder if character.isprintable())[:200]
        raise FolderInUseError(
            f"{folder} is in use by {named or 'another process'}: wait until that ends, or choose another folder"
        ) from error
    with held:
        path.write_text(
            f"process {os.getpid()} on {socket.gethostname()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        )
        yield


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives the path of a temporary file that replaces ``path`` once it is complete.

    The temporary file is in the same folder, so that it can be renamed, and is flushed to the disk first. If anything
    fails, ``path`` keeps its content. Temporary files of killed processes on this machine are deleted. A pipe or a
    device is written to directly.

    Args:
        path: The file to replace; a symbolic link is followed.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        yield target
        return
    _remove_abandoned(target)
    # The last suffix stays: some libraries choose a format by it, others append theirs if it is missing.
    unfinished = target.with_name(f"{_prefix(target)}{os.getpid()}{UNFINISHED}{target.suffix}")
    try:
        yield unfinished
        if target.exists():
            shutil.copymode(target, unfinished)
        _flush(unfinished)
        os.replace(unfinished, target)
        _flush(target.parent)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(unfinished)):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        unfinished.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Replaces a text file as a whole, in UTF-8."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def read_object(path: Path, *needed: str) -> dict[str, Any]:
    """Reads a JSON object.

    Args:
        path: The file.
        needed: Names that the object must have.

    Raises:
        ValueError: If the file holds no such object; names the file.
    """
    content = _read_json(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} is damaged: it holds no JSON object")
    missing = [name for name in needed if name not in content]
    if missing:
        raise ValueError(f"{path} is damaged: it has no {missing[0]!r}")
    return content


def read_list(path: Path) -> list[Any]:
    """Reads a JSON list. Raises ValueError, naming the file, if there is none."""
    content = _read_json(path)
    if not isinstance(content, list):
        raise ValueError(f"{path} is damaged: it holds no JSON list")
    return content


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: it holds no JSON ({str(error).partition(chr(10))[0]})") from error


def _prefix(target: Path) -> str:
    """The prefix of the temporary files that processes of this machine create for a file.

    It holds no part of the file's name: Lightning, for one, loads whatever matches ``hpc_ckpt_*``.
    """
    digest = hashlib.blake2b(target.name.encode("utf-8", "surrogateescape"), digest_size=6)
    return f".{digest.hexdigest()}.{socket.gethostname()}."


def _remove_abandoned(target: Path) -> None:
    """Deletes temporary files of a target whose process has ended."""
    for other in target.parent.glob(f"{glob_escape(_prefix(target))}*{UNFINISHED}*"):
        process = other.name.removeprefix(_prefix(target)).partition(".")[0]  # <prefix>1234.part.csv: 1234
        if process.isdigit() and not _is_alive(int(process)):
            other.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)  # signal 0 is not sent, only checked
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _flush(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk. Some file systems cannot flush folders."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
