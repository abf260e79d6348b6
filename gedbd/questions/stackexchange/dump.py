"""Finds the files of a dump: plain, packed as ``.xz`` or ``.gz``, or in the ``.7z`` archives as they are published."""

import lzma
import os
import re
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, Any, Self

from gedbd.io.console import item_progress
from gedbd.io.unpacking import UnpackLimit, check_space

SUFFIX = ".7z"
NEEDED = ("posts.xml", "postlinks.xml")
# Errors besides py7zr's own that a damaged archive raises.
CODEC_ERRORS = (lzma.LZMAError, zlib.error, struct.error, EOFError, MemoryError, LookupError, TypeError, AssertionError)
FETCH_AGAIN = "fetch it again"
ENDINGS = (".xml", ".xml.xz", ".xml.gz")
SITE = re.compile(
    r"(?:[a-z0-9-]+\.)*(?:(?:stackexchange|askubuntu|stackoverflow|superuser|serverfault|stackapps)\.com|mathoverflow\.net)"
)


class Dump:
    """The files of one site; those of an archive are unpacked to a temporary folder, which is deleted on exit.

    Args:
        path: A folder with the files or archives, or an archive. If a folder has Posts.xml, archives beside it
            are ignored.

    Raises:
        ValueError: There is no such folder or archive.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise ValueError(f"{path}: no such folder or archive; set dataset.path= to an existing one")
        if path.is_file() and path.suffix.lower() != SUFFIX:
            raise ValueError(f"{path}: give the folder with Posts.xml and PostLinks.xml, or a {SUFFIX} archive")
        self.path = path  # the folder or archive
        self.limit = UnpackLimit()  # limits the unpacked bytes of all files together
        self._folder = path if path.is_dir() else path.parent
        self._archives = [] if self._plain("Posts") else _archives(path)
        for archive in self._archives:
            self.limit.open(archive)
        host = (_site_of(self._archives[0]) if self._archives else path.resolve().name).lower()
        # the host, such as ``askubuntu.com``, if the name of the archive or folder is one; else empty
        self.site = host if SITE.fullmatch(host) else ""
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def find(self, name: str) -> Path | None:
        """A file such as ``Posts`` that ``read_rows`` can read, unpacked if it is in an archive; None if it is missing.

        Raises:
            ValueError: An archive is damaged or unpacks to too much.
        """
        if plain := self._plain(name):
            return plain
        for archive in self._archives:
            # An archive holds the whole site or one file.
            file_name = archive.stem.removeprefix(_site_of(archive)).removeprefix("-").lower()
            if file_name in {"", name.lower()} and f"{name.lower()}.xml" in files_of(archive):
                if self._temporary is None:
                    # The disk of /tmp is often too small for gigabytes.
                    parent = self._folder if os.access(self._folder, os.W_OK) else None
                    self._temporary = tempfile.TemporaryDirectory(dir=parent, prefix=".unpacked-")
                return unpack_file(archive, f"{name.lower()}.xml", Path(self._temporary.name), self.limit)
        return None

    def needed(self, name: str) -> Path:
        """Like ``find``, for a file that must exist. Raises ValueError if it does not."""
        file_path = self.find(name)
        if file_path is None:
            raise ValueError(
                f"{self.path}: it holds no {name}.xml, plain or packed as .xz, .gz or {SUFFIX}; a dump needs Posts.xml "
                "and PostLinks.xml"
            )
        return file_path

    def _plain(self, name: str) -> Path | None:
        """A file of the folder that is not in an archive."""
        if not self.path.is_dir():
            return None
        files = {file.name.lower(): file for file in self.path.iterdir() if file.is_file()}
        names = (f"{name.lower()}{ending}" for ending in ENDINGS)
        return next((files[name] for name in names if name in files), None)


def _archives(path: Path) -> list[Path]:
    """The archives of one site: ``path`` and those beside it with other files of its site."""
    folder = path if path.is_dir() else path.parent
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() == SUFFIX and file.is_file())
    if path.is_file():
        # "stackoverflow.com-Posts.7z" has "stackoverflow.com-PostLinks.7z" beside it.
        files = [
            path,
            *(file for file in files if file != path and "-" in path.stem and _site_of(file) == _site_of(path)),
        ]
    bases = sorted({_site_of(file) for file in files})
    if len(bases) > 1:
        raise ValueError(f"{path}: it holds archives of {len(bases)} sites; set dataset.path to one: {files[0]}")
    return files


def _site_of(archive: Path) -> str:
    """``stackoverflow.com`` of ``stackoverflow.com-Posts.7z``."""
    before, dash, part = archive.stem.rpartition("-")
    return before if dash and part.isalpha() and SITE.fullmatch(before.lower()) else archive.stem


def files_of(path: Path) -> dict[str, int]:
    """The unpacked size in bytes of each file of an archive, by its lower-case name without folders.

    Raises:
        ValueError: The archive is damaged or encrypted, or py7zr is not installed.
    """
    with _open_archive(path) as archive:
        return {_base_name(file.filename): file.uncompressed for file in archive.list() if file.is_file}


def check_archive(path: Path) -> None:
    """Raises ValueError unless a file is an archive that holds the posts and links of a site."""
    sizes = files_of(path)
    missing = [name for name in NEEDED if name not in sizes]
    if missing:
        raise ValueError(f"{path}: the archive holds no {missing[0]}, only {', '.join(sorted(sizes)[:5]) or 'no file'}")


def unpack_file(path: Path, name: str, folder: Path, limit: UnpackLimit) -> Path:
    """Unpacks one file of an archive into ``folder``, while a bar shows the progress.

    Args:
        path: The archive.
        name: The file's name, as in ``files_of``.
        folder: An existing folder.
        limit: Counts the unpacked bytes of all files of the dump, and has counted the archive's size.

    Raises:
        ValueError: The archive is damaged, or the file is too large for the limit or the disk.
    """
    target = folder / name
    with _open_archive(path) as archive, target.open("wb") as out, item_progress("MB") as progress:
        member = next(file for file in archive.list() if file.is_file and _base_name(file.filename) == name)
        check_space(folder, member.uncompressed, "dataset.path=")
        task = progress.add_task(f"unpacking {name}", total=member.uncompressed / 1e6)

        def advance(count: int) -> None:
            limit.add(path, count)
            progress.advance(task, count / 1e6)

        # The factory, not a name in the archive, decides where the file is written.
        archive.extract(targets=[member.filename], factory=_writer_factory(out, advance))
    return target


@contextmanager
def _open_archive(path: Path) -> Iterator[Any]:
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
        if error.errno is not None:  # an error of the disk
            raise
        raise ValueError(f"{path}: the archive is damaged ({error}); {FETCH_AGAIN}") from error
    except damaged as error:
        raise ValueError(f"{path}: the archive is damaged ({type(error).__name__}); {FETCH_AGAIN}") from error


def _base_name(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).name.lower()


def _writer_factory(out: IO[bytes], advance: Callable[[int], None]) -> Any:
    """A factory of py7zr that writes to ``out`` and calls ``advance`` with the number of bytes."""
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
