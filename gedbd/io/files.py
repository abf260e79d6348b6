"""Atomic writing of files, JSON files with errors that name the file, and the folder of configurations."""

import errno
import hashlib
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape as glob_escape
from importlib import resources
from pathlib import Path
from typing import Any

GENERIC_STEMS = ("reports", "bugs", "issues")
IN_PACKAGE = "pkg://"
UNFINISHED = ".part"
PRIVATE = 0o077  # umask: only the owner may read new files and folders

PACKAGE_DIR = Path(__file__).resolve().parents[1]
INSTALLED_CONF = PACKAGE_DIR / "conf"
# Absolute: Hydra resolves a relative path against the module that runs, which a console script does not have.
CONF_DIR = str(INSTALLED_CONF if INSTALLED_CONF.is_dir() else PACKAGE_DIR.parent / "conf")


@contextmanager
def private_files() -> Iterator[None]:
    """Makes new files and folders readable by their owner only, in all threads, as the umask belongs to the process."""
    previous = os.umask(PRIVATE)
    os.umask(previous | PRIVATE)
    try:
        yield
    finally:
        os.umask(previous)


def cache_folder(cache_dir: str | Path) -> Path:
    """Creates the folder of cached files if absent. Raises ValueError if that fails."""
    folder = Path(cache_dir).expanduser()
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unusable_cache(folder, error) from error
    return folder


def unusable_cache(folder: Path, error: OSError) -> ValueError:
    """The error for a folder of cached files that cannot be written to."""
    return ValueError(f"cache_dir={folder} cannot be used ({error.strerror}): name a folder that can be written to")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields the path of a temporary file in the same folder that replaces ``path`` once it is complete.

    If anything fails, ``path`` keeps its content. Temporary files of killed processes on this machine are deleted. A
    pipe or a device is written to directly.

    Args:
        path: The file to replace; a symbolic link is followed.

    Raises:
        ValueError: If it is a symbolic link of another user.
    """
    check_link(path)
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        yield target
        return
    for leftover in target.parent.glob(f"{glob_escape(_prefix(target))}*{UNFINISHED}*"):
        process = leftover.name.removeprefix(_prefix(target)).partition(".")[0]  # <prefix>1234.part.csv: 1234
        if process.isdigit() and not _is_alive(int(process)):
            leftover.unlink(missing_ok=True)
    # The suffix stays: some libraries choose the format by it, others append theirs if it is missing.
    unfinished = target.with_name(f"{_prefix(target)}{os.getpid()}{UNFINISHED}{target.suffix}")
    try:
        # Other users of a shared folder may have created a file of this name.
        unfinished.unlink(missing_ok=True)
        unfinished.open("x").close()
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
        with suppress(OSError):  # a read-only disk has no such file
            unfinished.unlink(missing_ok=True)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yields a temporary folder that is renamed to ``folder`` at the end, or deleted after an error."""
    with tempfile.TemporaryDirectory(dir=folder.absolute().parent) as temporary:
        unfinished = Path(temporary) / "fresh"
        unfinished.mkdir()
        yield unfinished
        unfinished.rename(folder)


def check_link(path: Path) -> None:
    """Checks that a file to be written is not a symbolic link of another user.

    Linux does not follow such links in folders like ``/tmp``, but SQLite and ``os.path.realpath`` resolve them.

    Raises:
        ValueError: If it is a link that belongs neither to this user, nor to root or the owner of its folder.
    """
    if os.name != "posix" or not path.is_symlink():
        return
    if path.lstat().st_uid not in (os.geteuid(), 0, path.parent.stat().st_uid):
        raise ValueError(f"{path} is a symbolic link of another user: delete it, or choose another path")


def check_regular(path: Path) -> None:
    """Checks that a path to be read is not a FIFO, a device, a socket or a folder, whose content may never end.

    Raises:
        ValueError: If it is one of these; a missing file is not checked.
    """
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file: copy its content to one, and give that")


def check_regular_files(folder: Path) -> None:
    """Calls ``check_regular`` for what is in a folder, if it is one; sockets, which nobody can open, may be there."""
    for parent, _, names in os.walk(folder):
        for path in map(Path(parent).joinpath, names):
            if not path.is_socket():
                check_regular(path)


def write_text(path: Path, text: str) -> None:
    """Replaces a text file atomically, in UTF-8."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def read_object(path: Path, *needed: str) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        ValueError: If the file holds no such object; the message names the file.
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
    check_regular(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: it holds no JSON ({str(error).partition(chr(10))[0]})") from error


def _prefix(target: Path) -> str:
    """The prefix of the temporary files of a target on this machine.

    It is a hash of the name, as Lightning loads whatever matches ``hpc_ckpt_*``.
    """
    digest = hashlib.blake2b(target.name.encode("utf-8", "surrogateescape"), digest_size=6)
    return f".{digest.hexdigest()}.{socket.gethostname()}."


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)  # signal 0 is not sent, only checked
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _flush(path: Path) -> None:
    """Flushes a file or a folder to the disk, if the file system can flush folders."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def locate(path: str, option: str = "dataset.path") -> Path:
    """Resolves ``bugs.csv`` or ``pkg://gedbd.corpora/demo.csv`` to an existing file, else raises ValueError."""
    package, _, inside = path.removeprefix(IN_PACKAGE).partition("/")
    file = Path(str(resources.files(package) / inside)) if path.startswith(IN_PACKAGE) else Path(path).expanduser()
    check_regular(file)
    if not file.exists():
        raise ValueError(f"{file}: no such file; set {option}= to an existing one")
    return file


def corpus_name(file: Path) -> str:
    """The file's name without suffixes, or its folder's name if that is empty (``.git``) or in ``GENERIC_STEMS``."""
    # A linked file keeps its own name, as the name that it points to may be a hash.
    path = file.expanduser()
    path = path.resolve() if path.name in {"", ".."} else path.parent.resolve() / path.name
    stem = path.name.split(".")[0]
    return path.parent.name if stem.lower() in {"", *GENERIC_STEMS} else stem
