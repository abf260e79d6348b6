"""Archives of a site (``askubuntu.com.7z``) or of one file of a site (``stackoverflow.com-Posts.7z``)."""

import lzma
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from gedbd.io.progress import byte_progress
from gedbd.io.unpacking import UnpackLimit

SUFFIX = ".7z"
NEEDED = ("posts.xml", "postlinks.xml")
RESERVE_BYTES = 100_000_000  # to be left free on the disk
# What py7zr lets through besides its own errors when bytes of an archive are wrong.
CODEC_ERRORS = (lzma.LZMAError, zlib.error, struct.error, EOFError, MemoryError, LookupError, TypeError, AssertionError)
FETCH_AGAIN = "fetch it again"


def files_of(path: Path) -> dict[str, int]:
    """The files of an archive: each name, without folders and in lower case, to its unpacked size in bytes.

    Raises:
        ValueError: The archive is damaged or encrypted, or py7zr is not installed.
    """
    with _opened(path) as archive:
        return {_base_name(file.filename): file.uncompressed for file in archive.list() if file.is_file}


def check_archive(path: Path) -> None:
    """Raises ValueError unless a file is an archive that holds the posts and links of a site."""
    held = files_of(path)
    missing = [name for name in NEEDED if name not in held]
    if missing:
        raise ValueError(f"{path}: the archive holds no {missing[0]}, only {', '.join(sorted(held)[:5]) or 'no file'}")


def unpack_file(path: Path, name: str, folder: Path, limit: UnpackLimit) -> Path:
    """Unpack one file of an archive into ``folder``, while a bar shows the progress.

    Args:
        path: The archive.
        name: The file's name, as in ``files_of``.
        folder: An existing folder.
        limit: Counts the unpacked bytes of all files of the dump, and has counted the archive's size.

    Raises:
        ValueError: The archive is damaged, the file is too large for the limit, or for the disk.
    """
    target = folder / name
    with _opened(path) as archive, target.open("wb") as out, byte_progress(transient=True) as progress:
        found = next(file for file in archive.list() if file.is_file and _base_name(file.filename) == name)
        _check_space(folder, found.uncompressed, path)
        task = progress.add_task(f"unpacking {name}", total=found.uncompressed)

        def advance(count: int) -> None:
            limit.add(path, count)
            progress.advance(task, count)

        # The factory, and not a name in the archive, decides where the file is written.
        archive.extract(targets=[found.filename], factory=_writer_factory(out, advance))
    return target


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        import py7zr
    except ImportError as error:
        raise ValueError(f"{path}: py7zr is not installed: pip install 'gedbd[questions]', or unpack it") from error
    damaged: tuple[type[Exception], ...] = (py7zr.exceptions.ArchiveError, *CODEC_ERRORS)
    try:
        with py7zr.SevenZipFile(path) as archive:
            yield archive
    except py7zr.exceptions.PasswordRequired as error:
        raise ValueError(f"{path}: the archive is encrypted; unpack it first") from error
    except OSError as error:
        if error.errno is not None:  # of the disk
            raise
        raise ValueError(f"{path}: the archive is damaged ({error}); {FETCH_AGAIN}") from error
    except damaged as error:
        raise ValueError(f"{path}: the archive is damaged ({type(error).__name__}); {FETCH_AGAIN}") from error


def _base_name(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).name.lower()


def _check_space(folder: Path, needed: int, path: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed + RESERVE_BYTES:
        raise ValueError(
            f"{path}: it unpacks to {needed:,} bytes, but only {free:,} are free in {folder}; free some space, or"
            " unpack it elsewhere and set dataset.path to that folder"
        )


def _writer_factory(out: IO[bytes], advance: Callable[[int], None]) -> Any:
    """A factory of py7zr that writes to ``out`` and tells ``advance`` the number of bytes."""
    from py7zr.io import Py7zIO, WriterFactory

    class Writer(Py7zIO):
        def write(self, s: bytes | bytearray) -> int:
            advance(len(s))
            return out.write(s)

        def read(self, size: int | None = None) -> bytes:
            return b""

        def seek(self, offset: int, whence: int = 0) -> int:
            return out.tell()

        def flush(self) -> None:
            out.flush()

        def size(self) -> int:
            return out.tell()

    class Factory(WriterFactory):
        def create(self, filename: str) -> Py7zIO:
            return Writer()

    return Factory()
