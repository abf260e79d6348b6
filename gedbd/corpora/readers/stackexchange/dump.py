"""Find the files of a dump: plain, packed as ``.xz`` or ``.gz``, or in the ``.7z`` archives as they are published."""

import os
import re
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from gedbd.corpora.readers.stackexchange.archive import SUFFIX, files_of, unpack_file
from gedbd.io.unpacking import UnpackLimit

ENDINGS = (".xml", ".xml.xz", ".xml.gz")
SITE = re.compile(
    r"(?:[a-z0-9-]+\.)*(?:(?:stackexchange|askubuntu|stackoverflow|superuser|serverfault|stackapps)\.com|mathoverflow\.net)"
)


class Dump:
    """The files of one site; those of an archive are unpacked to a temporary folder, which vanishes on exit.

    Args:
        path: A folder with the files or archives, or an archive. Where Posts.xml lies in a folder, archives beside it
            do not count.

    Attributes:
        path: As given.
        site: The host, such as ``askubuntu.com``, if the name of the archive or folder is one; else empty.
        limit: Limits the unpacked bytes of all files together.

    Raises:
        ValueError: There is no such folder or archive.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise ValueError(f"{path}: no such folder or archive; set dataset.path= to an existing one")
        if path.is_file() and path.suffix.lower() != SUFFIX:
            raise ValueError(f"{path}: give the folder with Posts.xml and PostLinks.xml, or a {SUFFIX} archive")
        self.path = path
        self.limit = UnpackLimit()
        self._folder = path if path.is_dir() else path.parent
        self._archives = [] if self._plain("Posts") else _archives(path)
        for archive in self._archives:
            self.limit.open(archive)
        self.site = _site(self._archives[0] if self._archives else path)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def find(self, name: str) -> Path | None:
        """A file such as ``Posts`` that ``read_rows`` can read, unpacked if it is in an archive; None without one.

        Raises:
            ValueError: An archive is damaged or unpacks to too much.
        """
        if plain := self._plain(name):
            return plain
        for archive in self._archives:
            if _may_hold(archive, name) and f"{name.lower()}.xml" in files_of(archive):
                return unpack_file(archive, f"{name.lower()}.xml", self._temporary_folder(), self.limit)
        return None

    def needed(self, name: str) -> Path:
        """Like ``find``, for a file that must exist.

        Raises:
            ValueError: It does not exist.
        """
        found = self.find(name)
        if found is None:
            raise ValueError(
                f"{self.path}: it holds no {name}.xml, plain or packed as .xz, .gz or {SUFFIX}; a dump needs Posts.xml "
                "and PostLinks.xml"
            )
        return found

    def _plain(self, name: str) -> Path | None:
        """A file of the folder that is not in an archive."""
        if not self.path.is_dir():
            return None
        there = {file.name.lower(): file for file in self.path.iterdir() if file.is_file()}
        found = [there[f"{name.lower()}{ending}"] for ending in ENDINGS if f"{name.lower()}{ending}" in there]
        return found[0] if found else None

    def _temporary_folder(self) -> Path:
        if self._temporary is None:
            # The disk of /tmp is often too small for gigabytes.
            place = self._folder if os.access(self._folder, os.W_OK) else None
            self._temporary = tempfile.TemporaryDirectory(dir=place, prefix=".unpacked-")
        return Path(self._temporary.name)


def _archives(path: Path) -> list[Path]:
    """The archives of one site: the given one and those beside it that hold other files of its site.

    Raises:
        ValueError: A folder holds archives of several sites.
    """
    folder = path if path.is_dir() else path.parent
    found = sorted(file for file in folder.iterdir() if file.suffix.lower() == SUFFIX and file.is_file())
    if path.is_file():
        # "stackoverflow.com-Posts.7z" has "stackoverflow.com-PostLinks.7z" beside it.
        found = [path, *(file for file in found if file != path and "-" in path.stem and _base(file) == _base(path))]
    bases = sorted({_base(file) for file in found})
    if len(bases) > 1:
        raise ValueError(f"{path}: it holds archives of {len(bases)} sites; set dataset.path to one: {found[0]}")
    return found


def _base(archive: Path) -> str:
    """``stackoverflow.com`` of ``stackoverflow.com-Posts.7z``."""
    before, dash, part = archive.stem.rpartition("-")
    return before if dash and part.isalpha() and SITE.fullmatch(before.lower()) else archive.stem


def _may_hold(archive: Path, name: str) -> bool:
    """Whether an archive is that of the whole site, or that of this file."""
    part = archive.stem.removeprefix(_base(archive)).removeprefix("-")
    return part.lower() in {"", name.lower()}


def _site(place: Path) -> str:
    name = _base(place) if place.suffix.lower() == SUFFIX else place.resolve().name
    return name.lower() if SITE.fullmatch(name.lower()) else ""
